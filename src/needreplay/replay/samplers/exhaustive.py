"""The exact sweep: P(j) ∝ gain_j^a · need_j^b by going over all slots. O(N) a batch.

It is what every other need draw is tested against, and as good as any where the memory is small.
Need is told as one number per slot, as a row over states, or as a vector to hold against features.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.equal import ZeroMass
from needreplay.replay.samplers.fallbacks import BY_GAIN, BY_PRIORITY, UNIFORM
from needreplay.replay.samplers.features import FeatureStore
from needreplay.replay.samplers.gain_need import GainNeed
from needreplay.replay.samplers.need_of_slots import NeedOfSlots
from needreplay.replay.samplers.proportional import EMPTY, masses_of
from needreplay.replay.samplers.query import Corrects, checked_size
from needreplay.rules.priority import priority


class ExhaustiveNeedSampler(GainNeed):
    """Gain and need of any kind, exactly, slot by slot.

    ``n_states``, ``n_features`` and ``backward`` say what need is told as: see ``NeedOfSlots``.
    Negative need counts as 0. A total priority of 0 is drawn by gain alone, a total gain of 0
    uniformly; ``fallbacks`` counts both. Importance weights correct for gain and need, or for gain
    alone: ``corrects``.
    """

    name = "sweep"

    def __init__(
        self,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 0.6,
        corrects: Corrects = "both",
    ) -> None:
        super().__init__(alpha, need_alpha, corrects)
        self.n_states, self.n_features, self.backward = n_states, n_features, backward
        self.need_of_slots = NeedOfSlots(n_states, n_features, backward=backward)
        self.allocate(0)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._mass = np.zeros(capacity)
        self._gain = np.full(capacity, EMPTY)
        self.need_of_slots.allocate(capacity)
        self._drawn_by[:] = 0
        self._zero_mass = ZeroMass(self.name)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self._gain[slots] = gain
        self._mass[slots] = masses_of(gain, self.alpha)

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """``slots`` are of ``states`` from now on."""
        self.need_of_slots.set_state(slots, states)

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each."""
        self.need_of_slots.set_features(slots, features)

    @property
    def features(self) -> FeatureStore:
        """The features of slots, of a draw made with ``n_features``."""
        return self.need_of_slots.told_features

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their state or features are unknown until told."""
        self.need_of_slots.forget(slots)

    def clear(self, slots: IntArray) -> None:
        """``slots`` are empty from now on."""
        self._gain[slots] = EMPTY
        self._mass[slots] = 0.0
        self.need_of_slots.forget(slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement, the slots being laid out in their order."""
        checked_size(size, int(self._occupied.sum()))
        scores, total, found = self._score(need)
        self.need_of_slots.features.tick()
        self._drawn_by[found] += size
        uniforms = rng.random(size)
        if found == UNIFORM:
            return self._zero_mass.sample(self._occupied, uniforms)
        slots = slots_at(scores, uniforms)
        by_gain = self._mass[slots] / self._mass.sum() if self.corrects == "gain" else None
        return Sampled(slots, scores[slots] / total, corrected=by_gain)

    def probabilities(self, need: AnyArray | None = None) -> FloatArray:
        """P of every slot, 0 for empty ones."""
        scores, total, _ = self._score(need)
        return scores / total

    def _score(self, need: AnyArray | None) -> tuple[FloatArray, float, int]:
        slots = np.arange(len(self._mass))
        if need is None and self.need_alpha == 0.0:
            need_power = np.ones(len(slots))
        else:
            need_power = relative_power(self.need_of_slots.of(slots, need), self.need_alpha)
        return score_slots(self._mass, need_power, self._occupied)

    def check_valid(self) -> None:
        """Raise unless every slot's mass is its gain, shaped."""
        self._check_masses(self._mass)

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        own = {"gain": self._gain, "mass": self._mass, "drawn_by": self._drawn_by}
        return {**own, **self.need_of_slots.arrays()}


def relative_power(need: FloatArray, exponent: float) -> FloatArray:
    """(max(0, need) / its largest)^b: relative, so that no power overflows."""
    positive = np.maximum(0.0, need)
    largest = positive.max(initial=0.0)
    power: FloatArray = (positive / largest if largest > 0.0 else positive) ** exponent
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
