"""What every draw by gain and need has: raw gains, two exponents, what weights correct for."""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.fallbacks import Fallbacks
from needreplay.replay.samplers.proportional import EMPTY, masses_of
from needreplay.replay.samplers.query import Corrects, checked_corrects, checked_exponents


class GainNeed:
    """P(j) ∝ gain_j^a · need_j^b; ``fallbacks`` counts the slots that were found otherwise.

    Args:
        alpha: a, in [0, 1].
        need_alpha: b, in [0, 1].
        corrects: what importance weights correct for: gain and need, or gain alone, so that need
            keeps its effect at beta = 1.
    """

    _gain: FloatArray

    def __init__(self, alpha: float, need_alpha: float, corrects: Corrects) -> None:
        checked_exponents(alpha, need_alpha)
        self.alpha = alpha
        self.need_alpha = need_alpha
        self.corrects = checked_corrects(corrects)
        self._drawn_by: IntArray = np.zeros(len(Fallbacks._fields), dtype=np.int64)

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were drawn by priority, by gain alone, uniformly, and by the sweep."""
        return Fallbacks(*self._drawn_by.tolist())

    @property
    def gain(self) -> FloatArray:
        """The raw gain of each slot, -1 where it is empty; told by ``set_priorities`` only."""
        return self._gain

    @property
    def _occupied(self) -> BoolArray:
        """Which slots are not empty. O(N)."""
        occupied: BoolArray = self._gain != EMPTY
        return occupied

    def _check_masses(self, masses: FloatArray) -> None:
        """Raise unless ``masses`` are finite, and the gains of all slots, shaped, 0 if empty."""
        occupied, expected = self._occupied, np.zeros(len(masses))
        expected[occupied] = masses_of(self._gain[occupied], self.alpha)
        if not (np.isfinite(masses).all() and np.array_equal(masses, expected)):
            raise NeedReplayError("A slot's mass is not its gain, shaped.")
