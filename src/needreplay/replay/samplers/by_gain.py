"""What the draws that are made of a draw by gain share: it is told gains, they are told need."""

from __future__ import annotations

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.features import FeatureStore
from needreplay.replay.samplers.need_of_slots import NeedOfSlots


class ByGain:
    """Passes gains on to ``by_gain``, and keeps what need is held against.

    Args:
        by_gain: draws by gain.
        n_states: how need is told: see ``NeedOfSlots``.
        n_features: how need is told: see ``NeedOfSlots``.
        backward: how need is told: see ``NeedOfSlots``.
    """

    def __init__(
        self,
        by_gain: Sampler,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
    ) -> None:
        self.by_gain = by_gain
        self.n_states, self.n_features, self.backward = n_states, n_features, backward
        self.need_of_slots = NeedOfSlots(n_states, n_features, backward=backward)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self.by_gain.allocate(capacity)
        self.need_of_slots.allocate(capacity)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self.by_gain.set_priorities(slots, gain)

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

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``: their state or features are unknown until told."""
        self.need_of_slots.forget(slots)
        if hasattr(self.by_gain, "place"):
            self.by_gain.place(slots, previous)

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots``, are empty from now on."""
        if not hasattr(self.by_gain, "clear"):
            raise NeedReplayError(f"The {self.by_gain.name} draw cannot empty slots again.")
        self.by_gain.clear(slots)
        self.need_of_slots.forget(slots)

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        self.by_gain.check_valid()

    @property
    def derived_nbytes(self) -> int:
        """Bytes that ``by_gain`` keeps beside its arrays."""
        return int(getattr(self.by_gain, "derived_nbytes", 0))

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        inner = {f"by_gain.{name}": array for name, array in self.by_gain.arrays().items()}
        return {**inner, **self.need_of_slots.arrays()}
