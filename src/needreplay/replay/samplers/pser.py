"""PSER: a priority decays back along the trajectory that led to it, and falls slowly.

Brittain, Bertram, Yang & Wei (2020), "Prioritized Sequence Experience Replay".
"""

from __future__ import annotations

import numpy as np

from needreplay import equations
from needreplay._core.checks import COUNT, SHARE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.jit import jit
from needreplay._core.types import FloatArray, IntArray
from needreplay.replay.samplers.base import EMPTY, BaseSampler, powers_of
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.validation import MIN_PRIORITY, is_within

pser_priority = jit(equations.pser_priority)
pser_decayed = jit(equations.pser_decayed)

NONE = -1


@jit
def _place(
    stored: FloatArray, before: IntArray, after: IntArray, slots: IntArray, previous: IntArray
) -> None:
    """Forget what was in ``slots`` and link the new occupants to ``previous``; writes all three."""
    for i in range(len(slots)):
        slot = slots[i]
        if after[slot] != NONE and before[after[slot]] == slot:
            before[after[slot]] = NONE
        after[slot] = NONE
        before[slot] = previous[i]
        if previous[i] != NONE:
            after[previous[i]] = slot
        stored[slot] = EMPTY


@jit
def _in_range(priority: float) -> float:
    """``priority``, or 0 where decay took it below the range."""
    return priority if priority >= MIN_PRIORITY else 0.0


@jit
def _set_priorities(
    stored: FloatArray,
    before: IntArray,
    slots: IntArray,
    priorities: FloatArray,
    retained: float,
    decay: float,
    window: int,
) -> IntArray:
    """p_i = max(priority_i, η p_i); then p_{i-k} = max(p_{i-k}, p_i ρ^k) for k = 1..window.

    Writes ``stored`` and returns every slot whose priority may have changed. A new transition takes
    its priority as it is and passes nothing back.
    """
    changed = np.empty(len(slots) * (window + 1), dtype=np.int64)
    n_changed = 0
    for i in range(len(slots)):
        slot = slots[i]
        changed[n_changed] = slot
        n_changed += 1
        if stored[slot] == EMPTY:
            stored[slot] = priorities[i]
            continue
        stored[slot] = _in_range(pser_priority(priorities[i], stored[slot], retained))
        earlier = before[slot]
        for steps in range(1, window + 1):
            if earlier == NONE:
                break
            passed = _in_range(pser_decayed(stored[slot], decay, steps))
            stored[earlier] = max(stored[earlier], passed)
            changed[n_changed] = earlier
            n_changed += 1
            earlier = before[earlier]
    return changed[:n_changed]


class PSERSampler(ProportionalSampler):
    """Proportional to priorities that decay back along each episode.

    Args:
        alpha: α, applied after the decay.
        retained: η: a priority falls to this share of its old value at most.
        decay: ρ: the share of a priority that is passed one step back.
        window: how many steps back a priority is passed.
        stratified: see ``ProportionalSampler``.
        uniform_mix: see ``ProportionalSampler``.
    """

    name = "pser"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        retained: float = 0.7,
        decay: float = 0.4,
        window: int = 5,
        stratified: bool = True,
        uniform_mix: float = 0.0,
    ) -> None:
        self.retained = check_number("retained", retained, float, SHARE)
        self.decay = check_number("decay", decay, float, SHARE)
        self.window = check_number("window", window, int, COUNT)
        super().__init__(alpha, stratified=stratified, uniform_mix=uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._before = self._keep("before", np.full(capacity, NONE, dtype=np.int64))
        self._after = self._keep("after", np.full(capacity, NONE, dtype=np.int64))

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``; ``previous`` are those before them, or -1."""
        _place(self._priorities, self._before, self._after, slots, previous)

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set priorities and pass them back along the episode."""
        BaseSampler.set_priorities(self, slots, priorities)
        stored, settings = self._priorities, (self.retained, self.decay, self.window)
        changed = _set_priorities(stored, self._before, slots, priorities, *settings)
        self._tree.set(changed, powers_of(stored[changed], self.alpha))

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        _place(self._priorities, self._before, self._after, slots, np.full(len(slots), NONE))
        super().clear(slots)

    def check_valid(self) -> None:
        """Raise unless tree and priorities agree and every link is of two occupied slots."""
        super().check_valid()
        if not all(is_within(a, NONE, self._capacity) for a in (self._before, self._after)):
            raise NeedReplayError("A transition is linked to a slot that does not exist.")
        linked = np.flatnonzero(self._before != NONE)
        earlier = self._before[linked]
        if not np.array_equal(self._after[earlier], linked):
            raise NeedReplayError("A transition's predecessor does not know its successor.")
        if np.any(self._priorities[linked] == EMPTY) or np.any(self._priorities[earlier] == EMPTY):
            raise NeedReplayError("An empty slot is linked to a trajectory.")
