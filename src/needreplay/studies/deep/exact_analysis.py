"""What the runs of the exact-need study say: every difference with its interval, and the claims.

All of it follows from the table of areas, one row for each task, arm and seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.tables import Table, long_table
from needreplay.core.types import FloatArray
from needreplay.report.aggregate import holm
from needreplay.report.claims import Claim, Verdict
from needreplay.report.figures import new_figure
from needreplay.report.statistics import LEVEL, Interval, permutation_test, student_interval

POWER = 0.9
ALL_TASKS = "mean over tasks"


class Difference(NamedTuple):
    """How far an arm is ahead of its rival."""

    interval: Interval
    visible: float
    """the smallest true difference that is seen (the interval leaves out 0) with ``POWER``"""


def difference(a: Sequence[FloatArray], b: Sequence[FloatArray]) -> Difference:
    """The mean over tasks of mean(a - b), with Student's interval for paired seeds.

    Runs of a task with the same seed begin with the same network and share random numbers, so they
    are paired. With s² the variance of a - b in one of K tasks and v = s² / n that of its mean:

        variance of the mean over tasks = Σ v / K²,  degrees of freedom = (Σ v)² / Σ (v² / (n - 1))

    The true difference that is seen with 90% power is (t_.975 + t_.9) times its root. Interval and
    power are infinite below two seeds.

    Args:
        a: for each task, one number for each seed.
        b: the same tasks and seeds.
    """
    gaps = [one - other for one, other in zip(a, b, strict=True)]
    gap, counts = float(np.mean([each.mean() for each in gaps])), np.array([*map(len, gaps)])
    if counts.min() < 2:
        return Difference(Interval(gap, -np.inf, np.inf), np.inf)
    variances = np.array([each.var(ddof=1) for each in gaps]) / counts
    if not variances.any():
        return Difference(Interval(gap, gap, gap), 0.0)
    freedom = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    error = float(np.sqrt(variances.sum())) / len(gaps)
    half, power = (float(t.ppf(share, freedom)) * error for share in (0.5 + LEVEL / 2.0, POWER))
    return Difference(Interval(gap, gap - half, gap + half), half + power)


def areas(data: Table, task: str, arm: str) -> FloatArray:
    """One number for each seed."""
    return data.where(task=task, arm=arm)["area"]


class Comparison(NamedTuple):
    """An arm, its rival, and the areas of both in the tasks that have both."""

    arm: str
    rival: str
    tasks: list[str]
    own: list[FloatArray]
    rivals: list[FloatArray]


def comparisons(data: Table, tests: Iterable[tuple[str, str]]) -> list[Comparison]:
    """Those of ``tests`` whose two arms were run."""
    arms: dict[str, set[str]] = {}
    for task, arm in zip(data["task"].tolist(), data["arm"].tolist(), strict=True):
        arms.setdefault(task, set()).add(arm)
    found = []
    for pair in tests:
        tasks = [task for task in arms if arms[task].issuperset(pair)]
        for task in tasks:
            one, other = (data.where(task=task, arm=arm)["seed"].tolist() for arm in pair)
            if one != other:
                raise NeedReplayError(
                    f"{pair[0]} and {pair[1]} have other seeds in {task}, or in another order; "
                    "compare complete rounds."
                )
        if tasks:
            own, rivals = ([areas(data, task, arm) for task in tasks] for arm in pair)
            found.append(Comparison(*pair, tasks, own, rivals))
    return found


def differences(compared: Iterable[Comparison]) -> Table:
    """Each comparison in each task, and over all of them, with 95% intervals."""
    rows = {}
    for one in compared:
        in_task = zip(one.tasks, one.own, one.rivals, strict=True)
        found = {task: difference([own], [rival]) for task, own, rival in in_task}
        found[ALL_TASKS] = difference(one.own, one.rivals)
        for task, (interval, visible) in found.items():
            columns = interval.columns("difference") | {"visible": visible}
            rows[one.arm, one.rival, task] = columns
    return long_table(("arm", "rival", "task"), rows)


def claims_of(compared: Sequence[Comparison], preset: str, seed: int) -> list[Claim]:
    """A claim for each comparison: a stratified permutation test, Holm over all of them."""
    rng = stream(seed, "exact need", "claims")
    adjusted = holm([permutation_test(one.own, one.rivals, rng, paired=False) for one in compared])
    claims = []
    for one, p in zip(compared, adjusted, strict=True):
        interval, visible = difference(one.own, one.rivals)
        pairs = zip(one.own, one.rivals, strict=True)
        ahead = sum(own.mean() > rival.mean() for own, rival in pairs)
        verdict: Verdict = "undecided"
        if p < 0.05:
            verdict = "holds" if interval.estimate > 0 else "does not hold"
        claims.append(
            Claim(
                statement=f"{one.arm} learns faster than {one.rival}",
                source="preregistration",
                measured=f"difference in area, mean over tasks: {interval.text()}, ahead in "
                f"{ahead} of {len(one.tasks)} tasks, p = {p:.2g} after Holm",
                verdict=verdict,
                preset=preset,
                detail="Stratified permutation test, which divides a task's difference by its "
                "spread; the interval does not. It is Student's, of runs paired by seed, for this "
                f"comparison alone. At that level a true difference of {visible:.3f} is seen with "
                "90% power.",
            )
        )
    return claims


def draw(data: Table) -> Figure:
    """Each arm in each task: the mean area with Student's interval, and seeds as small dots."""
    tasks = list(dict.fromkeys(data["task"].tolist()))
    arms = list(dict.fromkeys(data["arm"].tolist()))
    columns = min(3, len(tasks))
    figure, grid = new_figure(-(-len(tasks) // columns), columns, height=0.9 + 0.24 * len(arms))
    figure.set_figheight((0.9 + 0.24 * len(arms)) * len(grid))
    for number, axes in enumerate(grid.ravel()):
        if number >= len(tasks):
            axes.set_visible(False)
            continue
        for place, arm in enumerate(arms):
            own = areas(data, tasks[number], arm)
            if len(own) == 0:
                continue  # not an arm of this block
            interval = student_interval(own)
            right = arm.startswith(("exact", "relative", "recent", "start"))
            color = "#D55E00" if right and "shuffled" not in arm else "#0072B2"
            axes.plot(own, np.full(len(own), place), ".", color=color, alpha=0.3, markersize=4)
            axes.plot(interval.estimate, place, "o", color=color, markersize=4)
            if np.isfinite(interval.low):
                axes.plot([interval.low, interval.high], [place, place], color=color)
        axes.set_title(tasks[number], fontsize=9)
        axes.set_yticks(range(len(arms)), arms if number % columns == 0 else [], fontsize=7)
        axes.invert_yaxis()
    return figure
