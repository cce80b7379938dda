"""The proportional draw of prioritised replay: P(j) ∝ gain_j^α, by a sum tree.

Schaul et al. (2016), section 3.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay import native
from needreplay.replay.mintree import MinTree
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.equal import ZeroMass
from needreplay.replay.sumtree import SumTree, find_leaves, set_leaves, spread
from needreplay.replay.validation import MAX_PRIORITY
from needreplay.rules import priority as rules

shaped = jit(rules.shaped)

EMPTY = -1.0
"""The gain of a slot that is not occupied."""


@jit
def masses_of(gain: FloatArray, exponent: float) -> FloatArray:
    """gain^α, each; a power is not taken twice in a row of equal gains (new transitions')."""
    masses = np.empty(len(gain))
    for i in range(len(gain)):
        if i > 0 and gain[i] == gain[i - 1]:
            masses[i] = masses[i - 1]
        else:
            masses[i] = shaped(gain[i], exponent)
    return masses


@jit
def _set_gain(
    kept: FloatArray, tree: FloatArray, exponent: float, slots: IntArray, gain: FloatArray
) -> None:
    """Keep the raw gain, and gain^α in the tree; writes both."""
    for i in range(len(slots)):
        kept[slots[i]] = gain[i]
    set_leaves(tree, len(kept), slots, masses_of(gain, exponent))


@jit
def _draw(
    tree: FloatArray,
    capacity: int,
    uniforms: FloatArray,
    stratified: bool,
    slots: IntArray,
    probabilities: FloatArray,
) -> None:
    """A slot for each uniform number, and its mass / total; writes the last two."""
    total = tree[-1]
    find_leaves(tree, capacity, spread(uniforms, total, stratified), slots)
    for i in range(len(uniforms)):
        probabilities[i] = tree[slots[i]] / total


class ProportionalSampler:
    """P(j) = gain_j^α / Σ gain^α.

    Args:
        alpha: α: 0 is uniform, 1 fully proportional.
        stratified: draw one slot from each of ``size`` equal shares of the total, as Schaul et al.
            do, which spreads a batch more evenly; each slot's probability stays the same.
    """

    name = "proportional"

    def __init__(self, alpha: float = 0.6, *, stratified: bool = True) -> None:
        if not 0.0 <= alpha <= 1.0:
            raise NeedReplayError(f"alpha is {alpha}; it has to be from 0 (uniform) to 1.")
        self.alpha = float(alpha)
        self.stratified = stratified
        self._follows_smallest = False
        self.allocate(1)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._capacity = capacity
        self._gain = np.full(capacity, EMPTY)
        self._tree = SumTree(capacity)
        self._smallest = MinTree(capacity) if self._follows_smallest else None
        self._zero_mass = ZeroMass(self.name)
        self._find_short_way()

    def _find_short_way(self) -> None:
        """For a memory that draws by gains and their tree alone: what the extension makes of it."""
        self.fast_path = (
            native.gains_of(self._gain, self._tree.array, MAX_PRIORITY)
            if self._smallest is None
            else None
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "fast_path"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._find_short_way()

    @property
    def fallbacks(self) -> int:
        """How many slots were drawn uniformly because every gain was 0."""
        return int(self._zero_mass.count[0])

    @property
    def gain(self) -> FloatArray:
        """The raw gain of each slot, -1 where it is empty; told by ``set_priorities`` only."""
        return self._gain

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        if self.fast_path is None or not self.fast_path.set(slots, gain, self.alpha):
            _set_gain(self._gain, self._tree.array, self.alpha, slots, gain)
        if self._smallest is not None:
            self._note_smallest(self._smallest, slots)

    def _note_smallest(self, smallest: MinTree, slots: IntArray) -> None:
        masses = self._tree.masses[slots]
        smallest.set(slots, np.where(masses > 0.0, masses, np.inf))

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement."""
        if need is not None:
            raise NeedReplayError(
                f"The {self.name} draw takes no need; call sample without it, or choose a draw by "
                "gain and need."
            )
        tree = self._tree.array
        uniforms = rng.random(size)
        if tree[-1] == 0.0:
            return self._zero_mass.sample(self._gain != EMPTY, uniforms)
        slots = np.empty(size, dtype=np.int64)
        probabilities = np.empty(size)
        _draw(tree, self._capacity, uniforms, self.stratified, slots, probabilities)
        return Sampled(slots, probabilities)

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots`` (oldest first), are empty from now on."""
        self._gain[slots] = EMPTY
        self._tree.set(slots, np.zeros(len(slots)))
        if self._smallest is not None:
            self._note_smallest(self._smallest, slots)

    def follow_smallest(self) -> None:
        """``smallest_probability`` will be asked for; called once, before ``allocate``."""
        self._follows_smallest = True

    def smallest_probability(self, size: int) -> float:  # noqa: ARG002 - the same for every size
        """The smallest positive probability: a slot without mass is never drawn, nor counted."""
        if self._smallest is None:
            raise NeedReplayError("Say follow_smallest before allocate to ask for the smallest.")
        if self._tree.total == 0.0:
            return 1.0 / float(np.count_nonzero(self._gain != EMPTY))
        return self._smallest.smallest / self._tree.total

    def check_valid(self) -> None:
        """Raise unless the tree's leaves are the gains, shaped, and its sums are right."""
        self._tree.check_valid()
        occupied = self._gain != EMPTY
        masses = np.zeros(self._capacity)
        masses[occupied] = masses_of(self._gain[occupied], self.alpha)
        if not np.array_equal(masses, self._tree.masses):
            raise NeedReplayError("A leaf of the sum tree is not its slot's gain, shaped.")
        if self._smallest is not None:
            self._smallest.check_valid()
            leaves = self._smallest.array[: self._capacity]
            if not np.array_equal(leaves, np.where(masses > 0.0, masses, np.inf)):
                raise NeedReplayError("A leaf of the tree of minima is not its slot's mass.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        arrays = {"gain": self._gain, "tree": self._tree.array, "fallbacks": self._zero_mass.count}
        if self._smallest is not None:
            arrays["smallest"] = self._smallest.array
        return arrays
