"""What is a backup worth, and does need predict it? The preregistered test of the theory.

``docs/preregistration.md`` fixed classes, factors, numbers and predictions before the runs.
``value.py`` has the equations, ``backup.py`` what is measured of a run, ``classes.py`` the classes
of functions, ``backup_analysis.py`` what the runs say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from needlab.core.tables import long_table
from needlab.runs.trials import Columns, TrialRunner
from needlab.studies.locality import backup
from needlab.studies.locality.backup import FACTORS, MORE, SEEN_FROM, Case, measure
from needlab.studies.locality.backup_analysis import claims_of, draw, summary
from needlab.studies.locality.classes import CLASSES
from needlab.studies.study import Options, Result, Study

TASKS = {
    "main": ("FourRooms", "MultiRoom", "deep sea"),
    "more": ("moving goal", "twelve mazes", "DistShift"),
}
SEEDS = {"main": 10, "more": 5}
MORE_SEEDS = 5
"""Seeds of ``main`` in which effects beyond first order are measured."""
QUICK_TASKS, QUICK_CLASSES = ("deep sea",), ("table", "radial 3", "network 64")
DIGITS = 3


def run(options: Options, runner: TrialRunner) -> Result:
    """Measure runs of every task and class, seed by seed, then hold them against the plan."""
    quick, parts = options.size == "quick", []
    functions = QUICK_CLASSES if quick else tuple(CLASSES)
    for preset in options.presets:
        tasks = QUICK_TASKS if quick else TASKS[preset]
        more = MORE_SEEDS if preset == "main" and not quick else 0
        seeds = options.trials or (2 if quick else SEEDS[preset])
        for seed in range(options.seed, options.seed + seeds):
            measured = max(0, min(1, more - (seed - options.seed)))
            cases = [Case(task, name, seed, measured) for task in tasks for name in functions]
            label = f"value of backup, {preset}, {options.size}, seed {seed}"
            found = runner.run(measure, cases, 1, label=label, seconds=10.0)
            parts += [_rows(case, columns) for case, columns in found.items()]
    data = long_table(("task", "function", "seed"), parts)
    return Result(
        tables={"data": data, "summary": summary(data)},
        figures={"figure": draw(data)},
        captions={
            "figure": "How much better gain x need predicts the size of a backup's effect on the "
            "value of the present state than gain alone, by locality of the update: the share of "
            "the change of Q that falls on states at most two steps away. Large: means over seeds."
        },
        claims=claims_of(data, ", ".join(options.presets), options.seed),
        config={"classes": list(functions), "steps": backup.STEPS, "factors": list(FACTORS)},
        notes=["The design was fixed in docs/preregistration.md before the runs."],
    )


def _rows(case: Case, columns: Columns) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A row for each checkpoint, effect and view; a column for each factor, of size and sign."""
    first, more = columns["correlation"][0], columns["more"][0]
    steps = (np.arange(len(first)) + 1) * (backup.STEPS // backup.CHECKPOINTS)
    rows = [
        (steps[i], "first order", view, first[i, view], i)
        for i, view in np.ndindex(first.shape[:2])
    ]
    if np.isfinite(more).all():
        for i, effect, view in np.ndindex(more.shape[:3]):
            at = 2 * i + 1
            rows.append((steps[at], MORE[effect], view, more[i, effect, view], at))
    correlation = np.round(np.stack([row[3] for row in rows]).astype(np.float64), DIGITS)
    at = np.array([row[4] for row in rows])
    return (case.task, case.function, case.seed), {
        "steps": np.array([row[0] for row in rows]),
        "effect": np.array([row[1] for row in rows]),
        "seen_from": np.array([SEEN_FROM[row[2]] for row in rows]),
        "locality": np.round(columns["locality"][0][at], DIGITS),
        "value": np.round(columns["value"][0][at], DIGITS),
        **{f"size: {name}": correlation[:, i, 0] for i, name in enumerate(FACTORS)},
        **{f"sign: {name}": correlation[:, i, 1] for i, name in enumerate(FACTORS)},
    }


STUDY = Study(
    name="value-of-backup",
    title="What a backup is worth",
    question="Does gain x need predict the effect of an update on the policy's value, and does "
    "that depend on how local updates are?",
    presets=tuple(TASKS),
    quick_presets=("main",),
    run=run,
    documentation="docs/why_need_pays.md",
    keeps_cache=True,
)
