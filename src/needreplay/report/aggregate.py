"""Scores of several tasks as one number with an interval (Agarwal et al. 2021).

Scores are normalised and larger is better: one array of runs for each task. Intervals are from a
stratified bootstrap: runs are drawn within their task. Few runs make it too narrow; below
``FEWEST_RUNS`` of any task there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray
from needreplay.report.statistics import Interval

Scores: TypeAlias = Sequence[npt.ArrayLike]
Aggregate: TypeAlias = Callable[[list[FloatArray]], FloatArray]
"""Of one array [resample, run] for each task: a number for each resample."""

RESAMPLES = 2000
FEWEST_RUNS = 3


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


def aggregate_interval(
    scores: Scores,
    aggregate: Aggregate,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """An aggregate with its stratified bootstrap interval.

    >>> aggregate_interval([[0.0, 1.0], [2.0, 3.0]], mean, np.random.default_rng(0)).estimate
    1.5
    """
    tasks = checked(scores)
    estimate = float(aggregate([runs[np.newaxis] for runs in tasks])[0])
    if min(map(len, tasks)) < FEWEST_RUNS:
        return Interval(estimate, -np.inf, np.inf, level)
    drawn = aggregate([resampled(runs, rng, resamples) for runs in tasks])
    return percentile_interval(estimate, drawn, level)


def checked(scores: Scores) -> list[FloatArray]:
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


def resampled(runs: AnyArray, rng: np.random.Generator, resamples: int) -> AnyArray:
    """[resample, run]: runs of one task, drawn with replacement."""
    drawn: AnyArray = runs[rng.integers(len(runs), size=(resamples, len(runs)))]
    return drawn


def percentile_interval(estimate: float, drawn: FloatArray, level: float) -> Interval:
    """The percentile interval of what resamples gave."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), level)
