"""PSER: a gain decays back along the trajectory that led to it, and falls slowly.

Brittain, Bertram, Yang & Wei (2020), "Prioritized Sequence Experience Replay".
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.proportional import EMPTY, ProportionalSampler, masses_of
from needreplay.rules import priority as rules

sequence_gain = jit(rules.sequence_gain)
decayed_back = jit(rules.decayed_back)

NONE = -1


@jit
def _place(
    kept: FloatArray, before: IntArray, after: IntArray, slots: IntArray, previous: IntArray
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
        kept[slot] = EMPTY


@jit
def _set_gain(
    kept: FloatArray,
    before: IntArray,
    slots: IntArray,
    gain: FloatArray,
    share_kept: float,
    decay: float,
    window: int,
) -> IntArray:
    """p_i = max(gain_i, η p_i); then p_{i-k} = max(p_{i-k}, p_i ρ^k) for k = 1..window.

    Writes ``kept`` and answers with every slot whose gain may have changed. A new transition takes
    its gain as it is and hands nothing back.
    """
    touched = np.empty(len(slots) * (window + 1), dtype=np.int64)
    n_touched = 0
    for i in range(len(slots)):
        slot = slots[i]
        touched[n_touched] = slot
        n_touched += 1
        if kept[slot] == EMPTY:
            kept[slot] = gain[i]
            continue
        kept[slot] = sequence_gain(gain[i], kept[slot], share_kept)
        earlier = before[slot]
        for steps in range(1, window + 1):
            if earlier == NONE:
                break
            kept[earlier] = max(kept[earlier], decayed_back(kept[slot], decay, steps))
            touched[n_touched] = earlier
            n_touched += 1
            earlier = before[earlier]
    return touched[:n_touched]


class PSERSampler(ProportionalSampler):
    """ProportionalSampler to gains that decay back along each episode.

    Args:
        alpha: α, applied to what is left after the decay.
        share_kept: η: a new gain below this share of the old one is raised to it.
        decay: ρ: the share of a gain that is handed one step back.
        window: how many steps back a gain is handed.
        stratified: see ``ProportionalSampler``.
    """

    name = "sequence"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        share_kept: float = 0.7,
        decay: float = 0.4,
        window: int = 5,
        stratified: bool = True,
    ) -> None:
        if not (0.0 <= share_kept <= 1.0 and 0.0 <= decay <= 1.0 and window >= 0):
            raise NeedReplayError(
                f"share_kept is {share_kept}, decay {decay}, window {window}; shares have to be "
                "from 0 to 1, and the window must not be negative."
            )
        self.share_kept = float(share_kept)
        self.decay = float(decay)
        self.window = int(window)
        super().__init__(alpha, stratified=stratified)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._before = np.full(capacity, NONE, dtype=np.int64)
        self._after = np.full(capacity, NONE, dtype=np.int64)

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``; ``previous`` are those before them, or -1."""
        _place(self._gain, self._before, self._after, slots, previous)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots now have a new gain, which is handed back; a new one takes it as it is."""
        touched = _set_gain(
            self._gain, self._before, slots, gain, self.share_kept, self.decay, self.window
        )
        self._tree.set(touched, masses_of(self._gain[touched], self.alpha))
        if self._smallest is not None:
            self._note_smallest(self._smallest, touched)

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots`` (oldest first), are empty from now on."""
        _place(self._gain, self._before, self._after, slots, np.full(len(slots), NONE))
        super().clear(slots)

    def check_valid(self) -> None:
        """Raise unless tree and gains agree and every link is of two occupied slots."""
        super().check_valid()
        linked = np.flatnonzero(self._before != NONE)
        earlier = self._before[linked]
        if not np.array_equal(self._after[earlier], linked):
            raise NeedReplayError("A transition's predecessor does not know its successor.")
        if np.any(self._gain[linked] == EMPTY) or np.any(self._gain[earlier] == EMPTY):
            raise NeedReplayError("An empty slot is linked to a trajectory.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {**super().arrays(), "before": self._before, "after": self._after}
