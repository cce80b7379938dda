"""Exhaustive sampling by priority and need: a pass over the whole buffer for each batch, O(N).

Every other sampler by need is tested against it; it is as good as any where the buffer is small.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.equations import combine
from needreplay.replay._kernels.kernel import powers_of
from needreplay.replay.samplers.base import EMPTY, Sampled
from needreplay.replay.samplers.need import (
    BY_PRIORITY,
    BY_SCORE,
    UNIFORM,
    UNKNOWN,
    CorrectFor,
    FeatureStore,
    NeedSampler,
    backward_or_raw,
    warn_unset,
)
from needreplay.replay.validation import check_need, check_states, is_within


class ExhaustiveNeedSampler(NeedSampler):
    """Priority and need of any kind, exactly, slot by slot.

    Need is passed per slot, per state, or as a vector. A slot without the state or features that
    need is read from has need 0. As in every sampler by need, negative need counts as 0.

    Args:
        n_states: how many states there are, if need is passed per state.
        n_features: how many features there are, if need is a vector; see ``FeatureStore``. With
            neither, need is passed per slot.
        backward: see ``FeatureStore``.
        raw: see ``FeatureStore``.
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
        raw: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        if n_states is not None and n_features is not None:
            raise NeedReplayError(
                "Need is passed per state or by features, not both; give n_states or n_features."
            )
        for name, number in (("n_states", n_states), ("n_features", n_features)):
            if number is not None:
                check_number(name, number, int, AT_LEAST_ONE)
        self.n_states = None if n_states is None else int(n_states)
        self.n_features = None if n_features is None else int(n_features)
        self.backward, self.raw = backward_or_raw(backward, raw)
        super().__init__(alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._powers = self._keep("powers", np.zeros(capacity))
        self._states: IntArray | None = None
        self._features: FeatureStore | None = None
        if self.n_states is not None:
            self._states = self._keep("states", np.full(capacity, UNKNOWN, dtype=np.int64))
        if self.n_features is not None:
            self._features = FeatureStore(
                capacity, self.n_features, backward=self.backward, raw=self.raw
            )
            self._stored |= self._features.arrays()

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        super().set_priorities(slots, priorities)
        self._priorities[slots] = priorities
        self._powers[slots] = powers_of(priorities, self.alpha)

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """Set the states of ``slots``."""
        if self._states is None or self.n_states is None:
            raise NeedReplayError("This sampler does not use states; make it with n_states.")
        check_states(states, self.n_states)
        self._states[slots] = states

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """Set the features of ``slots``, one row each."""
        self.features.set(slots, features)

    @property
    def features(self) -> FeatureStore:
        """The features of slots, of a sampler made with ``n_features``."""
        if self._features is None:
            raise NeedReplayError("This sampler does not use features; make it with n_features.")
        return self._features

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their need is 0 until it is set again."""
        if self._states is not None:
            self._states[slots] = UNKNOWN
        if self._features is not None:
            self._features.clear(slots)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        self._priorities[slots] = EMPTY
        self._powers[slots] = 0.0
        self.place(slots, slots)

    def _query(self, need: AnyArray | None, size: int | None = None) -> FloatArray | None:
        if need is None and self.need_alpha == 0.0:
            return None
        if self._features is not None:
            query = self._features.query(need, size)
            self._features.tick()
            return query
        if self.n_states is not None:
            return check_need(need, self.n_states, "one for each state", size)
        return check_need(need, self._capacity, "one for each slot", size)

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
            need_of_slots = np.maximum(0.0, self._need_of_slots(query))
            largest = largest_need(self._powers, need_of_slots)
            need_of_slots = np.minimum(need_of_slots / largest, 1.0)
            if self.need_alpha > 0.0 and not need_of_slots.any():
                described = self.described
                if described is not None and not described.any():
                    warn_unset(self)
        return score_slots(self._powers, need_of_slots, self.need_alpha, self.occupied)

    def _need_of_slots(self, query: FloatArray) -> FloatArray:
        """The need of every slot, also where it is negative."""
        if self._features is not None:
            return self._features.need_of(np.arange(self._capacity), query)
        if self._states is not None:
            return np.where(self._states == UNKNOWN, 0.0, query[self._states])
        return query

    @property
    def described(self) -> BoolArray | None:
        """Which slots have the state or features that need is read from; None if it is by slot."""
        if self._features is not None:
            return self._features.known
        return None if self._states is None else self._states != UNKNOWN

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        self._check_powers(self._powers)
        if self._features is not None:
            self._features.check_valid()
        if self._states is not None and not is_within(self._states, UNKNOWN, self.n_states or 0):
            raise NeedReplayError("A slot has a state that does not exist.")


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
