"""Prediction (b): do the rungs whose updates need predicts gain by need? From both studies."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from needlab.core.tables import Table, read_json, read_table, write_json
from needlab.report.claims import Claim, Verdict
from needlab.studies.locality.backup_analysis import advantages, rank_correlation
from needlab.studies.locality.ladder import RUNGS

HOLDS, REFUTED = -0.6, -0.2
"""Spearman's correlation: at most this, and above that."""
SOURCE = "preregistration (b)"


def judged(summary: Table, data: Table, preset: str) -> Claim:
    """The claim, from the ladder's ``summary`` and the ``data`` of value-of-backup."""
    table = advantages(data)
    tasks = table.distinct("task")
    own = summary.where(ratio_of="need / none")
    rungs = [rung for rung in own["rung"].tolist() if RUNGS[rung].function]
    means, logs = [], []
    for rung in rungs:
        cells = [table.where(task=task, function=RUNGS[rung].function) for task in tasks]
        means.append(np.mean([cell["advantage"].mean() for cell in cells]))
        logs.append(np.log(own["ratio"][own["rung"].tolist().index(rung)]))
    found = rank_correlation(np.array(means), np.array(logs))
    verdict: Verdict = "holds" if found <= HOLDS else "undecided"
    if found > REFUTED:
        verdict = "does not hold"
    return Claim(
        statement="Need saves more steps where gain x need predicts a backup's effect better",
        source=SOURCE,
        measured=f"Spearman over {len(rungs)} rungs, of the ratio of steps with the advantage: "
        f"{found:.2f}",
        verdict=verdict,
        preset=preset,
        detail=f"Holds up to {HOLDS}; refuted above {REFUTED}.",
    )


def judge(ladder: str | Path, value_of_backup: str | Path) -> Claim:
    """Add the claim to the claims of the ladder's folder, in the place of an earlier one."""
    ladder, value_of_backup = Path(ladder), Path(value_of_backup)
    preset = ", ".join(read_json(ladder / "meta.json")["presets"])
    summary, data = read_table(ladder / "summary.csv"), read_table(value_of_backup / "data.csv")
    claim = judged(summary, data, preset)
    others = [one for one in read_json(ladder / "claims.json") if one["source"] != SOURCE]
    write_json(ladder / "claims.json", [*others, asdict(claim)])
    return claim
