"""The learner's part of a transition: its block, and its place in its episode."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, IntArray
from needreplay.replay._kernels.steps import follow
from needreplay.replay.storage import NO_ID, Column, Ring, Writer
from needreplay.replay.validation import is_within

RECENT = 64
"""Blocks of a source in which the predecessor of a transition is looked for."""


@dataclass(slots=True)
class Block:
    """Where the rows of some transitions are."""

    first_id: int
    """the id of its first row, as long as that one is in the index"""
    count: int
    shard: int
    position: int
    source: str
    sequence: int
    first: int
    """the number of its first row among those of its source"""


@dataclass(slots=True)
class Origin:
    """What came from one writer."""

    next: int = 0
    """the number of the transition that comes next"""
    recent: deque[Block] = field(default_factory=lambda: deque(maxlen=RECENT))

    def id_of(self, number: int) -> int:
        """The id of a transition that came before, or -1 if it is not known any more."""
        for block in reversed(self.recent):
            if block.first <= number < block.first + block.count:
                return block.first_id + number - block.first
        return NO_ID


class Links(Writer):
    """Stores the number of a block, and which transitions follow each other.

    Args:
        capacity: of the ring.
        settings: of the rows, which are elsewhere.
    """

    tells_kernel = False  # kernels know no links but those of open windows

    def __init__(self, capacity: int, settings: dict[str, Any]) -> None:
        super().__init__([Column("block", np.dtype(np.int64), ())])
        self._settings = settings
        self.following: IntArray = np.full(capacity, NO_ID, dtype=np.int64)
        self.steps: IntArray = np.full((capacity, 2), NO_ID, dtype=np.int64)
        """Of each slot, the number of the episode and the step in it."""
        self._begun: IntArray = np.zeros(1, dtype=np.int64)
        self._previous = self._steps = np.zeros(0, dtype=np.int64)
        self._numbers: IntArray | None = None

    def expect(self, previous: IntArray, steps: IntArray, numbers: IntArray | None = None) -> None:
        """Say of the transitions that are added next where they are in their episodes.

        Args:
            previous: the id before each in its episode, or -1.
            steps: the step of each in its episode.
            numbers: of their episodes; by default that of the transition before, or a new one.
        """
        self._previous, self._steps, self._numbers = previous, steps, numbers

    def placed(self, ring: Ring, count: int) -> tuple[IntArray, IntArray]:
        """Slots of the ``count`` newest, and the id before each in its episode or -1."""
        capacity, first = ring.capacity, ring.next_id - count
        slots, previous = np.arange(first, first + count) % capacity, self._previous
        self.following[slots] = NO_ID
        self.steps[slots, 1] = self._steps
        known = previous >= ring.oldest_id
        self.following[previous[known] % capacity] = np.arange(first, first + count)[known]
        if self._numbers is not None:
            self.steps[slots, 0] = self._numbers
        else:
            for slot, before in zip(slots.tolist(), previous.tolist(), strict=True):
                if before >= ring.oldest_id:
                    self.steps[slot, 0] = self.steps[before % capacity, 0]
                else:
                    self.steps[slot, 0] = self._begun[0]
                    self._begun[0] += 1
        return slots, previous

    def future(self, ids: IntArray, steps: IntArray) -> IntArray:
        """The ids ``steps`` after ``ids`` in their episodes, -1 where there is none."""
        later: IntArray = follow(self.following, np.ascontiguousarray(ids), steps)
        return later

    def places(self, ids: IntArray) -> IntArray:
        """The number of the episode of each of ``ids``, and its step in it."""
        found: IntArray = self.steps[ids % len(self.steps)]
        return found

    def choose_cut(self, env: int | None) -> None:  # noqa: ARG002
        """Refuse: episodes are cut where they are."""
        raise NeedReplayError("cut is called where the environment is: writer.cut().")

    def check_valid(self, ring: Ring) -> None:
        """Raise unless links and steps are within their bounds."""
        used = min(ring.next_id, ring.capacity)
        if not is_within(self.following[:used], NO_ID, ring.next_id):
            raise NeedReplayError("A transition is followed by one that was never stored.")
        if not is_within(self.steps[:used], NO_ID, 2**62):
            raise NeedReplayError("A transition is of an episode that never began.")

    def clear(self) -> None:
        """Forget all links."""
        self.following[:] = self.steps[:] = NO_ID

    def arrays(self) -> dict[str, AnyArray]:
        """Links and steps."""
        return {"following": self.following, "places": self.steps, "begun": self._begun}

    def settings(self) -> dict[str, Any]:
        """What a file must agree on."""
        return self._settings


def features_of(sampler: Any, slots: IntArray) -> tuple[AnyArray, AnyArray | None]:
    """Which slots have features, and the features as they were passed."""
    store = getattr(sampler, "features", None)
    if store is None:
        return np.zeros(len(slots), dtype=np.bool_), None
    vectors = store.vectors[slots].astype(np.float64)
    if not (store.backward or store.raw):  # v = x / |x|^2, so x = v / |v|^2
        squares = np.sum(vectors**2, axis=1, keepdims=True)
        vectors = np.divide(vectors, squares, out=np.zeros_like(vectors), where=squares > 0.0)
    return store.known[slots], vectors
