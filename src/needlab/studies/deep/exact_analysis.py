"""What the runs of the exact-need study say: every difference with its interval, and the claims.

All of it follows from the table of areas, one row for each task, arm and seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.report.aggregate import holm, stratified_difference
from needlab.report.claims import Claim, tested_verdict
from needlab.report.statistics import permutation_test
from needlab.studies.deep.arms_figure import draw_arms
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

ALL_TASKS = "mean over tasks"


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
        found = {task: stratified_difference([own], [rival]) for task, own, rival in in_task}
        found[ALL_TASKS] = stratified_difference(one.own, one.rivals)
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
        interval, visible = stratified_difference(one.own, one.rivals)
        pairs = zip(one.own, one.rivals, strict=True)
        ahead = sum(own.mean() > rival.mean() for own, rival in pairs)
        claims.append(
            Claim(
                statement=f"{one.arm} learns faster than {one.rival}",
                source="preregistration",
                measured=f"difference in area, mean over tasks: {interval.text()}, ahead in "
                f"{ahead} of {len(one.tasks)} tasks, p = {p:.2g} after Holm",
                verdict=tested_verdict(p, interval.estimate > 0),
                preset=preset,
                detail="Stratified permutation test, which divides a task's difference by its "
                "spread; the interval does not. It is Student's, of runs paired by seed, for this "
                f"comparison alone. At that level a true difference of {visible:.3f} is seen with "
                "90% power.",
            )
        )
    return claims


def draw(data: Table) -> Figure:
    """The area of each arm in each task."""
    tasks, arms = (data.distinct(name) for name in ("task", "arm"))
    return draw_arms(tasks, arms, lambda task, arm: areas(data, task, arm), _is_need)


def _is_need(arm: str) -> bool:
    return arm.startswith(("exact", "relative", "recent", "start")) and "shuffled" not in arm
