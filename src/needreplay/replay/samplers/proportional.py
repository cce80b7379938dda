"""Proportional prioritized replay: P(j) ∝ priority_j^α, by a sum tree.

Schaul et al. (2016), section 3.3.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import check_number
from needreplay._core.types import AnyArray, IntArray
from needreplay.replay._kernels.proportional import Proportional
from needreplay.replay._kernels.sumtree import SumTree
from needreplay.replay.samplers.base import PrioritySampler, Sampled, check_counts
from needreplay.replay.validation import MAX_PRIORITY, flag


class ProportionalSampler(PrioritySampler):
    """P(j) = priority_j^α / Σ priority^α.

    Args:
        alpha: α: 0 is uniform, 1 fully proportional.
        stratified: sample one slot from each of ``size`` equal shares of the total, as Schaul et
            al. do. This spreads a batch more evenly; the probability of a slot stays the same.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
        priority_floor: 1 is LAP (Fujimoto et al. 2020): P(j) ~ max(priority_j, 1)^α, which belongs
            with Huber's loss. Batches then have weights of 1, whatever beta is. 0: no floor.
    """

    name = "proportional"
    _compiled = True

    def __init__(
        self,
        alpha: float = 0.6,
        *,
        stratified: bool = True,
        uniform_mix: float = 0.0,
        priority_floor: float = 0.0,
    ) -> None:
        self.priority_floor = check_number(
            "priority_floor", priority_floor, float, (0.0, MAX_PRIORITY)
        )
        self.stratified = flag("stratified", stratified)
        super().__init__(alpha, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._tree = SumTree(capacity)
        self._keep("tree", self._tree.array)
        self._fallbacks = self._keep("fallbacks", np.zeros(1, dtype=np.int64))
        self._kernel = Proportional(*self._settings)
        self._kernel.priority_floor = self.priority_floor

    @property
    def _settings(self) -> tuple[object, ...]:
        """What a kernel with a sum tree takes."""
        settings = self._follows_window, self._tree, self.alpha, self.stratified
        return self._bound, self._capacity, *settings, self.uniform_mix == 0.0

    @property
    def fallbacks(self) -> int:
        """How many slots were sampled uniformly because every priority was 0."""
        return int(self._fallbacks[0])

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._reject_need(need)
        uniforms = rng.random(size)
        if self._tree.total == 0.0:
            self._fallbacks += size
            return self._sample_uniformly(uniforms)
        return Sampled(*self._tree.sample(uniforms, self.stratified))

    def _at(self, slots: IntArray, size: int) -> Sampled:
        if self._tree.total == 0.0:
            return Sampled(slots, np.full(size, 1.0 / np.count_nonzero(self.occupied)))
        return Sampled(slots, self._tree.masses[slots] / self._tree.total)

    def check_valid(self) -> None:
        """Raise unless the tree is sound and its leaves follow from the priorities."""
        super().check_valid()
        check_counts(self._fallbacks)
        self._tree.check_valid()
        self._check_powers(self._tree.masses)
