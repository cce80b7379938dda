"""``needreplay eval``: play a trained agent, and write a page of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from needlab.cli.arguments import AllowCode, check_least, folder_named
from needreplay._core.errors import counted


@dataclass(frozen=True)
class Eval:
    """Play the newest checkpoint of a run: returns of complete episodes, and how accurate need is.

    For example
      needreplay eval runs/a --episodes 30
      needreplay eval runs/a --watch page.html
    """

    run_folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder that needreplay train (or a run of a sweep) wrote."""
    episodes: Annotated[int, arg(metavar="N")] = 10
    """Episodes to play."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same episodes."""
    epsilon: Annotated[float | None, arg(metavar="X")] = None
    """Probability of random actions; the run's own unless given."""
    watch: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """Also write an offline page that plays the first episode (at most 500 steps of it) beside the
    run's replay buffer: the stored transitions with the largest need now, and the frames that are
    replayed most."""
    allow_code: AllowCode = ()
    """Let the run import this module for its world, agent, sampler or network; repeat for more."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        from needlab.runs.evaluation import load_player

        check_least(1, episodes=self.episodes)
        check_least(0, seed=self.seed)
        player = load_player(
            folder_named("DIR", self.run_folder),
            epsilon=self.epsilon,
            with_buffer=self.watch is not None,
            allow_code=self.allow_code,
        )
        store = player.empty_store()
        returns = [each.total for each in player.play(self.episodes, self.seed, store=store)]
        config = player.config
        lines = [
            f"{config.agent} on {config.world} after {player.steps:,} steps: return "
            f"{_summary(returns, self.seed)} ({counted(len(returns), 'episode')}, "
            f"seed {self.seed})"
        ]
        quality = player.need_quality(store, self.seed)
        if quality is not None:
            lines.append(f"Need: {quality.text()}")
        print("\n".join(lines))
        if self.watch is not None:
            import shlex

            from needlab.report.deep_page import write_deep_page

            page = write_deep_page(
                self.watch, player, seed=self.seed, notes=lines, command=shlex.join(argv)
            )
            print(f"The page, {page.stat().st_size / 1e6:.2f} MB: {page}")


def _summary(returns: list[float], seed: int) -> str:
    """Mean, interval and range; the return of a single episode."""
    from needlab.report.statistics import mean_interval
    from needreplay._core.rng import stream

    if len(returns) == 1:
        return f"{returns[0]:.4g}"
    mean = mean_interval(returns, stream(seed, "interval"))
    return f"{mean.text(digits=4)}, lowest {min(returns):.4g}, highest {max(returns):.4g}"
