"""``needreplay fit``: which model of replay explains recorded events, with which parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from needlab.cli.arguments import check_least


@dataclass(frozen=True)
class FitCommand:
    """Fit models of replay to recorded events and write one offline HTML page.

    For example
      needreplay fit events.csv --steps steps.csv --world maze.txt
      needreplay fit events.csv --steps steps.csv --world maze.txt --model evb --model recency

    FILE has the columns event, time, state (and if known action, length, agent_state); the file of
    --steps has time, state (and if known reward, episode, action). States are cells of the world,
    row by row from 0. Several models are compared by held-out likelihood and BIC.
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """Table of replayed states, or decoded positions."""
    steps: Annotated[Path, arg(metavar="FILE")]
    """Table of where the animal was."""
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME")] = ()
    """evb (the default), goals, sfma, sfma-dynamic, recency or uniform, also with fixed values:
    evb,need_exponent=0."""
    world: Annotated[str, arg(metavar="NAME")] = "linear-track"
    """As in needreplay watch: a name, or a maze as text (FILE.txt)."""
    free: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME")] = ()
    """Parameters to fit, with one model; by default its own choice."""
    intervals: Literal["profile", "bootstrap", "none"] = "profile"
    """Of the parameters: from the likelihood, or over episodes."""
    folds: Annotated[int, arg(metavar="N")] = 5
    """Of the cross-validation."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Of the starts of the search."""
    out: Annotated[Path, arg(metavar="FILE.html")] = Path("fit.html")
    """The page."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        import shlex

        from needlab.report.fit_page import write_fit_page
        from needlab.tabular.fit import compare_models, fit_events, read_data
        from needlab.worlds import tabular_schedule
        from needreplay._core.errors import NeedReplayError

        check_least(0, seed=self.seed)
        check_least(2, folds=self.folds)
        models = tuple(dict.fromkeys(self.model)) or ("evb",)
        if self.free and len(models) > 1:
            raise NeedReplayError(
                "--free is for one --model; with several, fix values: evb,need_exponent=0."
            )
        data = read_data(self.file, self.steps, tabular_schedule(self.world)[0][1])
        fits = [
            fit_events(data, one, free=self.free or None, intervals=self.intervals, seed=self.seed)
            for one in models
        ]
        comparison = None
        if len(models) > 1:
            comparison = compare_models(data, models, folds=self.folds, seed=self.seed)
        print(*(fits if comparison is None else [*fits, comparison]), sep="\n")
        page = write_fit_page(self.out, fits, comparison, note=shlex.join(argv))
        print(f"The page: {page}")
