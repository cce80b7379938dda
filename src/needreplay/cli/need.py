"""``needreplay need``: a page of what a trained agent's need ranks first and last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from needreplay.cli.arguments import AllowCode, check_seed, folder_named
from needreplay.core.errors import NeedReplayError


@dataclass(frozen=True)
class Need:
    """Draw the need of a run's newest checkpoint: the frames that it ranks first and last.

    For example
      needreplay need runs/a
    """

    run_folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder that needreplay train wrote, of an agent with need, in a world that renders images."""
    out: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """The page; need.html in the run's folder unless given."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same episodes."""
    moments: Annotated[int, arg(metavar="N")] = 5
    """Moments to show."""
    steps: Annotated[int, arg(metavar="N")] = 1_000
    """Steps to play."""
    allow_code: AllowCode = ()
    """Let the run import this module for its world, agent, sampler or network; repeat for more."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Run the command."""
        from needreplay.report.need_page import write_need_page
        from needreplay.training.evaluation import load_player

        check_seed(self.seed)
        folder = folder_named("DIR", self.run_folder)
        for name in ("moments", "steps"):
            if getattr(self, name) < 1:
                raise NeedReplayError(f"--{name} must be at least 1, not {getattr(self, name)}.")
        path = self.out or folder / "need.html"
        player = load_player(folder, allow_code=self.allow_code)
        write_need_page(player, path, seed=self.seed, moments=self.moments, most_steps=self.steps)
        print("The page:", path)
