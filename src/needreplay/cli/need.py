"""``needreplay need``: a page of what a trained agent's need ranks first and last."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from needreplay.cli.arguments import AllowCode, check_least, folder_named
from needreplay.core.errors import NeedReplayError


@dataclass(frozen=True)
class Need:
    """Write the page of needreplay eval --watch for a run with need, without playing more episodes.

    It plays one episode. At every step: the true next frames, and the stored ones that need ranks
    first, last and at random. For example
      needreplay need runs/a
    """

    run_folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder that needreplay train wrote, of an agent with need."""
    out: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """The page; need.html in the run's folder unless given."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same episode."""
    steps: Annotated[int, arg(metavar="N")] = 500
    """Steps of the episode to show, at most."""
    allow_code: AllowCode = ()
    """Let the run import this module for its world, agent, sampler or network; repeat for more."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        from needreplay.core.rng import stream
        from needreplay.report.deep_page import write_deep_page
        from needreplay.training.evaluation import load_player

        check_least(0, seed=self.seed)
        check_least(1, steps=self.steps)
        folder = folder_named("DIR", self.run_folder)
        player = load_player(folder, with_buffer=True, allow_code=self.allow_code)
        if not player.agent.settings.uses_need:
            raise NeedReplayError(
                f"This run's agent is {player.config.agent}, which has no need; train per-sr or "
                "per-sr-sampling."
            )
        path = self.out or folder / "need.html"
        command = shlex.join(argv)
        quality = player.agent.need_quality(stream(self.seed, "need quality"))
        assert quality is not None
        notes = [f"Need in the run's buffer: {quality.text()}"]
        write_deep_page(
            path, player, seed=self.seed, most_steps=self.steps, notes=notes, command=command
        )
        print("The page:", path)
