"""Rank-based prioritized replay: P(j) ∝ (1 / rank_j)^α, rank 1 the largest priority.

Schaul et al. (2016), section 3.3 and appendix B.2.1. They keep a nearly sorted heap; here the order
is exact at all times.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import SHARE, check_number
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay._kernels.rank import Order, cumulative_priorities, empty_order
from needreplay.replay.samplers.base import EMPTY, BaseSampler, Sampled, check_priorities
from needreplay.replay.validation import flag


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
    _compiled = True

    def __init__(
        self, alpha: float = 0.7, *, exact: bool = False, uniform_mix: float = 0.0
    ) -> None:
        self.alpha = check_number("alpha", alpha, float, SHARE)
        self.exact = flag("exact", exact)
        super().__init__(uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._order = empty_order(capacity)
        self._stored |= self._order
        self._kernel = Order(self._bound, capacity, self._follows_window)
        self._cumulative: FloatArray = cumulative_priorities(capacity, self.alpha)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._reject_need(need)
        cumulative = self._cumulative[: len(self._kernel)]
        uniforms = rng.random(size)
        if self.exact:
            places = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
            places = np.minimum(places, len(cumulative) - 1)
            probabilities = self._probabilities(places, size)
        else:
            starts, lengths = self._segments(size)
            places = starts + np.minimum((uniforms * lengths).astype(np.int64), lengths - 1)
            probabilities = _segment_probabilities(starts, lengths, places)
        return Sampled(self._kernel.slots_at(places), probabilities)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        return Sampled(slots, self._probabilities(self._kernel.places_of(slots), size))

    def _segments(self, size: int) -> tuple[IntArray, IntArray]:
        """Where each segment begins, and its length."""
        starts = segment_starts(self._cumulative[: len(self._kernel)], size)
        return starts[:-1], np.maximum(1, np.diff(starts))

    def _probabilities(self, places: IntArray, size: int) -> FloatArray:
        """P of the slots at ``places`` of the order, in a batch of ``size``."""
        if not self.exact:
            return _segment_probabilities(*self._segments(size), places)
        total = self._cumulative[len(self._kernel) - 1]
        probabilities: FloatArray = (places + 1.0) ** -self.alpha / total
        return probabilities

    @property
    def priorities(self) -> FloatArray:
        """The raw priority of each slot, -1 where it is empty; ``set_priorities`` sets them."""
        priorities: FloatArray = self._order["priorities"]
        return priorities

    @property
    def occupied(self) -> BoolArray:
        """Which slots are not empty. O(N)."""
        occupied: BoolArray = self._order["priorities"] != EMPTY
        return occupied

    def check_valid(self) -> None:
        """Raise unless the order is that of the priorities."""
        super().check_valid()
        check_priorities(self._order["priorities"], EMPTY)
        self._kernel.check_valid()

    @property
    def derived_nbytes(self) -> int:
        """Bytes of the cumulative sums, which follow from the capacity."""
        return self._cumulative.nbytes


def _segment_probabilities(starts: IntArray, lengths: IntArray, places: IntArray) -> FloatArray:
    """P(place) = Σ over the segments that hold it of 1 / (size · length)."""
    shares = 1.0 / (len(lengths) * lengths)
    first = np.searchsorted(starts + lengths, places, side="right")
    end = np.searchsorted(starts, places, side="right")
    probabilities = np.zeros(len(places))
    for k in range(int((end - first).max(initial=0))):
        inside = first + k < end
        probabilities[inside] += shares[first[inside] + k]
    return probabilities
