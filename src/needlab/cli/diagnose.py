"""``needreplay diagnose``: how local the updates of a trained agent are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from needlab.cli.arguments import AllowCode, check_least, folder_named


@dataclass(frozen=True)
class Diagnose:
    """Make single updates on a copy of a run's network: how far they spread, what predicts them.

    For example
      needreplay diagnose runs/a --page diagnosis.html
    """

    run_folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder that needreplay train (or a run of a sweep) wrote."""
    updates: Annotated[int, arg(metavar="N")] = 128
    """Updates to make."""
    queries: Annotated[int, arg(metavar="N")] = 16
    """Present states that effects are seen from."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same transitions."""
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """Also write an offline page with every update."""
    allow_code: AllowCode = ()
    """Let the run import this module for its world, agent, sampler or network; repeat for more."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        from needlab.runs.diagnosis import diagnose_run

        check_least(8, updates=self.updates)
        check_least(1, queries=self.queries)
        check_least(0, seed=self.seed)
        found = diagnose_run(
            folder_named("DIR", self.run_folder),
            updates=self.updates,
            queries=self.queries,
            seed=self.seed,
            allow_code=self.allow_code,
        )
        print(found.text())
        if self.page is not None:
            import shlex

            from needlab.report.diagnosis_page import write_diagnosis_page

            print(f"The page: {write_diagnosis_page(self.page, found, note=shlex.join(argv))}")
