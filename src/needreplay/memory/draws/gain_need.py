"""What every draw by gain and need has: two exponents, what weights correct for, and a count."""

from __future__ import annotations

import numpy as np

from needreplay.memory.draws.fallbacks import Fallbacks
from needreplay.memory.draws.query import Corrects, checked_corrects, checked_exponents
from needreplay.types import IntArray


class GainNeed:
    """P(j) ∝ gain_j^a · need_j^b; ``fallbacks`` counts the slots that were found otherwise.

    Args:
        gain_exponent: a.
        need_exponent: b, in [0, 1].
        corrects: what importance weights correct for: gain and need, or gain alone, so that need
            keeps its effect at beta = 1.
    """

    def __init__(self, gain_exponent: float, need_exponent: float, corrects: Corrects) -> None:
        checked_exponents(gain_exponent, need_exponent)
        self.gain_exponent = gain_exponent
        self.need_exponent = need_exponent
        self.corrects = checked_corrects(corrects)
        self._drawn_by: IntArray = np.zeros(len(Fallbacks._fields), dtype=np.int64)

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were drawn by priority, by gain alone, uniformly, and by the sweep."""
        return Fallbacks(*self._drawn_by.tolist())
