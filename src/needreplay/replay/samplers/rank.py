"""The rank-based draw of prioritised replay: P(j) ∝ (1 / rank_j)^α, rank 1 the largest gain.

Schaul et al. (2016), section 3.3 and appendix B.2.1. They keep a heap that is nearly sorted; here
the order is exact at all times.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay import ordered
from needreplay.replay.samplers.base import Sampled
from needreplay.rules import priority as rules

rank_mass = jit(rules.rank_mass)


@jit
def cumulative_masses(capacity: int, exponent: float) -> FloatArray:
    """Σ_{k <= r} k^-α for r = 1, 2, ..., capacity."""
    masses = np.empty(capacity)
    total = 0.0
    for rank in range(1, capacity + 1):
        total += rank_mass(rank, exponent)
        masses[rank - 1] = total
    return masses


def segment_starts(cumulative: FloatArray, size: int) -> IntArray:
    """The places (from 0) at which ``size`` segments of equal mass begin, and the end of the last.

    Where one rank alone has more than a segment's mass, several segments begin at it.
    """
    borders = np.arange(size + 1) / size * cumulative[-1]
    starts: IntArray = np.searchsorted(cumulative, borders, side="right").astype(np.int64)
    starts[-1] = len(cumulative)
    last: IntArray = len(cumulative) - (np.arange(size + 1) < size).astype(np.int64)
    return np.minimum(starts, last)


class RankSampler:
    """Sampled by the rank of the gain, so that outliers do not matter.

    Args:
        alpha: α: 0 is uniform, 1 is Zipf's law.
        exact: draw rank r with probability r^-α / Σ k^-α. Otherwise as Schaul et al.: the ranks
            are cut into ``size`` segments of equal mass, and one slot is drawn uniformly from each.
    """

    name = "rank"

    def __init__(self, alpha: float = 0.7, *, exact: bool = False) -> None:
        if not 0.0 <= alpha <= 1.0:
            raise NeedReplayError(f"alpha is {alpha}; it has to be from 0 (uniform) to 1.")
        self.alpha = float(alpha)
        self.exact = exact
        self.allocate(1)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._order = ordered.empty_order(capacity)
        self._cumulative = cumulative_masses(capacity, self.alpha)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        ordered.set_gains(self._order, slots, gain)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement."""
        if need is not None:
            raise NeedReplayError("The rank draw takes no need; call sample without it.")
        cumulative = self._cumulative[: ordered.count(self._order)]
        uniforms = rng.random(size)
        if self.exact:
            places = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
            places = np.minimum(places, len(cumulative) - 1)
            probabilities = self._exact_probabilities(places)
        else:
            starts = segment_starts(cumulative, size)
            lengths = np.maximum(1, np.diff(starts))
            places = starts[:-1] + (uniforms * lengths).astype(np.int64)
            probabilities = _segment_probabilities(starts, lengths, places)
        return Sampled(ordered.slots_at(self._order, places), probabilities)

    def _exact_probabilities(self, places: IntArray) -> FloatArray:
        total = self._cumulative[ordered.count(self._order) - 1]
        probabilities: FloatArray = (places + 1.0) ** -self.alpha / total
        return probabilities

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots`` (oldest first), are empty from now on."""
        ordered.remove_all(self._order, slots)

    def follow_smallest(self) -> None:
        """Nothing to do: the last rank has the smallest probability."""

    def smallest_probability(self, size: int) -> float:
        """The least of all places; within a segment, that is its first or its last."""
        last = np.array([ordered.count(self._order) - 1])
        if self.exact:
            return float(self._exact_probabilities(last)[0])
        starts = segment_starts(self._cumulative[: last[0] + 1], size)
        lengths = np.maximum(1, np.diff(starts))
        # several segments may begin at one place, but only the longest of them reaches its end
        everywhere = np.unique(np.concatenate([starts[:-1], starts[:-1] + lengths - 1]))
        return float(_segment_probabilities(starts, lengths, everywhere).min())

    def check_valid(self) -> None:
        """Raise unless the order is that of the gains."""
        ordered.check_order(self._order)

    @property
    def derived_nbytes(self) -> int:
        """Bytes of the masses summed up, which follow from the capacity."""
        return self._cumulative.nbytes

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return self._order._asdict()


@jit
def _segment_probabilities(starts: IntArray, lengths: IntArray, places: IntArray) -> FloatArray:
    """P(place) = Σ over the segments that hold it of 1 / (size · length)."""
    size = len(lengths)
    probabilities = np.zeros(len(places))
    for i in range(len(places)):
        segment = np.searchsorted(starts[:size], places[i], side="right") - 1
        while segment >= 0 and starts[segment] + lengths[segment] > places[i]:
            probabilities[i] += 1.0 / (size * lengths[segment])
            segment -= 1
    return probabilities
