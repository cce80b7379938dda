"""The need of slots, from whatever it is told as: per slot, per state, or by features."""

from __future__ import annotations

import numpy as np

from needreplay.core.checks import AT_LEAST_ONE, check_number
from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.features import FeatureStore
from needreplay.replay.samplers.query import checked_need, checked_states

UNKNOWN = -1


class NeedOfSlots:
    """What a draw has to know of its slots to tell their need.

    With neither ``n_states`` nor ``n_features``, need is told per slot. With ``n_states``, it is
    told per state and slots are told their state. With ``n_features``, it is a vector, and slots
    are told theirs (see ``FeatureStore`` for ``backward``). A slot that has not been told its state
    or features has need 0.
    """

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, *, backward: bool = False
    ) -> None:
        if n_states is not None and n_features is not None:
            raise NeedReplayError(
                "Need is told per state or by features, not both; pass n_states or n_features."
            )
        for name, number in (("n_states", n_states), ("n_features", n_features)):
            if number is not None:
                check_number(name, number, int, AT_LEAST_ONE)
        self.n_states = n_states
        self.n_features = n_features
        self.backward = backward
        self.allocate(0)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots of which nothing is known."""
        self._capacity = capacity
        self._states = np.full(capacity if self.n_states else 0, UNKNOWN, dtype=np.int64)
        self.features = FeatureStore(
            capacity if self.n_features else 0, self.n_features or 1, backward=self.backward
        )

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """``slots`` are of ``states`` from now on."""
        if self.n_states is None:
            raise NeedReplayError("This draw does not go by states; make it with n_states.")
        checked_states(states, self.n_states)
        self._states[slots] = states

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each."""
        self.told_features.tell(slots, features)

    @property
    def told_features(self) -> FeatureStore:
        """The features, of a draw that goes by them; any other is refused in prose."""
        if self.n_features is None:
            raise NeedReplayError("This draw does not go by features; make it with n_features.")
        return self.features

    def forget(self, slots: IntArray) -> None:
        """``slots`` hold new transitions: their state or features are unknown until told."""
        if self.n_states:
            self._states[slots] = UNKNOWN
        if self.n_features:
            self.features.forget(slots)

    def query(self, need: AnyArray | None) -> FloatArray:
        """What to hold against slots, given what ``sample`` was told, or an error in prose."""
        if self.n_features:
            return self.features.query(need)
        if self.n_states:
            return checked_need(need, self.n_states, "one for each state")
        return checked_need(need, self._capacity, "one for each slot")

    def products(self, slots: IntArray, query: FloatArray) -> FloatArray:
        """The need of ``slots``, negative need as it is."""
        if self.n_features:
            return self.features.products(slots, query)
        if self.n_states:
            states = self._states[slots]
            return np.where(states == UNKNOWN, 0.0, query[states])
        return query[slots]

    def of(self, slots: IntArray, need: AnyArray | None) -> FloatArray:
        """The need of ``slots``, given what ``sample`` was told."""
        return self.products(slots, self.query(need))

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        if self.n_features:
            return self.features.arrays()
        return {"states": self._states} if self.n_states else {}
