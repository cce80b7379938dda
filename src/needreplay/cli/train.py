"""``needreplay train``: train a deep agent, or go on with one that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, UseAppendAction, arg

from needreplay.cli.overrides import parsed_overrides
from needreplay.core.errors import NeedReplayError

if TYPE_CHECKING:
    from needreplay.training.config import RunConfig


@dataclass(frozen=True)
class Train:
    """Train a deep agent on a world; stopped in any way, the same command goes on.

    For example
      needreplay train --world minatar/breakout --agent per-sr --steps 200000 --out runs/a
      needreplay train --world CartPole-v1 --agent per --steps 20000 --out runs/b
      needreplay train --world minatar/asterix --agent per-sr --set scale=raw --out runs/c
      needreplay train --world atari/Pong --preset released --settings
    """

    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(needed to train)")] = None
    """Folder of the run: config.json, metrics.csv, the newest checkpoint, done.json."""
    world: Annotated[str, arg(metavar="NAME")] = "minatar/breakout"
    """minatar/<game>, atari/<Game>, or any Gymnasium id with discrete actions."""
    agent: Annotated[str, arg(metavar="NAME")] = "per-sr"
    """uniform, per, rank, pser, per-sr (need scales the update), per-sr-sampling (need is part of
    the probability), dqn, double-dqn."""
    preset: Annotated[str, arg(metavar="NAME")] = "corrected"
    """printed is the paper's text, released what its code did, corrected the code with its faults
    mended."""
    steps: Annotated[int, arg(metavar="N")] = 1_000_000
    """Steps of training; the last episode is played to its end."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """The run follows from it."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Change one setting of the preset; may be given again. --settings lists them all."""
    device: Annotated[str, arg(metavar="NAME")] = "cpu"
    """cpu, cuda, cuda:1, ..."""
    tensorboard: FlagCreatePairsOff[bool] = False
    """Also write the curves for TensorBoard, in DIR/tensorboard."""
    settings: FlagCreatePairsOff[bool] = False
    """Print every setting of this run with its value and what it means, and train nothing."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Do it."""
        from needreplay.training.config import RunConfig
        from needreplay.training.watch import run_watched

        config = RunConfig(
            world=self.world,
            agent=self.agent,
            preset=self.preset,
            steps=self.steps,
            seed=self.seed,
            overrides=parsed_overrides(self.set),
            device=self.device,
        )
        if self.settings:
            print(settings_text(config))
            return
        if self.out is None:
            raise NeedReplayError("Say where the run is to be kept: --out DIR.")
        path = run_watched(config, self.out, tensorboard=self.tensorboard)
        print(f"{outcome(path)} -> {path}")


def outcome(metrics: Path) -> str:
    """A finished run in one line."""
    from needreplay.core.tables import read_json
    from needreplay.training.folder import DONE

    done = read_json(metrics.parent / DONE)
    words = [f"{done['steps']:,} steps"]
    for name, word in (("train_return", "in training"), ("eval_return", "in evaluation")):
        if name in done:
            told = done[name]
            words.append(f"return {word} {told['final']:.4g} (best {told['best']:.4g})")
    return ", ".join(words)


def settings_text(config: RunConfig) -> str:
    """Every setting of a run: name, value, what it may be, what it means."""
    from needreplay.training.config import explained

    lines = [f"{config.agent} on {config.world}, preset {config.preset}:"]
    resolved = config.resolved()
    for heading in ("agent", "world", "protocol"):
        lines += ["", f"{heading}:"]
        for each in explained(getattr(resolved, heading)):
            mark = "*" if each.name in config.overrides else " "
            value = str(each.value).lower() if isinstance(each.value, bool) else each.value
            lines.append(f"{mark} {each.name:<26} {value!s:<12} {each.meaning}")
            if each.choices:
                lines.append(f"{'':<42}({', '.join(each.choices)})")
    return "\n".join([*lines, "", "Change any with --set NAME=VALUE; * marks those changed here."])
