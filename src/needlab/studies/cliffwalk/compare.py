"""The ratio of two methods' updates, with bootstrap intervals over trials.

Trial i of every method shares its random numbers, so trials are resampled in pairs. A trial that
did not converge counts as its full budget, which is a bound: a verdict that rests on it is
undecided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from needlab.report.claims import Direction, Verdict, verdict_of
from needlab.report.statistics import LEVEL, Interval, percentile_interval, resampled
from needlab.studies.cliffwalk.cases import CaseResult
from needlab.studies.cliffwalk.settings import Centre
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, FloatArray, IntArray


def centre_of(values: FloatArray, centre: Centre) -> FloatArray:
    """The mean or the median over the last axis."""
    found: FloatArray = (np.median if centre == "median" else np.mean)(values, axis=-1)
    return found


@dataclass(frozen=True)
class Measured(Interval):
    """An interval, and which way it would move without the budget.

    A trial that spent its budget would have taken more updates than it counts for, never fewer.
    """

    may_rise: bool = False
    may_fall: bool = False

    def verdict(self, direction: Direction, threshold: float = 1.0) -> Verdict:
        """Whether it lies above (or below); undecided where a trial at its budget could undo it."""
        verdict = verdict_of(self, threshold, direction)
        undone = self.may_fall if self.low > threshold else self.may_rise
        return "undecided" if undone else verdict


@dataclass(frozen=True, eq=False)
class Comparison:
    """log(updates of one / updates of the other), by size: the estimate, and resampled."""

    one: str
    other: str
    sizes: tuple[int, ...]
    logs: FloatArray
    """[size]"""
    resampled: FloatArray
    """[resample, size]; no rows where there is only one trial"""
    censored: tuple[int, int]
    """trials of each that did not converge"""
    bounded: BoolArray
    """[side, size]: whether they move the interval of each, which is then only a bound"""
    trials: int
    """of each, at all sizes together"""

    def at(self, size: int) -> Measured:
        """The ratio at one size."""
        return self._weighed(np.asarray(self.sizes) == size)

    def overall(self) -> Measured:
        """The geometric mean of the ratio over all sizes."""
        return self._weighed(np.full(len(self.sizes), 1.0 / len(self.sizes)))

    def growth(self) -> Measured:
        """The factor by which the ratio grows with each state more (a line through the logs)."""
        steps = np.asarray(self.sizes, dtype=np.float64) - np.mean(self.sizes)
        return self._weighed(steps / np.square(steps).sum())

    def share_of(self, whole: Comparison, size: int) -> Interval:
        """This log ratio as a share of another's, at one size; resamples are taken in order."""
        mine, its = self.sizes.index(size), whole.sizes.index(size)
        drawn = self.resampled[:, mine] / whole.resampled[:, its]
        return percentile_interval(self.logs[mine] / whole.logs[its], drawn)

    def _weighed(self, weights: FloatArray | BoolArray) -> Measured:
        """exp(Σ weight · log ratio): a bound of ``one`` can only rise, of ``other`` only fall."""
        found = percentile_interval(float(self.logs @ weights), self.resampled @ weights)
        estimate, low, high = np.exp([found.estimate, found.low, found.high]).tolist()
        one, other = self.bounded
        up, down = weights > 0, weights < 0
        return Measured(
            estimate,
            low,
            high,
            may_rise=bool((one & up | other & down).any()),
            may_fall=bool((one & down | other & up).any()),
        )

    def by_size(self) -> str:
        """The ratio at each size, in a sentence."""
        ratios = ", ".join(
            f"{np.exp(log):.2f} at {size}" for size, log in zip(self.sizes, self.logs, strict=True)
        )
        return f"By states: {ratios}."

    def censoring(self) -> str:
        """How many trials did not converge, in a sentence; empty if all did."""
        sentences = [
            f"{count} of {self.trials} trials of {name} did not converge and count as their full "
            "budget."
            for name, count in zip((self.one, self.other), self.censored, strict=True)
            if count
        ]
        return " ".join(sentences)


def compare(
    results: Iterable[CaseResult], label: str, one: str, other: str, centre: Centre, seed: int
) -> Comparison:
    """Compare the trials of two methods under one label."""
    by = {(r.method, r.states): r for r in results if r.label == label}
    sizes = tuple(sorted(states for method, states in by if method == one))
    logs, logs_drawn = [], []
    bounded = np.zeros((2, len(sizes)), np.bool_)
    censored = [0, 0]
    trials = 0
    for index, size in enumerate(sizes):
        pair = by[one, size], by[other, size]  # type: ignore[index]
        count = len(pair[0].converged)
        trials += count
        values = [r.counted for r in pair]
        logs.append(np.log(centre_of(values[0], centre)) - np.log(centre_of(values[1], centre)))
        if count > 1:
            drawn = resampled(count, stream(seed, "fig3", "compare", size))
            a, b = (centre_of(value[drawn], centre) for value in values)
            logs_drawn.append(np.log(a) - np.log(b))
        for side in range(2):
            censored[side] += pair[side].censored
            bounded[side, index] = count > 1 and _rests_on_budget(pair[side], centre, drawn)
    return Comparison(
        one=one,
        other=other,
        sizes=sizes,
        logs=np.array(logs),
        resampled=np.array(logs_drawn).T if logs_drawn else np.zeros((0, len(sizes))),
        censored=(censored[0], censored[1]),
        bounded=bounded,
        trials=trials,
    )


def _rests_on_budget(result: CaseResult, centre: Centre, drawn: IntArray) -> bool:
    """Whether the estimate, or an end of its interval, would move without the budget."""
    without_end = np.where(result.converged, 0.0, np.inf)
    moved = np.isinf(centre_of(without_end[drawn], centre)).mean()
    return bool(np.isinf(centre_of(without_end, centre)) or moved >= (1 - LEVEL) / 2)
