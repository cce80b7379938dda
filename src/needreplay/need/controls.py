"""Shuffled need, the control for need: the same values, on wrong transitions."""

from __future__ import annotations

import numpy as np

from needreplay._core.rng import stream
from needreplay._core.types import IntArray
from needreplay.replay import ReplayBuffer


class ShuffledNeed:
    """Gives every stored transition the need of another one: the next along a cycle of all slots.

    The cycle is fixed, and slots that hold nothing yet are passed over: a permutation without fixed
    points as soon as two are stored.

    Args:
        buffer: whose transitions have need.
        seed: decides the cycle.
    """

    def __init__(self, buffer: ReplayBuffer, seed: int) -> None:
        self.buffer, self.seed = buffer, seed
        order = stream(seed, "shuffled need").permutation(buffer._ring.capacity)
        self._next_slot = np.empty_like(order)
        self._next_slot[order] = np.roll(order, -1)
        self._previous_slot = np.argsort(self._next_slot)

    def __reduce__(self) -> tuple[object, ...]:
        """The cycle follows from these, and would be as large as a full buffer."""
        return ShuffledNeed, (self.buffer, self.seed)

    def donors(self, ids: IntArray) -> IntArray:
        """The transitions whose need those of ``ids`` have instead of their own."""
        return self._along(ids, self._next_slot)

    def affected(self, ids: IntArray) -> IntArray:
        """New transitions ``ids``, and those that have the need of one of them from now on."""
        return np.union1d(ids, self._along(ids, self._previous_slot))

    def _along(self, ids: IntArray, step: IntArray) -> IntArray:
        """The transitions that are reached first from ``ids``, by steps from slot to slot."""
        oldest, last, capacity = self.buffer.oldest_id, self.buffer.next_id - 1, len(step)
        found = last - (last - step[ids % capacity]) % capacity
        while (unused := found < oldest).any():
            found[unused] = last - (last - step[found[unused] % capacity]) % capacity
        return found
