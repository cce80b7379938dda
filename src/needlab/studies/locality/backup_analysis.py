"""What the values of backups say: every number of the plan, its claims and its figure.

All of it follows from two tables, one row for each run and checkpoint, so that it can be made again
without the runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from needlab.core.tables import Table, long_table
from needlab.report.claims import Claim, Verdict
from needlab.report.figures import colors_of, new_figure
from needlab.report.statistics import Interval, percentile_interval, student_interval
from needlab.studies.locality.backup import FACTORS
from needlab.studies.locality.classes import CLASSES
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

RESAMPLES = 10_000
PRODUCT, LOCAL, SPREAD = "gain x need", "table", "network 64"
STRONG, WEAK = 0.7, 0.3
"""The average correlation of advantage and locality: the theory's, and what refutes it."""


def advantages(data: Table, product: str = PRODUCT, seen_from: str = "present") -> Table:
    """By task, class and seed: locality, and rank correlation with ``product`` less gain's."""
    rows = {}
    own = data.where(effect="first order", seen_from=seen_from)
    for task in own.distinct("task"):
        for name in CLASSES:
            cell = own.where(task=task, function=name)
            seeds = cell["seed"]
            if not len(seeds):
                continue
            ahead = cell[f"size: {product}"] - cell["size: gain"]
            rows[task, name] = {
                "seed": np.unique(seeds),
                "locality": _by_seed(seeds, cell["locality"]),
                "advantage": _by_seed(seeds, ahead),
            }
    return long_table(("task", "function"), rows)


def _by_seed(seeds: FloatArray, values: FloatArray) -> FloatArray:
    """The mean over checkpoints, one number for each seed."""
    found: FloatArray = np.array([values[seeds == seed].mean() for seed in np.unique(seeds)])
    return found


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation."""
    return float(spearmanr(first, second).statistic)


def with_locality(table: Table, task: str, seed: int) -> Interval:
    """Spearman's correlation over classes of the means of locality and advantage; seeds drawn."""
    own = table.where(task=task)
    classes = own.distinct("function")
    numbers = np.array(
        [[own.where(function=name)[n] for n in ("locality", "advantage")] for name in classes]
    )  # [class, number, seed]
    rng = stream(seed, "value of backup", "bootstrap", task)
    drawn = rng.integers(numbers.shape[2], size=(RESAMPLES, numbers.shape[2]))
    means = np.stack([numbers[:, :, rows].mean(axis=2) for rows in drawn])
    estimate = rank_correlation(*numbers.mean(axis=2).T)
    return percentile_interval(estimate, np.array([rank_correlation(*each.T) for each in means]))


def claims_of(data: Table, preset: str, seed: int) -> list[Claim]:
    """Predictions (a1) and (a2), and whether the theory is refuted by its own rule."""
    table = advantages(data)
    tasks = table.distinct("task")
    found = {task: with_locality(table, task, seed) for task in tasks}
    average = float(np.mean([one.estimate for one in found.values()]))
    each = "; ".join(f"{task} {one.text(2)}" for task, one in found.items())
    holds = average >= STRONG and all(one.low > 0.0 for one in found.values())
    rises: Verdict = "holds" if holds else "does not hold" if average < WEAK else "undecided"
    claims = [
        Claim(
            statement="The advantage of gain x need over gain rises with locality",
            source="preregistration (a1)",
            measured=f"Spearman over {len(CLASSES)} classes: {average:.2f} on average; {each}",
            verdict=rises,
            preset=preset,
            detail=f"Holds from {STRONG} on if every interval (bootstrap over seeds) is above 0; "
            f"refuted below {WEAK}.",
        )
    ]
    for name, sign, said in ((LOCAL, 1.0, "above"), (SPREAD, -1.0, "below")):
        intervals = {
            task: student_interval(table.where(task=task, function=name)["advantage"])
            for task in tasks
        }
        right = sum(bool(min(sign * one.low, sign * one.high) > 0.0) for one in intervals.values())
        wrong = sum(sign * one.estimate <= 0.0 for one in intervals.values())
        verdict: Verdict = "holds" if right == len(tasks) else "undecided"
        if wrong >= 2:
            verdict = "does not hold"
        claims.append(
            Claim(
                statement=f"The advantage is {said} 0: {name}",
                source="preregistration (a2)",
                measured="; ".join(f"{task} {one.text(2)}" for task, one in intervals.items()),
                verdict=verdict,
                preset=preset,
                detail="Rank correlation of the effect's size with gain x need less that with "
                "gain; Student's intervals over seeds.",
            )
        )
    return claims


def summary(data: Table) -> Table:
    """Each correlation, mean over checkpoints, with Student's interval over seeds."""
    rows = {}
    keys = ("task", "function", "effect", "seen_from")
    for key in data.distinct(*keys):
        own = data.where(**dict(zip(keys, key, strict=True)))
        for factor in FACTORS:
            for of in ("size", "sign"):
                interval = student_interval(_by_seed(own["seed"], own[f"{of}: {factor}"]))
                rows[*key, factor, of] = interval.columns("correlation")
    return long_table((*keys, "factor", "of"), rows)


def draw(data: Table) -> Figure:
    """Advantage against locality: a panel for each task, a color for each class."""
    table = advantages(data)
    tasks: Sequence[str] = table.distinct("task")
    figure, grid = new_figure(1, len(tasks), sharey=True)
    colors = colors_of(list(CLASSES))
    for axes, task in zip(grid[0], tasks, strict=True):
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        for name in CLASSES:
            own = table.where(task=task, function=name)
            if not len(own["seed"]):
                continue
            axes.plot(
                own["locality"], own["advantage"], ".", color=colors[name], alpha=0.3, markersize=4
            )
            axes.plot(
                own["locality"].mean(), own["advantage"].mean(), "o" if "net" in name else "s",
                color=colors[name], label=name, markersize=6,
            )  # fmt: skip
        axes.set_title(task, fontsize=9)
        axes.set_xlabel("locality of an update")
    grid[0, 0].set_ylabel("rank correlation with the effect:\ngain x need less gain")
    grid[0, -1].legend(fontsize=6)
    return figure
