"""Scaling in place of sampling: sample by priority alone, and let the learner scale by need.

Yuan & Mattar, section 6 ("Magnitude vs. probability"): their own way with deep networks.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled, Sampler, knowing_smallest
from needreplay.replay.samplers.need import HasSlotNeed


class NeedScalingSampler(HasSlotNeed):
    """The samples of ``by_priority``, slot for slot, with the need of each.

    Need is returned as it is, also where negative: the learner decides how to scale by it.

    Args:
        by_priority: samples the slots; give it ``uniform_mix`` if you want one.
        n_states: see ``HasSlotNeed`` for this and the following.
        n_features: how many features there are, if need is a vector.
        backward: see ``FeatureStore``.
    """

    name = "need scaling"

    def __init__(
        self,
        by_priority: Sampler,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
    ) -> None:
        super().__init__(n_states, n_features, backward=backward)
        self.by_priority = by_priority

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        self.by_priority.allocate(capacity)
        self._allocate_need(capacity)

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> IntArray | None:
        """Set raw priorities; empty slots become occupied."""
        return self.by_priority.set_priorities(slots, priorities)

    @property
    def priorities(self) -> FloatArray:
        """The raw priorities that ``by_priority`` stores."""
        priorities: FloatArray = self.by_priority.priorities  # type: ignore[attr-defined]
        return priorities

    @property
    def occupied(self) -> BoolArray:
        """Which slots are not empty, as ``by_priority`` knows them."""
        occupied: BoolArray = self.by_priority.occupied  # type: ignore[attr-defined]
        return occupied

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``: their need is 0 until it is set again."""
        self._clear_need(slots)
        if hasattr(self.by_priority, "place"):
            self.by_priority.place(slots, previous)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        if not hasattr(self.by_priority, "clear"):
            raise NeedReplayError(f"The {self.by_priority.name} sampler cannot clear slots.")
        self.by_priority.clear(slots)
        self._clear_need(slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sample ``size`` slots by priority, and return their need."""
        query = self.query(need)
        self._warn_if_unset("returns only zeros for it")
        sampled = self.by_priority.sample(size, rng)
        return sampled._replace(need=self.need_of(sampled.slots, query))

    def follow_smallest(self) -> None:
        """Announce that ``smallest_probability`` will be called; called before ``allocate``."""
        knowing_smallest(self.by_priority).follow_smallest()

    def smallest_probability(self, size: int) -> float:
        """That of ``by_priority``: need does not change what is sampled."""
        return float(knowing_smallest(self.by_priority).smallest_probability(size))

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        self.by_priority.check_valid()
        self._check_need()

    @property
    def derived_nbytes(self) -> int:
        """Bytes of arrays that no checkpoint has to store."""
        return int(getattr(self.by_priority, "derived_nbytes", 0))

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        inner = {f"by_priority.{name}": array for name, array in self.by_priority.arrays().items()}
        return {**inner, **self._need_arrays()}
