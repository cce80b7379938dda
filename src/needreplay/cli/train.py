"""``needreplay train``: train a deep agent, or go on with one that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from needreplay.cli.overrides import parsed_overrides


@dataclass(frozen=True)
class Train:
    """Train a deep agent on a world; stopped in any way, the same command goes on.

    For example
      needreplay train --world minatar/breakout --agent per-sr --steps 200000 --out runs/a
      needreplay train --world CartPole-v1 --agent per --steps 20000 --out runs/b
      needreplay train --world minatar/asterix --agent per-sr --set scale=raw --out runs/c
    """

    out: Annotated[Path, arg(metavar="DIR")]
    """Folder of the run: config.json, metrics.csv, the newest checkpoint."""
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
    """Change one setting of the preset; may be given again. docs/deep.md lists them all."""
    device: Annotated[str, arg(metavar="NAME")] = "cpu"
    """cpu, cuda, cuda:1, ..."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Do it."""
        from needreplay.runs.training.config import RunConfig
        from needreplay.runs.training.watch import run_watched

        config = RunConfig(
            world=self.world,
            agent=self.agent,
            preset=self.preset,
            steps=self.steps,
            seed=self.seed,
            overrides=parsed_overrides(self.set),
            device=self.device,
        )
        path = run_watched(config, self.out)
        print(f"Done: {path}")
