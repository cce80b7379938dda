"""Exhaustive sampling by priority and need: a pass over the whole buffer for each batch, O(N).

Every other sampler by need is tested against it; it is as good as any where the buffer is small.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.need import (
    BY_PRIORITY,
    BY_SCORE,
    UNIFORM,
    CorrectFor,
    HasSlotNeed,
    NeedSampler,
)
from needreplay.rules.priority import combine


class ExhaustiveNeedSampler(HasSlotNeed, NeedSampler):
    """Priority and need of any kind, exactly, slot by slot.

    Args:
        n_states: see ``HasSlotNeed`` for this and the following.
        n_features: how many features there are, if need is a vector.
        backward: see ``FeatureStore``.
        alpha: see ``NeedSampler`` for this and the following.
        need_alpha: the exponent of need.
        correct_for: what importance weights correct for.
        uniform_mix: the share of the probability that is uniform.
    """

    name = "exhaustive need"

    def __init__(
        self,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        HasSlotNeed.__init__(self, n_states, n_features, backward=backward)
        NeedSampler.__init__(self, alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._powers = self._keep("powers", np.zeros(capacity))
        self._allocate_need(capacity)
        self._stored |= self._need_arrays()

    def _set_powers(self, slots: IntArray, powers: FloatArray) -> None:
        self._powers[slots] = powers

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their need is 0 until it is set again."""
        self._clear_need(slots)

    def _set_empty(self, slots: IntArray) -> None:
        self._powers[slots] = 0.0
        self._clear_need(slots)

    def _query(self, need: AnyArray | None, size: int | None = None) -> FloatArray | None:
        return None if need is None and self.need_alpha == 0.0 else self.query(need, size)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._check_size(size)
        self._scores, self._total, found = self._score(need)
        self._counts[found] += size
        uniforms = rng.random(size)
        if found == UNIFORM:
            return self._sample_uniformly(uniforms)
        return self._at(slots_at(self._scores, uniforms), size)

    def _at(self, slots: IntArray, size: int) -> Sampled:  # noqa: ARG002
        total_power = self._powers.sum() if self.correct_for == "gain" else 0.0
        corrected = self._powers[slots] / total_power if total_power > 0.0 else None
        return Sampled(slots, self._scores[slots] / self._total, corrected=corrected)

    def probabilities(self, need: AnyArray | None = None) -> FloatArray:
        """P of every slot, 0 for empty ones."""
        scores, total, _ = self._score(self._query(need))
        return np.where(self.occupied, self._with_share(scores / total), 0.0)

    def _score(self, query: FloatArray | None) -> tuple[FloatArray, float, int]:
        need_of_slots = np.ones(self._capacity)
        if query is not None:
            need_of_slots = np.maximum(0.0, self.need_of(np.arange(self._capacity), query))
            largest = largest_need(self._powers, need_of_slots)
            need_of_slots = np.minimum(need_of_slots / largest, 1.0)
            if self.need_alpha > 0.0:
                self._warn_if_unset("samples by priority alone")
        return score_slots(self._powers, need_of_slots, self.need_alpha, self.occupied)

    def check_valid(self) -> None:
        """Raise unless the powers are those of the priorities."""
        super().check_valid()
        self._check_powers(self._powers)
        self._check_need()


def largest_need(powers: FloatArray, need: FloatArray) -> float:
    """The largest need of a slot that has a priority: need is divided by it, and is 1 at most."""
    return float(need[powers > 0.0].max(initial=0.0)) or 1.0


def score_slots(
    powers: FloatArray, need: FloatArray, need_alpha: float, occupied: BoolArray
) -> tuple[FloatArray, float, int]:
    """The score of every slot, their sum, and what they are: by need, by priority, or uniform.

    ``powers`` are priority^alpha and ``need`` is not negative. Where all scores are 0 they are
    replaced by ``powers``, and where these are 0, by 1 for each occupied slot.
    """
    scores: FloatArray = np.where(occupied, combine(powers, need, 1.0, need_alpha), 0.0)  # type: ignore[arg-type]
    if (total := float(scores.sum())) > 0.0:
        return scores, total, BY_SCORE
    if (total := float(powers.sum())) > 0.0:
        return powers, total, BY_PRIORITY
    return occupied.astype(np.float64), float(occupied.sum()), UNIFORM


def slots_at(scores: FloatArray, uniforms: FloatArray) -> IntArray:
    """The slots at ``uniforms`` in [0, 1] of the cumulative scores; never one whose score is 0."""
    return places_at(np.cumsum(scores), uniforms)


def places_at(cumulative: FloatArray, uniforms: FloatArray) -> IntArray:
    """Where ``uniforms`` in [0, 1] are in cumulative scores; never where a score is 0."""
    last = np.searchsorted(cumulative, cumulative[-1:], side="left") if len(cumulative) else 0
    slots = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    clipped: IntArray = np.minimum(slots, last).astype(np.int64)
    return clipped
