"""PSER: a priority decays back along the trajectory that led to it, and falls slowly.

Brittain, Bertram, Yang & Wei (2020), "Prioritized Sequence Experience Replay".
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import COUNT, SHARE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay.replay._kernels.pser import Pser
from needreplay.replay.samplers.base import EMPTY
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.validation import is_within

NONE = -1


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
    _compiled = True

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
        self._kernel = Pser(*self._settings, self.retained, self.decay, self.window)

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
