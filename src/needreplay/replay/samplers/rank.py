"""Rank-based prioritized replay: P(j) ∝ (1 / rank_j)^α, rank 1 the largest priority.

Schaul et al. (2016), section 3.3 and appendix B.2.1. They keep a nearly sorted heap; here the order
is exact at all times.
"""

from __future__ import annotations

import numpy as np

from needreplay import equations
from needreplay._core.checks import SHARE, check_number
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay import ordered
from needreplay.replay.samplers.base import BaseSampler, Sampled, check_priorities
from needreplay.replay.validation import flag

rank_priority = jit(equations.rank_priority)


@jit
def cumulative_priorities(capacity: int, alpha: float) -> FloatArray:
    """Σ_{k <= r} k^-α for r = 1, 2, ..., capacity."""
    sums = np.empty(capacity)
    total = 0.0
    for rank in range(1, capacity + 1):
        total += rank_priority(rank, alpha)
        sums[rank - 1] = total
    return sums


def segment_starts(cumulative: FloatArray, size: int) -> IntArray:
    """The places (from 0) at which ``size`` segments of equal probability begin, and the end.

    Where one rank alone has more than a segment's share, several segments begin at it.
    """
    borders = np.arange(size + 1) / size * cumulative[-1]
    starts: IntArray = np.searchsorted(cumulative, borders, side="right").astype(np.int64)
    starts[-1] = len(cumulative)
    last: IntArray = len(cumulative) - (np.arange(size + 1) < size).astype(np.int64)
    return np.minimum(starts, last)


class RankSampler(BaseSampler):
    """Sample by the rank of the priority, so that outliers do not matter.

    Args:
        alpha: α: 0 is uniform, 1 is Zipf's law.
        exact: sample rank r with probability r^-α / Σ k^-α. Otherwise as Schaul et al.: the ranks
            are cut into ``size`` segments of equal probability, and one slot is sampled uniformly
            from each.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    name = "rank"

    def __init__(
        self, alpha: float = 0.7, *, exact: bool = False, uniform_mix: float = 0.0
    ) -> None:
        self.alpha = check_number("alpha", alpha, float, SHARE)
        self.exact = flag("exact", exact)
        super().__init__(uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._order = ordered.empty_order(capacity)
        self._stored |= self._order._asdict()
        self._cumulative = cumulative_priorities(capacity, self.alpha)

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        super().set_priorities(slots, priorities)
        ordered.set_priorities(self._order, slots, priorities)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._refuse_need(need)
        cumulative = self._cumulative[: ordered.count(self._order)]
        uniforms = rng.random(size)
        if self.exact:
            places = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
            places = np.minimum(places, len(cumulative) - 1)
            probabilities = self._probabilities(places, size)
        else:
            starts, lengths = self._segments(size)
            places = starts + np.minimum((uniforms * lengths).astype(np.int64), lengths - 1)
            probabilities = _segment_probabilities(starts, lengths, places)
        return Sampled(ordered.slots_at(self._order, places), probabilities)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        return Sampled(slots, self._probabilities(ordered.places_of(self._order, slots), size))

    def _segments(self, size: int) -> tuple[IntArray, IntArray]:
        """Where each segment begins, and its length."""
        starts = segment_starts(self._cumulative[: ordered.count(self._order)], size)
        return starts[:-1], np.maximum(1, np.diff(starts))

    def _probabilities(self, places: IntArray, size: int) -> FloatArray:
        """P of the slots at ``places`` of the order, in a batch of ``size``."""
        if not self.exact:
            return _segment_probabilities(*self._segments(size), places)
        total = self._cumulative[ordered.count(self._order) - 1]
        probabilities: FloatArray = (places + 1.0) ** -self.alpha / total
        return probabilities

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        ordered.remove_all(self._order, slots)

    @property
    def occupied(self) -> BoolArray:
        """Which slots are not empty. O(N)."""
        occupied: BoolArray = self._order.priorities != ordered.ABSENT
        return occupied

    def check_valid(self) -> None:
        """Raise unless the order is that of the priorities."""
        super().check_valid()
        check_priorities(self._order.priorities, ordered.ABSENT)
        ordered.check_order(self._order)

    @property
    def derived_nbytes(self) -> int:
        """Bytes of the cumulative sums, which follow from the capacity."""
        return self._cumulative.nbytes


@jit
def _segment_probabilities(starts: IntArray, lengths: IntArray, places: IntArray) -> FloatArray:
    """P(place) = Σ over the segments that hold it of 1 / (size · length)."""
    size = len(lengths)
    probabilities = np.zeros(len(places))
    for i in range(len(places)):
        segment = np.searchsorted(starts, places[i], side="right") - 1
        while segment >= 0 and starts[segment] + lengths[segment] > places[i]:
            probabilities[i] += 1.0 / (size * lengths[segment])
            segment -= 1
    return probabilities
