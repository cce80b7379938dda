"""Performance profiles: the share of runs above each score (Agarwal et al. 2021, section 4.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray
from needreplay.report.aggregate import FEWEST_RUNS, RESAMPLES, Scores, checked, resampled
from needreplay.report.statistics import Band


def performance_profile(
    scores: Scores,
    thresholds: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Band:
    """F(τ), the mean over tasks of the share of runs with a score above τ, with its band.

    >>> band = performance_profile([[0.0, 1.0]], [-1.0, 0.0, 0.5, 1.0], np.random.default_rng(0))
    >>> band.estimate.tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    tasks = checked(scores)
    marks = np.asarray(thresholds, dtype=np.float64)
    if marks.ndim != 1 or (np.diff(marks) < 0).any():
        raise NeedReplayError("thresholds must be one row of numbers that do not fall.")
    below = [np.searchsorted(marks, runs, side="left") for runs in tasks]
    estimate = _shares([counts[np.newaxis] for counts in below], len(marks))[0]
    if min(map(len, tasks)) < FEWEST_RUNS:
        infinite = np.full_like(estimate, np.inf)
        return Band(estimate, -infinite, infinite, level)
    drawn = _shares([resampled(counts, rng, resamples) for counts in below], len(marks))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Band(estimate, low, high, level)


def _shares(below: list[AnyArray], marks: int) -> FloatArray:
    """[resample, τ], of how many thresholds lie below each run's score: [resample, run] a task."""
    shares = [_share_above(counts, marks) for counts in below]
    mean: FloatArray = np.mean(shares, axis=0)
    return mean


def _share_above(counts: AnyArray, marks: int) -> FloatArray:
    """A score lies above threshold k where more than k thresholds lie below it."""
    rows, runs = counts.shape
    places = counts + (marks + 1) * np.arange(rows)[:, np.newaxis]
    histogram = np.bincount(places.ravel(), minlength=rows * (marks + 1)).reshape(rows, marks + 1)
    above = histogram[:, ::-1].cumsum(axis=1)[:, ::-1]
    shares: FloatArray = above[:, 1:] / runs
    return shares
