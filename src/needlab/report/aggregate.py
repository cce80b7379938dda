"""Scores of several tasks as one number, one curve or one comparison (Agarwal et al. 2021).

Scores are normalized and larger is better: one array of runs for each task. Intervals are from a
stratified bootstrap: runs are drawn within their task. It is too narrow for few runs; below
``FEWEST_RUNS`` of any task there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needlab.report.statistics import (
    LEVEL,
    Band,
    Interval,
    difference_interval,
    percentile_band,
    percentile_interval,
    resampled,
)
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray

Scores: TypeAlias = Sequence[npt.ArrayLike]
Aggregate: TypeAlias = Callable[[list[FloatArray]], FloatArray]
"""Of one array [resample, run] for each task: a number for each resample."""

FEWEST_RUNS = 3
POWER = 0.9
FINE = 20_000
"""Resamples for a ratio, so that its ends are right to two decimals."""


def interquartile_mean(tasks: list[FloatArray]) -> FloatArray:
    """The mean of the middle half of all runs of all tasks; a quarter is cut at either end."""
    pooled = np.sort(np.concatenate(tasks, axis=1), axis=1)
    cut = int(0.25 * pooled.shape[1])
    middle: FloatArray = pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)
    return middle


def median(tasks: list[FloatArray]) -> FloatArray:
    """The median over tasks of their mean scores."""
    found: FloatArray = np.median(_task_means(tasks), axis=0)
    return found


def mean(tasks: list[FloatArray]) -> FloatArray:
    """The mean over tasks of their mean scores."""
    found: FloatArray = _task_means(tasks).mean(axis=0)
    return found


def optimality_gap(tasks: list[FloatArray]) -> FloatArray:
    """1 − the mean of scores cut at 1: how far below the mark, with no credit above it."""
    found: FloatArray = 1.0 - mean([np.minimum(scores, 1.0) for scores in tasks])
    return found


AGGREGATES: Mapping[str, Aggregate] = {
    "interquartile mean": interquartile_mean,
    "median": median,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def _task_means(tasks: list[FloatArray]) -> FloatArray:
    return np.stack([scores.mean(axis=1) for scores in tasks])


def aggregate_interval(scores: Scores, aggregate: Aggregate, rng: np.random.Generator) -> Interval:
    """An aggregate with its stratified bootstrap interval.

    >>> aggregate_interval([[0.0, 1.0], [2.0, 3.0]], mean, np.random.default_rng(0)).estimate
    1.5
    """
    tasks = _checked(scores)
    estimate = float(aggregate([runs[np.newaxis] for runs in tasks])[0])
    drawn = np.zeros(0) if _too_few(tasks) else aggregate([_drawn(runs, rng) for runs in tasks])
    return percentile_interval(estimate, drawn)


def improvement_probability(first: Scores, second: Scores, rng: np.random.Generator) -> Interval:
    """P(X > Y) of a random run X of ``first`` and Y of ``second`` on a random task; ties count ½.

    >>> improvement_probability([[1.0, 3.0]], [[2.0, 3.0]], np.random.default_rng(0)).estimate
    0.375
    """
    tasks = _pairs(first, second)
    estimate = float(np.mean([_above(x[np.newaxis], y[np.newaxis])[0] for x, y in tasks]))
    drawn = np.zeros(0)
    if not _too_few([runs for pair in tasks for runs in pair]):
        drawn = np.mean([_above(_drawn(x, rng), _drawn(y, rng)) for x, y in tasks], axis=0)
    return percentile_interval(estimate, drawn)


def geometric_ratio(
    first: Scores,
    second: Scores,
    rng: np.random.Generator,
    *,
    paired: bool = False,
    resamples: int = FINE,
) -> Interval:
    """The geometric mean over tasks of mean(first) / mean(second), for positive scores.

    The interval is from a stratified bootstrap: the runs of either agent are drawn within their
    task, independently of the other's, or together where they are ``paired`` (entry i of both
    shares its randomness).

    >>> geometric_ratio([[4.0], [9.0]], [[1.0], [1.0]], np.random.default_rng(0)).estimate
    6.0
    """
    tasks = _pairs(first, second, paired)
    if min(float(runs.min()) for pair in tasks for runs in pair) <= 0.0:
        raise NeedReplayError("first and second must be positive everywhere: they make ratios.")
    estimate = float(np.exp(np.mean([np.log(x.mean() / y.mean()) for x, y in tasks])))
    drawn = np.zeros(0)
    if not _too_few([runs for pair in tasks for runs in pair]):
        logs = []
        for x, y in tasks:
            rows = resampled(len(x), rng, resamples)
            others = rows if paired else resampled(len(y), rng, resamples)
            logs.append(np.log(x[rows].mean(axis=1) / y[others].mean(axis=1)))
        drawn = np.exp(np.mean(logs, axis=0))
    return percentile_interval(estimate, drawn)


class Difference(NamedTuple):
    """How far one agent is ahead of another."""

    interval: Interval
    visible: float
    """the smallest true difference that is seen (the interval leaves out 0) with 90% power"""


def stratified_difference(first: Scores, second: Scores) -> Difference:
    """The mean over tasks of mean(first - second), runs paired: entry i of both is the same seed.

    With s² the variance of first - second in one of K tasks and v = s² / n that of its mean:

        variance of the mean over tasks = Σ v / K²,  degrees of freedom = (Σ v)² / Σ (v² / (n - 1))

    The interval is Student's. The true difference that is seen with 90% power is (t_.975 + t_.9)
    times the root. Both are infinite if a task has fewer than two runs.

    >>> stratified_difference([[1.0, 2.0], [4.0, 4.0]], [[0.0, 0.0], [1.0, 1.0]]).interval.estimate
    2.25
    """
    from scipy.stats import t

    tasks = _pairs(first, second, paired=True)
    gaps = [x - y for x, y in tasks]
    estimate, counts = float(np.mean([gap.mean() for gap in gaps])), np.array([*map(len, gaps)])
    if counts.min() < 2:
        return Difference(Interval(estimate, -np.inf, np.inf), np.inf)
    variances = np.array([gap.var(ddof=1) for gap in gaps]) / counts
    if not variances.any():
        return Difference(Interval(estimate, estimate, estimate), 0.0)
    freedom = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    error = float(np.sqrt(variances.sum())) / len(gaps)
    half, power = (float(t.ppf(share, freedom)) * error for share in (0.5 + LEVEL / 2.0, POWER))
    return Difference(Interval(estimate, estimate - half, estimate + half), half + power)


def _above(x: FloatArray, y: FloatArray) -> FloatArray:
    """[resample]: the share of pairs in which x is larger, a tie half (Mann & Whitney's U / nm)."""
    total = np.zeros(len(x))
    for column in range(x.shape[1]):
        mine = x[:, column, np.newaxis]
        total += (mine > y).sum(axis=1) + 0.5 * (mine == y).sum(axis=1)
    shares: FloatArray = total / (x.shape[1] * y.shape[1])
    return shares


def performance_profile(
    scores: Scores, thresholds: npt.ArrayLike, rng: np.random.Generator
) -> Band:
    """F(τ), the mean over tasks of the share of runs with a score above τ, with its band.

    >>> band = performance_profile([[0.0, 1.0]], [-1.0, 0.0, 0.5, 1.0], np.random.default_rng(0))
    >>> band.estimate.tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    tasks = _checked(scores)
    marks = np.asarray(thresholds, dtype=np.float64)
    if marks.ndim != 1 or (np.diff(marks) < 0).any():
        raise NeedReplayError("thresholds must be one row of numbers that do not fall.")
    below = [np.searchsorted(marks, runs, side="left") for runs in tasks]
    estimate = _shares([counts[np.newaxis] for counts in below], len(marks))[0]
    drawn = np.zeros((0, len(marks)))
    if not _too_few(tasks):
        drawn = _shares([_drawn(counts, rng) for counts in below], len(marks))
    return percentile_band(estimate, drawn)


def _shares(below: list[AnyArray], marks: int) -> FloatArray:
    """[resample, τ], of how many thresholds lie below each run's score: [resample, run] a task."""
    mean_share: FloatArray = np.mean([_share_above(counts, marks) for counts in below], axis=0)
    return mean_share


def _share_above(counts: AnyArray, marks: int) -> FloatArray:
    """A score lies above threshold k if more than k thresholds lie below it."""
    rows, runs = counts.shape
    places = counts + (marks + 1) * np.arange(rows)[:, np.newaxis]
    histogram = np.bincount(places.ravel(), minlength=rows * (marks + 1)).reshape(rows, marks + 1)
    above = histogram[:, ::-1].cumsum(axis=1)[:, ::-1]
    shares: FloatArray = above[:, 1:] / runs
    return shares


def _checked(scores: Scores) -> list[FloatArray]:
    """One array of finite scores for each task."""
    tasks = [np.asarray(runs, dtype=np.float64) for runs in scores]
    if not tasks:
        raise NeedReplayError("scores is empty: it needs at least one task.")
    for number, runs in enumerate(tasks):
        if runs.ndim != 1 or not len(runs) or not np.isfinite(runs).all():
            raise NeedReplayError(
                f"scores[{number}] must hold one finite number for each run of the task."
            )
    return tasks


def _pairs(
    first: Scores, second: Scores, paired: bool = False
) -> list[tuple[FloatArray, FloatArray]]:
    """The runs of two agents, task by task."""
    one, other = _checked(first), _checked(second)
    if len(one) != len(other):
        raise NeedReplayError("first and second must hold the same tasks, in the same order.")
    if paired and any(len(x) != len(y) for x, y in zip(one, other, strict=True)):
        raise NeedReplayError("first and second are paired: they need as many runs of each task.")
    return list(zip(one, other, strict=True))


def _too_few(tasks: Sequence[AnyArray]) -> bool:
    return min(map(len, tasks)) < FEWEST_RUNS


def _drawn(runs: AnyArray, rng: np.random.Generator) -> AnyArray:
    """[resample, run]: runs of one task, drawn with replacement."""
    drawn: AnyArray = runs[resampled(len(runs), rng)]
    return drawn


@dataclass(frozen=True)
class Paired:
    """Two agents compared trial by trial."""

    difference: Interval
    """mean of first − second"""
    pairs: int
    p_value: float
    """Wilcoxon's signed-rank test, two-sided; 1 if all pairs are equal"""


def paired_test(first: npt.ArrayLike, second: npt.ArrayLike, rng: np.random.Generator) -> Paired:
    """Compare two agents that shared their seeds: entry i of both is the same seed."""
    from scipy.stats import wilcoxon

    interval = difference_interval(first, second, rng, paired=True)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return Paired(interval, len(a), 1.0 if (a == b).all() else float(wilcoxon(a, b).pvalue))


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
