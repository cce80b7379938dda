"""``needreplay reproduce``: make the paper's figures and the page that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from needlab.core.processes import usable_cores
from needlab.studies import STUDIES

_FIGURES = "\n".join(f"{listing.name}: {listing.shows}" for listing in STUDIES)


@dataclass(frozen=True)
class Reproduce:
    """Make the paper's figures on this machine, and one page that compares them with the paper.

    For example
      needreplay reproduce              everything, quickly
      needreplay reproduce fig2         one figure
      needreplay reproduce --size full  the paper's sizes
      needreplay reproduce fig2 --preset printed --trials 50
    """

    figures: Annotated[
        Positional[tuple[str, ...]],
        arg(
            name="figure",
            metavar="[FIGURE ...]",
            help=f"Which figures to make; none means all.\n{_FIGURES}".strip(),
            help_behavior_hint="",
        ),
    ] = ()
    preset: Annotated[
        UseAppendAction[tuple[tuple[str, ...], ...]],
        arg(
            metavar="NAME [NAME ...]",
            help_behavior_hint="(default: all a figure has; quick fig3: not printed)",
        ),
    ] = ()
    """Settings to run. printed: the paper's text; released: its code; corrected (fig3): its code
    without its faults."""
    trials: Annotated[
        int | None, arg(metavar="N", help_behavior_hint="(default: the figure's own number)")
    ] = None
    """Trials of each agent."""
    states: Annotated[
        tuple[int, ...],
        arg(metavar="N [N ...]", help_behavior_hint="(default: the preset's own sizes)"),
    ] = ()
    """fig3 only: numbers of states of the Cliffwalk; then only the paper's six methods run."""
    world: Annotated[
        str, arg(metavar="NAME|FILE.txt", help_behavior_hint="(default: the figure's own)")
    ] = ""
    """replay-counts only: another world, such as your own maze as text."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """With the same seed, data.csv is the same, byte for byte."""
    trial: Annotated[int, arg(metavar="K")] = 0
    """The trial to show where a picture or a log shows only one (fig1, maze-replay)."""
    workers: Annotated[int, arg(metavar="N")] = field(default_factory=usable_cores)
    """Processes at once. Results do not depend on it."""
    size: Literal["quick", "full"] = "quick"
    """quick: minutes for all figures together; full: the paper's size or more."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("reproduction")
    """Folder for the results: DIR/<figure>/ for each, and DIR/report.html for all of them."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        from needlab.studies.reproduce import reproduce
        from needlab.studies.study import Options

        options = Options(
            presets=tuple(name for names in self.preset for name in names),
            trials=self.trials,
            seed=self.seed,
            workers=self.workers,
            size=self.size,
            trial=self.trial,
            states=tuple(dict.fromkeys(self.states)),
            world=self.world,
        )
        reproduce(self.figures, options, self.out, argv)
