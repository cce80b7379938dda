"""What a run came to: best and final returns, of training and of evaluation."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

RETURNS = ("train_return", "eval_return")
LAST = 10


def summary_of(metrics: Path) -> dict[str, Any]:
    """For each kind of return the best iteration's, the last one's and the mean of the last ten.

    The paper's protocol reports the best; the others say whether it was kept.
    """
    with metrics.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    summary: dict[str, Any] = {"rows": len(rows)}
    for name in RETURNS:
        told = [(float(row[name]), int(row["iteration"])) for row in rows if row[name]]
        if not told:
            continue
        best, iteration = max(told, key=lambda pair: pair[0])
        last = [value for value, _ in told[-LAST:]]
        summary[name] = {
            "best": best,
            "best_iteration": iteration,
            "final": last[-1],
            f"last_{LAST}": sum(last) / len(last),
        }
    return summary
