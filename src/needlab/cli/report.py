"""``needreplay report``: one page of a sweep's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from needlab.cli.arguments import check_least, folder_named


@dataclass(frozen=True)
class Report:
    """Write one offline HTML page of a sweep's results, and its numbers as CSV.

    For example
      needreplay report sweeps/minatar-small

    A folder from somebody else is read as data: nothing in it is executed.
    """

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder of a sweep, finished or not."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Of the bootstrap: same seed, same numbers."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Run the command."""
        from needlab.report.sweep_page import write_sweep_page

        check_least(0, seed=self.seed)
        page = write_sweep_page(folder_named("DIR", self.folder), seed=self.seed)
        print(f"The page: {page}")
