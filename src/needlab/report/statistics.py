"""Intervals for what was measured: seeded percentile bootstrap over trials, Student's, Wilson's.

A row of samples is one trial. A bootstrap of very few trials is too narrow, so below ``FEWEST`` the
interval is infinite. For normal data, 95% intervals contain the mean in 86, 89 and 93 of 100 cases
at 6, 10 and 15 trials: read them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray, IntArray

LEVEL = 0.95
RESAMPLES = 2000
FEWEST = 6
"""Trials below which there is no interval."""
_ELEMENTS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its 95% interval."""

    estimate: float
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        """As columns of a table: ``name``, low, high."""
        return {name: self.estimate, "low": self.low, "high": self.high}

    def text(self, digits: int = 3) -> str:
        """Write it as "512 (95% interval 498 to 530)".

        All three numbers get the decimals that show ``digits`` digits of the largest.
        """
        known = bool(np.isfinite([self.low, self.high]).all())
        numbers = (self.estimate, self.low, self.high) if known else (self.estimate,)
        estimate, *ends = _written(numbers, digits)
        said = f"95% interval {' to '.join(ends)}" if known else "no interval: too few trials"
        return f"{estimate} ({said})"


@dataclass(frozen=True, eq=False)
class Band:
    """An interval for each column: a learning curve and its band."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Band:
        """Put intervals side by side, one in each column."""
        rows = [(one.estimate, one.low, one.high) for one in intervals]
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 3).T)

    def columns(self, name: str) -> dict[str, FloatArray]:
        """As columns of a table: ``name``, low, high."""
        return {name: self.estimate, "low": self.low, "high": self.high}

    def __getitem__(self, column: int) -> Interval:
        return Interval(
            float(self.estimate[column]), float(self.low[column]), float(self.high[column])
        )

    def __len__(self) -> int:
        return len(self.estimate)


def resampled(trials: int, rng: np.random.Generator, resamples: int | None = None) -> IntArray:
    """The bootstrap's draws: [resample, trial], trial numbers drawn with replacement."""
    drawn: IntArray = rng.integers(trials, size=(resamples or RESAMPLES, trials))
    return drawn


def percentile_interval(estimate: float, drawn: FloatArray) -> Interval:
    """The middle of the statistic's values in the resamples; infinite if there are none."""
    return percentile_band(np.array([estimate]), drawn[:, np.newaxis])[0]


def percentile_band(estimate: FloatArray, drawn: FloatArray) -> Band:
    """``percentile_interval`` for each column of [resample, column]; infinite without resamples."""
    if len(drawn) == 0:
        infinite = np.full_like(estimate, np.inf)
        return Band(estimate, -infinite, infinite)
    # Between two infinite numbers nothing can be interpolated.
    method: Literal["linear", "inverted_cdf"] = (
        "linear" if np.isfinite(drawn).all() else "inverted_cdf"
    )
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    return Band(estimate, *np.quantile(drawn, ends, axis=0, method=method))


def mean_interval(samples: npt.ArrayLike, rng: np.random.Generator) -> Interval:
    """The mean over trials with its percentile bootstrap interval."""
    return mean_band(_trials("samples", samples, ndim=1)[:, np.newaxis], rng)[0]


def median_interval(samples: npt.ArrayLike, rng: np.random.Generator) -> Interval:
    """The median over trials; infinity is allowed, for a trial that never got there.

    So an end, or the median itself, is infinite where too many trials are.
    """
    values = np.asarray(samples, dtype=np.float64)
    _trials("samples", np.where(values == np.inf, 0.0, values), ndim=1)
    drawn = np.zeros(0)
    if len(values) >= FEWEST:
        drawn = np.median(values[resampled(len(values), rng)], axis=1)
    return percentile_interval(float(np.median(values)), drawn)


def mean_band(samples: npt.ArrayLike, rng: np.random.Generator) -> Band:
    """The mean of each column over trials (rows); a resample draws complete rows."""
    values = _trials("samples", samples, ndim=2)
    return percentile_band(values.mean(axis=0), _means(values, rng))


def difference_interval(
    a: npt.ArrayLike, b: npt.ArrayLike, rng: np.random.Generator, *, paired: bool
) -> Interval:
    """mean(a) - mean(b); ``paired`` if trial i of a and of b share their randomness."""
    return _two_samples(np.subtract, a, b, rng, paired)


def ratio_interval(
    a: npt.ArrayLike, b: npt.ArrayLike, rng: np.random.Generator, *, paired: bool
) -> Interval:
    """mean(a) / mean(b) for positive b; ``paired`` as in ``difference_interval``."""
    if (_trials("b", b, ndim=1) <= 0).any():
        raise NeedReplayError("b must be positive everywhere: it is the divisor of a ratio.")
    return _two_samples(np.divide, a, b, rng, paired)


def curve_interval(
    samples: npt.ArrayLike, statistic: Callable[[FloatArray], float], rng: np.random.Generator
) -> Interval:
    """A number read off the mean curve (``statistic`` of the columns' means), with its interval.

    For two agents whose trials are paired, put their curves side by side.
    """
    values = _trials("samples", samples, ndim=2)
    drawn = np.array([statistic(curve) for curve in _means(values, rng)])
    return percentile_interval(float(statistic(values.mean(axis=0))), drawn)


