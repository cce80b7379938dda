"""The exact sweep: P(j) ∝ gain_j^a · need_j^b by going over all slots. O(N) a batch.

It is what every other need draw is tested against, and as good as any where the memory is small.
Need is told as one number per slot, as a row over states, or as a vector to hold against features.
"""

from __future__ import annotations

import numpy as np

from needreplay.errors import NeedReplayError
from needreplay.memory.draws.base import Drawn
from needreplay.memory.draws.fallbacks import BY_GAIN, BY_PRIORITY, UNIFORM, Fallbacks
from needreplay.memory.draws.features import FeatureStore
from needreplay.memory.draws.query import (
    checked_exponents,
    checked_need,
    checked_size,
    checked_states,
)
from needreplay.rules.priority import priority
from needreplay.types import AnyArray, BoolArray, FloatArray, IntArray


class SweepDraw:
    """Gain and need of any kind, exactly, slot by slot.

    With neither ``n_states`` nor ``n_features``, need is told per slot. With ``n_states``, it is
    told per state and slots are told their state by ``set_state``. With ``n_features``, it is a
    vector, and slots are told theirs by ``set_features`` (see ``FeatureStore`` for ``backward``).
    A slot that has not been told its state or features has need 0, and so has negative need.
    """

    name = "sweep"

    def __init__(
        self,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
        gain_exponent: float = 0.6,
        need_exponent: float = 0.6,
    ) -> None:
        if n_states is not None and n_features is not None:
            raise NeedReplayError(
                "Need is told per state or by features, not both; pass n_states or n_features."
            )
        checked_exponents(gain_exponent, need_exponent)
        self.n_states = n_states
        self.n_features = n_features
        self.gain_exponent = gain_exponent
        self.need_exponent = need_exponent
        self._backward = backward
        self._drawn_by = np.zeros(len(Fallbacks._fields), dtype=np.int64)
        self.allocate(0)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._mass = np.zeros(capacity)
        self._occupied = np.zeros(capacity, dtype=np.bool_)
        self._states = np.full(capacity if self.n_states else 0, -1, dtype=np.int64)
        self._features = FeatureStore(
            capacity if self.n_features else 0, self.n_features or 1, backward=self._backward
        )
        self._drawn_by[:] = 0

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were drawn by priority, by gain alone, and uniformly."""
        return Fallbacks(*self._drawn_by.tolist())

    def set_gain(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self._mass[slots] = gain**self.gain_exponent
        self._occupied[slots] = True

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """``slots`` are of ``states`` from now on."""
        checked_states(states, self.n_states or 0)
        self._states[slots] = states

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each."""
        self._features.tell(slots, features)

    def forget(self, slots: IntArray) -> None:
        """``slots`` hold new transitions: their state or features are unknown until told."""
        if self.n_states:
            self._states[slots] = -1
        if self.n_features:
            self._features.forget(slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Drawn:
        """Draw ``size`` slots with replacement, the slots being laid out in their order."""
        checked_size(size, int(self._occupied.sum()))
        scores, total, found = self._score(need)
        slots = slots_at(scores, rng.random(size))
        self._drawn_by[found] += size
        return Drawn(slots, scores[slots] / total)

    def probabilities(self, need: AnyArray | None = None) -> FloatArray:
        """P of every slot, 0 for empty ones."""
        scores, total, _ = self._score(need)
        return scores / total

    def need_of_slots(self, need: AnyArray | None) -> FloatArray:
        """The need of every slot, not negative, given what ``sample`` is told."""
        if self.n_features:
            query = self._features.query(need)
            return np.maximum(0.0, self._features.products(query))
        if self.n_states:
            row = checked_need(need, self.n_states, "one for each state")
            return np.where(self._states >= 0, np.maximum(0.0, row)[self._states], 0.0)
        return np.maximum(0.0, checked_need(need, len(self._mass), "one for each slot"))

    def _score(self, need: AnyArray | None) -> tuple[FloatArray, float, int]:
        if need is None and self.need_exponent == 0.0:
            need_power = np.ones(len(self._mass))
        else:
            need_power = relative_power(self.need_of_slots(need), self.need_exponent)
        return score_slots(self._mass, need_power, self._occupied)

    def check_valid(self) -> None:
        """Raise if an empty slot has mass."""
        if self._mass[~self._occupied].any():
            raise NeedReplayError("A slot that was never told its gain has mass.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {
            "mass": self._mass,
            "occupied": self._occupied,
            "states": self._states,
            **self._features.arrays(),
            "drawn_by": self._drawn_by,
        }


def relative_power(need: FloatArray, exponent: float) -> FloatArray:
    """(need / its largest)^b: relative, so that no power overflows."""
    largest = need.max(initial=0.0)
    power: FloatArray = (need / largest if largest > 0.0 else need) ** exponent
    return power


def score_slots(
    mass: FloatArray, need_power: FloatArray, occupied: BoolArray
) -> tuple[FloatArray, float, int]:
    """gain^a · need^b for every slot, its sum, and how it was found.

    Where the sum is 0 the scores are gain^a alone, and where that is 0, 1 for each occupied slot.
    """
    scores: FloatArray = np.where(occupied, priority(mass, need_power), 0.0)  # type: ignore[arg-type]
    if (total := float(scores.sum())) > 0.0:
        return scores, total, BY_PRIORITY
    if (total := float(mass.sum())) > 0.0:
        return mass, total, BY_GAIN
    return occupied.astype(np.float64), float(occupied.sum()), UNIFORM


def slots_at(scores: FloatArray, uniforms: FloatArray) -> IntArray:
    """The slots at ``uniforms`` in [0, 1) of the cumulative scores."""
    cumulative = np.cumsum(scores)
    last = np.searchsorted(cumulative, cumulative[-1:], side="left") if len(scores) else 0
    slots = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    clipped: IntArray = np.minimum(slots, last).astype(np.int64)
    return clipped
