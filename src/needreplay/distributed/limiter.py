"""Who waits for whom: the learner for writers, and writers for the learner."""

from __future__ import annotations

import math

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError


class Limiter:
    """Keeps samples per insert near a ratio.

    Args:
        min_size: transitions that come before the first sample.
        ratio: how often a transition is sampled on average; None: nobody waits for a ratio.
        tolerance: how many samples it may be ahead or behind; by default those of 10 blocks.
        block: transitions that a writer sends at once.
    """

    def __init__(
        self, min_size: int, ratio: float | None, tolerance: float | None, block: int
    ) -> None:
        self.min_size = check_number("min_size", min_size, int, AT_LEAST_ONE)
        self._ratio, self._tolerance = ratio, math.inf
        if ratio is not None:
            check_number("samples_per_insert", ratio, float, (1e-6, 1e9))
            tolerance = 10 * block * ratio if tolerance is None else tolerance
            self._tolerance = check_number("tolerance", tolerance, float, (0.0, 1e18))

    def room(self, inserted: int, sampled: int) -> float:
        """How many more transitions may come before others are sampled."""
        if self._ratio is None:
            return math.inf
        return max(0.0, self.min_size + (sampled + self._tolerance) / self._ratio - inserted)

    def may_sample(self, size: int, inserted: int, sampled: int) -> bool:
        """Whether ``size`` may be sampled now."""
        if size > self._tolerance:
            raise NeedReplayError(
                f"size is {size}, above tolerance {self._tolerance:g}: a batch would never be "
                "within it. Make tolerance several batches wide."
            )
        if inserted < self.min_size or self._ratio is None:
            return inserted >= self.min_size
        return sampled + size <= (inserted - self.min_size) * self._ratio + self._tolerance
