"""Drawing all occupied slots alike: what is left to do where no slot has any mass."""

from __future__ import annotations

import warnings

import numpy as np

from needreplay.core.types import BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled


class ZeroMass:
    """Falls back to the uniform draw, counts it, and says so the first time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = False
        self.count: IntArray = np.zeros(1, dtype=np.int64)

    def sample(self, occupied: BoolArray, uniforms: FloatArray) -> Sampled:
        """One of the occupied slots for each uniform number, all equally likely."""
        if not self._said:
            self._said = True
            warnings.warn(
                f"Every gain in this memory is 0, so the {self._name} draw is uniform until one is "
                "not (this is said once; the draw's fallbacks counts how often it happens).",
                RuntimeWarning,
                stacklevel=5,
            )
        self.count += len(uniforms)
        members = np.flatnonzero(occupied)
        slots = members[(uniforms * len(members)).astype(np.int64)]
        return Sampled(slots, np.full(len(uniforms), 1.0 / len(members)))
