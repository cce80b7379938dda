"""One agent against another: probability of improvement, and paired tests over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import FloatArray
from needreplay.report.aggregate import (
    FEWEST_RUNS,
    RESAMPLES,
    Scores,
    checked,
    percentile_interval,
    resampled,
)
from needreplay.report.statistics import Interval, difference_interval


def improvement_probability(
    first: Scores,
    second: Scores,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """P(X > Y) of a random run X of ``first`` and Y of ``second`` on a random task; ties count ½.

    >>> improvement_probability([[1.0, 3.0]], [[2.0, 3.0]], np.random.default_rng(0)).estimate
    0.375
    """
    tasks = list(zip(checked(first), checked(second), strict=False))
    if len(tasks) != len(first) or len(tasks) != len(second):
        raise NeedReplayError("first and second must hold the same tasks, in the same order.")
    estimate = float(np.mean([_above(x[np.newaxis], y[np.newaxis])[0] for x, y in tasks]))
    if min(min(len(x), len(y)) for x, y in tasks) < FEWEST_RUNS:
        return Interval(estimate, -np.inf, np.inf, level)
    drawn = np.mean(
        [_above(resampled(x, rng, resamples), resampled(y, rng, resamples)) for x, y in tasks],
        axis=0,
    )
    return percentile_interval(estimate, drawn, level)


def _above(x: FloatArray, y: FloatArray) -> FloatArray:
    """[resample]: the share of pairs in which x is larger, a tie half (Mann & Whitney's U / nm)."""
    total = np.zeros(len(x))
    for column in range(x.shape[1]):
        mine = x[:, column, np.newaxis]
        total += (mine > y).sum(axis=1) + 0.5 * (mine == y).sum(axis=1)
    shares: FloatArray = total / (x.shape[1] * y.shape[1])
    return shares


@dataclass(frozen=True)
class Paired:
    """What came of comparing two agents trial by trial."""

    difference: Interval
    """mean of first − second"""
    pairs: int
    p_value: float
    """Wilcoxon's signed-rank test, two-sided; 1 where all pairs are equal"""


def paired_test(first: npt.ArrayLike, second: npt.ArrayLike, rng: np.random.Generator) -> Paired:
    """Compare two agents that shared their seeds: entry i of both is the same seed."""
    from scipy.stats import wilcoxon

    interval = difference_interval(first, second, rng, paired=True)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if (a == b).all():
        return Paired(interval, len(a), 1.0)
    return Paired(interval, len(a), float(wilcoxon(a, b).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment for testing several times.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[int(index)] = largest
    return adjusted
