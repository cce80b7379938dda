"""What the samplers by priority and need share: exponents, fallbacks, what weights correct for."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.core.types import IntArray
from needreplay.replay.samplers.base import PrioritySampler

CorrectFor = Literal["both", "gain"]

BY_SCORE = 0
"""Sampled by the score, priority^alpha · need^need_alpha."""
BY_PRIORITY = 1
"""Every score was 0: sampled by priority alone."""
UNIFORM = 2
"""Every priority was 0 as well: sampled uniformly."""
EXHAUSTIVE = 3
"""Rejected too often: sampled by the score, but with a pass over the whole buffer."""


class Fallbacks(NamedTuple):
    """How many slots were sampled each way since the sampler was made."""

    by_score: int
    by_priority: int
    uniform: int
    exhaustive: int


class NeedSampler(PrioritySampler):
    """P(j) ∝ priority_j^alpha · need_j^need_alpha.

    Negative need counts as 0. Where every score is 0, slots are sampled by priority alone, and
    where every priority is 0, uniformly; ``fallbacks`` counts both.

    Args:
        alpha: the exponent of priorities, from 0 to 1.
        need_alpha: the exponent of need, 0 or more.
        correct_for: what importance weights correct for: "both", or "gain" (priorities) alone, so
            that need keeps its effect at beta = 1.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    def __init__(
        self, alpha: float, need_alpha: float, correct_for: CorrectFor, uniform_mix: float
    ) -> None:
        if not 0.0 <= need_alpha < math.inf:
            raise NeedReplayError(
                f"need_alpha is {need_alpha}; it must be a finite number, 0 or more."
            )
        if correct_for not in ("both", "gain"):
            raise unknown("correct_for", correct_for, ("both", "gain"))
        self.need_alpha = float(need_alpha)
        self.correct_for = correct_for
        super().__init__(alpha, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._counts: IntArray = np.zeros(len(Fallbacks._fields), dtype=np.int64)

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were sampled by score, by priority, uniformly, and exhaustively."""
        return Fallbacks(*self._counts.tolist())

    def _check_size(self, size: int) -> None:
        """Raise for a negative size, and for any sample of an empty buffer. O(N)."""
        if size < 0:
            raise NeedReplayError(f"size is {size}; give 0 or more.")
        if size > 0 and not self._occupied.any():
            raise NeedReplayError("The buffer is empty; add transitions before you sample.")
