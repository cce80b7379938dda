"""Recency: new transitions more often than old ones, by a truncated geometric distribution of age.

The weight of an age falls by the same factor with every new transition. So it is enough to let the
weight of new transitions grow by that factor: old leaves of the sum tree stay as they are.
"""

from __future__ import annotations

import math

import numpy as np

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import recency_rate
from needreplay.replay.samplers.base import EMPTY, BaseSampler, Sampled, power, powers_of
from needreplay.replay.samplers.need import CorrectFor, checked_correct_for
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.sumtree import SumTree, set_leaves
from needreplay.replay.validation import is_within

NEWEST, STAMP = 0, 1
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-200, 1e200
"""Beyond these the leaves are written again, so that no sum overflows or loses digits."""
_LARGEST_LOG = 500.0
"""Of a leaf, until it is written again: above ``LARGEST_TOTAL``, and no sum of these overflows."""


class RecencySampler(ProportionalSampler):
    """P(j) ∝ priority_j^alpha · (m / (m + 1))^age_j, where m is ``mean_age``.

    The age of a transition is how many were stored after it: 0 for the newest. At alpha 0 (the
    default) the age is geometric with mean m, truncated at the oldest transition.
    ``equations.mean_age_for`` chooses m so that transitions are worth a given number of equally
    likely ones. At alpha above 0 this is the control for need: gain x recency.

    Args:
        mean_age: the mean age of what is sampled from a buffer much longer than that.
        alpha: the exponent of priorities: 0 is by age alone.
        correct_for: what importance weights correct for: "both", or "gain" (priorities) alone, so
            that recency keeps its effect at beta = 1, as need does.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    name = "recency"

    def __init__(
        self,
        mean_age: float,
        *,
        alpha: float = 0.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        self.mean_age = check_number("mean_age", mean_age, float, (1e-100, 1e100))
        self._rate = recency_rate(self.mean_age)
        self.correct_for = checked_correct_for(correct_for)
        super().__init__(alpha, stratified=False, uniform_mix=uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        self._gains = SumTree(capacity)
        super().allocate(capacity)
        self._keep("gains", self._gains.array)
        self._clock = self._keep("clock", np.zeros(2, dtype=np.int64))
        self._base = self._keep("base", np.zeros(1))

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: the newest of all when their priorities are set."""
        self._priorities[slots] = EMPTY

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied, each newer than the one before."""
        BaseSampler.set_priorities(self, slots, priorities)
        _store(self._priorities, self._clock, slots, priorities)
        self._gains.set(slots, powers_of(priorities, self.alpha))
        self._write(slots)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        sampled = super()._sample(size, rng, need)
        return self._corrected(sampled)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        return self._corrected(super()._at(slots, size))

    def _corrected(self, sampled: Sampled) -> Sampled:
        """With the probabilities by priority, if weights correct for these alone."""
        if self.correct_for == "both" or self._gains.total == 0.0:
            return sampled
        by_priority = self._gains.masses[sampled.slots] / self._gains.total
        return sampled._replace(corrected=by_priority)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        self._gains.set(slots, np.zeros(len(slots)))
        self._write(slots)

    def _write(self, slots: IntArray) -> None:
        """Bring the leaves of ``slots`` in line, or those of all with the largest leaf at 1."""
        how = self._priorities, self._clock, self._base, self.alpha, self._rate
        set_leaves(self._tree.array, self._capacity, slots, _masses(*how, slots))
        if not SMALLEST_TOTAL <= self._tree.total <= LARGEST_TOTAL:
            slots = np.arange(self._capacity)
            self._clock[STAMP], self._base[0] = 0, 0.0
            largest = _log_masses(*how, slots).max()
            self._base[0] = 0.0 if largest == -np.inf else -largest
            set_leaves(self._tree.array, self._capacity, slots, _masses(*how, slots))

    def _check_powers(self, powers: FloatArray) -> None:
        """Raise unless ``powers`` are the leaves that follow from priorities and ages."""
        self._gains.check_valid()
        super()._check_powers(self._gains.masses)
        newest, stamp = self._clock.tolist()
        if not (0 <= newest < self._capacity and 0 <= stamp < 2**62 and np.isfinite(self._base[0])):
            raise NeedReplayError("The clock of the recency sampler is out of range.")
        occupied = np.flatnonzero(self.occupied)
        if not is_within((newest - occupied) % self._capacity, 0, len(occupied)):
            raise NeedReplayError("The newest transition is not the last of those that are stored.")
        how = self._priorities, self._clock, self._base, self.alpha, self._rate
        if not np.allclose(powers, _masses(*how, np.arange(self._capacity)), 1e-11, 1e-250):
            raise NeedReplayError("A slot's leaf is not its priority's power times its recency.")


@jit
def _store(stored: FloatArray, clock: IntArray, slots: IntArray, priorities: FloatArray) -> None:
    """Store raw priorities; each slot that was empty is the newest from then on."""
    for i in range(len(slots)):
        if stored[slots[i]] == EMPTY:
            clock[NEWEST] = slots[i]
            clock[STAMP] += 1
        stored[slots[i]] = priorities[i]


@jit
def _log_masses(
    stored: FloatArray,
    clock: IntArray,
    base: FloatArray,
    alpha: float,
    rate: float,
    slots: IntArray,
) -> FloatArray:
    """log(priority^α) + rate (stamp - age) + base: a slot's stamp minus its age never changes."""
    logs = np.full(len(slots), -np.inf)
    for i in range(len(slots)):
        slot = slots[i]
        mass = power(stored[slot], alpha) if stored[slot] != EMPTY else 0.0
        if mass > 0.0:
            age = (clock[NEWEST] - slot) % len(stored)
            logs[i] = math.log(mass) + rate * (clock[STAMP] - age) + base[0]
    return logs


@jit
def _masses(
    stored: FloatArray,
    clock: IntArray,
    base: FloatArray,
    alpha: float,
    rate: float,
    slots: IntArray,
) -> FloatArray:
    """The leaves of ``slots``, 0 for empty ones."""
    masses = _log_masses(stored, clock, base, alpha, rate, slots)
    for i in range(len(slots)):
        masses[i] = math.exp(min(masses[i], _LARGEST_LOG))
    return masses
