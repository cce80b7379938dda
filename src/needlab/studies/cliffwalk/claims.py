"""The paper's claims of figure 3, and the ratio of two methods' updates that they rest on.

Trial i of every method shares its random numbers, so trials are resampled in pairs. A trial that
did not converge counts as its full budget, which is a bound: a verdict that rests on it is
undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from needlab.core.tables import Table
from needlab.report.claims import Claim, Direction, Verdict, published_claim, verdict_of
from needlab.report.data import shipped_table
from needlab.report.statistics import LEVEL, Interval, percentile_interval, resampled
from needlab.studies.cliffwalk.cases import SHOWN_STATE, CaseResult
from needlab.studies.cliffwalk.settings import Centre, cliffwalk_preset
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


SECTION = "paper, section 4.2 and fig. 3"


def claims_of(
    results: Sequence[CaseResult], need_rows: Table, preset: str, seed: int
) -> list[Claim]:
    """The claims table of one preset."""
    centre = cliffwalk_preset(preset).centre

    def held(one: str, other: str) -> Comparison:
        return compare(results, preset, one, other, centre, seed)

    need = "PER with need takes fewer updates than PER", SECTION
    if preset == "corrected":
        # The paper says nothing about the authors' settings without their faults.
        need = f"{need[0]}, once the faults in the authors' M are corrected", "beyond the paper"
    random = "Even random need takes fewer updates than PER"
    optimal = "Optimal need takes fewer than learned need, and so gets closer to the oracle"
    return [
        *_fewer(held("per", "uniform"), preset, "PER takes fewer updates than uniform replay"),
        *_growing(held("uniform", "per"), preset),
        *_fewer(held("need", "per"), preset, *need),
        *_fewer(held("need-random", "per"), preset, random),
        *_fewer(held("need-optimal", "need"), preset, optimal),
        _against_oracle(held, preset),
        need_row_claim(need_rows, preset),
        *_published(results, preset),
    ]


def need_row_claim(need_rows: Table, preset: str) -> Claim:
    """Panel 3: low need before the current state, high after it, falling with distance."""
    row = need_rows.where(preset=preset, method="need")["occupancy"]
    current = min(SHOWN_STATE, len(row) - 1)
    before, after = row[:current], row[current:]
    apart = before.max() < after.min()
    falls = bool((np.diff(after) < 0.0).all())
    return Claim(
        statement=f"The learned need of state {current + 1} is low before it, high after it, and "
        "falls with distance",
        source="paper, section 4.2 and fig. 3, panel 3",
        measured=f"before it at most {before.max():.2f}; after it from {after[0]:.2f} to "
        f"{after.min():.2f}, {'falling' if falls else 'not falling'} throughout",
        verdict="holds" if apart and falls else "does not hold",
        preset=preset,
        detail=f"M at the end of a trial, the median over trials, {len(row)} states.",
    )


def _published(results: Sequence[CaseResult], preset: str) -> list[Claim]:
    """How far the means lie from the points of the published figure; ``released`` alone."""
    if preset != "released":
        return []
    table = shipped_table("fig3_published")
    columns = (table[name].tolist() for name in ("method", "states", "updates"))
    published = {(method, int(n)): updates for method, n, updates in zip(*columns, strict=True)}
    ours = {(r.method, r.states): float(r.counted.mean()) for r in results if r.label == preset}
    ratios = np.array([ours[key] / published[key] for key in published if key in ours])
    words = {"source": "paper, fig. 3", "preset": preset}
    return [published_claim(ratios, "ours / published", "were read off the figure", **words)]


def _fewer(held: Comparison, preset: str, statement: str, source: str = SECTION) -> list[Claim]:
    """The claim over all sizes together, and at the largest, where it matters most."""
    largest = held.sizes[-1]
    overall, last = held.overall(), held.at(largest)
    ratio = f"updates of {held.one} / updates of {held.other}"
    return [
        Claim(
            statement=f"{statement}: all sizes together.",
            source=source,
            measured=f"{ratio}: {overall.text()}, geometric mean over sizes",
            verdict=overall.verdict("below"),
            preset=preset,
            detail=_detail(held),
        ),
        Claim(
            statement=f"{statement}: at {largest} states.",
            source=source,
            measured=f"{ratio}: {last.text()}",
            verdict=last.verdict("below"),
            preset=preset,
            detail=held.censoring(),
        ),
    ]


def _growing(held: Comparison, preset: str) -> list[Claim]:
    """No claim where there is only one size."""
    if len(held.sizes) < 2:
        return []
    growth = held.growth()
    claim = Claim(
        statement="How many times more updates uniform replay takes than PER grows with n.",
        source=SECTION,
        measured=f"the ratio is multiplied by {growth.text()} with each state more",
        verdict=growth.verdict("above"),
        preset=preset,
        detail=_detail(held),
    )
    return [claim]


def _against_oracle(between: Callable[[str, str], Comparison], preset: str) -> Claim:
    """The oracle as a lower bound, and the share of PER's distance to it that is closed."""
    held = between("need-optimal", "oracle")
    largest = held.sizes[-1]
    last, need = held.at(largest), between("need", "oracle").at(largest)
    closed = between("need-optimal", "per").share_of(between("oracle", "per"), largest)
    share = (
        f"Learned need takes {need.estimate:.3g} times the oracle's updates. Share of PER's "
        "distance to the oracle that optimal need closes, in logarithms of updates: "
        f"{closed.text()}."
    )
    return Claim(
        statement=f"The oracle stays a lower bound of optimal need: at {largest} states.",
        source=SECTION,
        measured=f"updates of need-optimal / updates of oracle: {last.text()}",
        verdict=last.verdict("above"),
        preset=preset,
        detail=_detail(held, share),
    )


def _detail(held: Comparison, *also: str) -> str:
    return " ".join(filter(None, (held.by_size(), *also, held.censoring())))