def student_interval(samples: npt.ArrayLike) -> Interval:
    """The mean of a few runs with Student's interval: mean ± t s / √n, open below two runs.

    For three to five seeds, where a bootstrap is too narrow; it assumes that they are normal.
    """
    from scipy.stats import t

    values = _trials("samples", samples, ndim=1)
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return Interval(mean, -np.inf, np.inf)
    half = float(t.ppf(0.5 + LEVEL / 2.0, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def proportion_interval(successes: int, trials: int) -> Interval:
    """Wilson's score interval for a proportion: sound also near 0 and 1.

    (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n)
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise NeedReplayError(
            f"successes must lie between 0 and trials, and trials must be at least 1: "
            f"got {successes} of {trials}."
        )
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    p = successes / trials
    middle = p + z**2 / (2 * trials)
    spread = z * (p * (1 - p) / trials + z**2 / (4 * trials**2)) ** 0.5
    scale = 1 + z**2 / trials
    low = 0.0 if successes == 0 else (middle - spread) / scale
    high = 1.0 if successes == trials else (middle + spread) / scale
    return Interval(p, low, high)


def permutation_test(
    a: Sequence[npt.ArrayLike],
    b: Sequence[npt.ArrayLike],
    rng: np.random.Generator,
    *,
    paired: bool,
    scaled: bool = True,
    resamples: int = 10_000,
) -> float:
    """Two-sided p of "a and b do not differ", stratified: labels change places within a stratum.

    The statistic is the mean over strata of mean(a) - mean(b), each divided by the spread of that
    stratum if ``scaled``, so that tasks with large scores do not decide alone.

    Args:
        a: for each stratum (a task), one number per trial.
        b: the same strata.
        rng: draws the permutations.
        paired: trial i of a and b share their randomness: only their two labels change places.
        scaled: divide by the spread of each stratum; not where numbers are comparable already.
        resamples: permutations; the smallest p is 1 / (resamples + 1).
    """
    observed, drawn = 0.0, np.zeros(resamples)
    for one, other in zip(a, b, strict=True):
        first, second = _trials("a", one, ndim=1), _trials("b", other, ndim=1)
        pooled = np.concatenate([first, second])
        spread = (float(pooled.std()) or 1.0) if scaled else 1.0
        observed += float(first.mean() - second.mean()) / spread
        if paired:
            difference = (first - second) / spread
            size = len(difference)
            part = max(1, _ELEMENTS_AT_ONCE // size)
            for begin in range(0, resamples, part):
                rows = drawn[begin : begin + part]
                flips = rng.integers(2, size=(len(rows), size), dtype=np.int8).astype(np.float64)
                rows += (2.0 * (flips @ difference) - difference.sum()) / size
        else:
            mixed = rng.permuted(np.tile(pooled / spread, (resamples, 1)), axis=1)
            drawn += mixed[:, : len(first)].mean(axis=1) - mixed[:, len(first) :].mean(axis=1)
    # Permutations that equal the observed order may differ from it by rounding.
    extreme = np.abs(drawn) >= abs(observed) * (1.0 - 1e-12)
    return float((np.count_nonzero(extreme) + 1) / (resamples + 1))


def _two_samples(
    combine: Callable[[FloatArray, FloatArray], FloatArray],
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    rng: np.random.Generator,
    paired: bool,
) -> Interval:
    first, second = _trials("a", a, ndim=1), _trials("b", b, ndim=1)
    if paired and len(first) != len(second):
        raise NeedReplayError(
            f"a and b are paired, so they must be equally long: {len(first)} and {len(second)}."
        )
    if min(len(first), len(second)) < FEWEST:
        drawn = np.zeros(0)
    elif paired:
        drawn = combine(*_means(np.stack([first, second], axis=1), rng).T)
    else:
        drawn = combine(*(_means(one[:, np.newaxis], rng)[:, 0] for one in (first, second)))
    (estimate,) = combine(first.mean(keepdims=True), second.mean(keepdims=True))
    return percentile_interval(float(estimate), drawn)


def _means(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Means over resampled rows: [resample, column]; none for too few rows."""
    if len(values) < FEWEST:
        return np.zeros((0, values.shape[1]))
    return np.concatenate([counts @ values for counts in _counts(len(values), rng)]) / len(values)


def _counts(n: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """How often each of n trials is drawn, resample by resample, in parts that fit in memory."""
    part = max(1, _ELEMENTS_AT_ONCE // n)
    for begin in range(0, RESAMPLES, part):
        size = min(part, RESAMPLES - begin)
        drawn = resampled(n, rng, size) + n * np.arange(size)[:, np.newaxis]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def _trials(name: str, samples: npt.ArrayLike, ndim: int) -> FloatArray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != ndim:
        shape = "one number per trial" if ndim == 1 else "one row per trial"
        raise NeedReplayError(f"{name} must hold {shape}, not an array of shape {values.shape}.")
    if values.size == 0:
        raise NeedReplayError(f"{name} is empty: an interval needs at least one trial.")
    if not np.isfinite(values).all():
        raise NeedReplayError(f"{name} has entries that are not finite numbers (NaN or infinite).")
    return values


def _written(numbers: Sequence[float], digits: int) -> list[str]:
    largest = max(map(abs, numbers))
    magnitude = floor(log10(largest)) if largest > 0 else 0
    if not -5 <= magnitude < 9:
        return [f"{number:.{digits - 1}e}" for number in numbers]
    return [f"{number:,.{max(0, digits - 1 - magnitude)}f}" for number in numbers]
