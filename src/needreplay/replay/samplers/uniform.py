"""Uniform sampling: every occupied slot with the same probability."""

from __future__ import annotations

import numpy as np

from needreplay._core.types import AnyArray, IntArray
from needreplay.replay._kernels.kernel import Kernel
from needreplay.replay.samplers.base import BaseSampler, Sampled


class UniformSampler(BaseSampler):
    """Every occupied slot with probability 1 / N."""

    name = "uniform"
    _compiled = True

    def __init__(self) -> None:
        super().__init__()
        self._follows_window = True
        self.allocate(1)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._kernel = Kernel(self._bound, capacity, samples_alone=True)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._reject_need(need)
        return self._at(self._pick(rng.random(size)), size)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        return Sampled(slots, np.full(size, 1.0 / float(self._window[1])))
