"""``needreplay bench``: speed, as ratios to named peers measured in the same run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from needreplay.cli.arguments import check_least


@dataclass(frozen=True)
class Bench:
    """Measure speed against other libraries, in one run on one core.

    For example
      pip install cpprb stable-baselines3 tianshou
      needreplay bench replay              the replay buffer against cpprb, tianshou and SB3
      needreplay bench replay --json FILE  and save the numbers of every round
    """

    what: Annotated[Positional[Literal["replay"]], arg(metavar="{replay}")]
    """What to measure. replay: the prioritized replay buffer."""
    rounds: Annotated[int, arg(metavar="N")] = 9
    """Alternating rounds; the table shows medians over them."""
    capacity: Annotated[int, arg(metavar="N")] = 1_000_000
    """Transitions in each buffer."""
    clock: Literal["wall", "cpu"] = "wall"
    """cpu: leave out the time that other processes take on a busy machine."""
    json: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write the numbers of every round here."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Run the command."""
        check_least(1, rounds=self.rounds, capacity=self.capacity)
        # Libraries read these when they are first imported.
        for library in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
            os.environ[f"{library}_NUM_THREADS"] = "1"
        import warnings

        from needreplay.bench.replay import TASKS, run
        from needreplay.core.progress import Progress
        from needreplay.core.tables import write_json

        # Warnings of other libraries at import would end up in the middle of the table.
        warnings.simplefilter("ignore")
        with Progress().task("replay", total=len(TASKS)) as bar:
            report = run(
                rounds=self.rounds, capacity=self.capacity, clock=self.clock, done=bar.advance
            )
        print(report.text())
        if self.json is not None:
            write_json(self.json, asdict(report))
