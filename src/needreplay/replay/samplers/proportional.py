"""Proportional prioritized replay: P(j) ∝ priority_j^α, by a sum tree.

Schaul et al. (2016), section 3.3.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import EMPTY, PrioritySampler, Sampled, check_counts, powers_of
from needreplay.replay.sumtree import SumTree, find_leaves, set_leaves, spread
from needreplay.replay.validation import flag


@jit
def _set_priorities(
    stored: FloatArray, tree: FloatArray, alpha: float, slots: IntArray, priorities: FloatArray
) -> None:
    """Store raw priorities, and priority^α in the tree."""
    for i in range(len(slots)):
        stored[slots[i]] = priorities[i]
    set_leaves(tree, len(stored), slots, powers_of(priorities, alpha))


@jit
def sample_leaves(
    tree: FloatArray,
    capacity: int,
    uniforms: FloatArray,
    stratified: bool,
    slots: IntArray,
    probabilities: FloatArray,
) -> None:
    """A slot for each uniform number, and its power / total; writes the last two."""
    total = tree[-1]
    find_leaves(tree, capacity, spread(uniforms, total, stratified), slots)
    for i in range(len(uniforms)):
        probabilities[i] = tree[slots[i]] / total


class ProportionalSampler(PrioritySampler):
    """P(j) = priority_j^α / Σ priority^α.

    Args:
        alpha: α: 0 is uniform, 1 fully proportional.
        stratified: sample one slot from each of ``size`` equal shares of the total, as Schaul et
            al. do. This spreads a batch more evenly; the probability of a slot stays the same.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    name = "proportional"

    def __init__(
        self, alpha: float = 0.6, *, stratified: bool = True, uniform_mix: float = 0.0
    ) -> None:
        self.stratified = flag("stratified", stratified)
        super().__init__(alpha, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._tree = SumTree(capacity)
        self._keep("tree", self._tree.array)
        self._fallbacks = self._keep("fallbacks", np.zeros(1, dtype=np.int64))

    @property
    def fallbacks(self) -> int:
        """How many slots were sampled uniformly because every priority was 0."""
        return int(self._fallbacks[0])

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        super().set_priorities(slots, priorities)
        _set_priorities(self._priorities, self._tree.array, self.alpha, slots, priorities)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        self._refuse_need(need)
        uniforms = rng.random(size)
        if self._tree.total == 0.0:
            self._fallbacks += size
            return self._sample_uniformly(uniforms)
        slots, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        tree = self._tree.array
        sample_leaves(tree, self._capacity, uniforms, self.stratified, slots, probabilities)
        return Sampled(slots, probabilities)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        if self._tree.total == 0.0:
            return Sampled(slots, np.full(size, 1.0 / np.count_nonzero(self.occupied)))
        return Sampled(slots, self._tree.masses[slots] / self._tree.total)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        self._priorities[slots] = EMPTY
        self._tree.set(slots, np.zeros(len(slots)))

    def check_valid(self) -> None:
        """Raise unless the tree is sound and its leaves follow from the priorities."""
        super().check_valid()
        check_counts(self._fallbacks)
        self._tree.check_valid()
        self._check_powers(self._tree.masses)
