"""A wide sum tree in one flat float64 array: any capacity, parents recomputed, never incremented.

Eight numbers a node are one cache line. Level 0 (the leaves) comes first, each level is padded to
whole nodes, and the last number of the array is the total. A batch goes down (or up) level by
level, so that the memory can serve many of its members at once.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.jit import jit
from needreplay._core.types import FloatArray, IntArray
from needreplay.replay.prefetch import LINE, prefetch

FANOUT = 8
_MOST_LEVELS = 24


def tree_length(capacity: int) -> int:
    """How many numbers a tree over ``capacity`` leaves has: leaves, sums and the total."""
    length, groups = FANOUT, capacity
    while True:
        groups = -(-groups // FANOUT)
        length += groups * FANOUT
        if groups == 1:
            return length


def empty_tree(capacity: int) -> FloatArray:
    """A tree of zeros, with its nodes on cache lines."""
    length = tree_length(capacity)
    array = np.zeros(length + LINE // 8)
    start = (-array.ctypes.data % LINE) // 8
    return array[start : start + length]


@jit
def node_sum(tree: FloatArray, first: int) -> float:
    """Σ of the eight numbers from ``first``, always in this order: equal children, equal sum."""
    left = (tree[first] + tree[first + 1]) + (tree[first + 2] + tree[first + 3])
    right = (tree[first + 4] + tree[first + 5]) + (tree[first + 6] + tree[first + 7])
    total: float = left + right
    return total


@jit
def _one_level_up(nodes: IntArray, left: int) -> int:
    """Replace each node by its parent, neighbors with the same one by one; how many are left."""
    kept = 0
    for i in range(left):
        parent = nodes[i] // FANOUT
        if kept == 0 or parent != nodes[kept - 1]:
            nodes[kept] = parent
            kept += 1
    return kept


@jit
def set_leaves(tree: FloatArray, capacity: int, slots: IntArray, masses: FloatArray) -> None:
    """Leaf ``slots[i]`` is ``masses[i]`` from now on; of equal slots the last wins.

    Neighboring slots that share a node go up as one. On a level with no more nodes than are left,
    every node is summed once.
    """
    left = len(slots)
    nodes = np.empty(left, dtype=np.int64)
    for i in range(left):
        tree[slots[i]] = masses[i]
        nodes[i] = slots[i]
    start, below = 0, capacity
    while True:
        groups = (below + FANOUT - 1) // FANOUT
        above = start + groups * FANOUT
        if groups <= left:
            for node in range(groups):
                tree[above + node] = node_sum(tree, start + node * FANOUT)
        else:
            left = _one_level_up(nodes, left)
            for i in range(left):
                tree[above + nodes[i]] = node_sum(tree, start + nodes[i] * FANOUT)
        if groups == 1:
            tree[-1] = tree[above]
            return
        start, below = above, groups


@jit
def find_leaves(tree: FloatArray, capacity: int, targets: FloatArray, slots: IntArray) -> None:
    """The leaf in which each target in [0, total) falls, leaves laid end to end; writes ``slots``.

    ``targets`` are used up. The sums of a node are compared all alike, without a branch to guess.
    Rounding can carry a target past the end of a node; it then falls to its last child with mass,
    so that a leaf of mass 0 is never found while any other has mass. The memory is asked for a node
    of the next level as soon as it is known.
    """
    nodes = tree.reshape(-1, FANOUT)
    starts = np.empty(_MOST_LEVELS, dtype=np.int64)
    before = np.zeros(FANOUT)
    levels, start, below = 0, 0, capacity
    while True:
        groups = (below + FANOUT - 1) // FANOUT
        starts[levels] = start
        levels += 1
        start += groups
        if groups == 1:
            break
        below = groups
    for i in range(len(targets)):
        slots[i] = 0
    for level in range(levels - 1, -1, -1):
        for i in range(len(targets)):
            node = starts[level] + slots[i]
            passed, child = 0.0, 0
            for k in range(FANOUT - 1):
                passed += nodes[node, k]
                before[k + 1] = passed
                child += targets[i] >= passed
            targets[i] -= before[child]
            while nodes[node, child] == 0.0 and child > 0:
                child -= 1
            slots[i] = slots[i] * FANOUT + child
            if level > 0:
                prefetch(tree, (starts[level - 1] + slots[i]) * LINE)


@jit
def spread(uniforms: FloatArray, total: float, stratified: bool) -> FloatArray:
    """Targets in [0, total): one in each of ``size`` equal strata, or all over."""
    size = len(uniforms)
    if stratified:
        targets = np.empty(size)
        for i in range(size):
            targets[i] = (i + uniforms[i]) / size * total
        return targets
    return uniforms * total


@jit
def sound(tree: FloatArray, capacity: int) -> bool:
    """Whether every node is the sum of its children, and the rest is unused."""
    start, below = 0, capacity
    while True:
        groups = (below + FANOUT - 1) // FANOUT
        above = start + groups * FANOUT
        for unused in range(start + below, above):
            if tree[unused] != 0.0:
                return False
        for node in range(groups):
            if tree[above + node] != node_sum(tree, start + node * FANOUT):
                return False
        if groups == 1:
            return bool(tree[-1] == tree[above])
        start, below = above, groups


class SumTree:
    """Masses of ``capacity`` leaves, sampled in proportion.

    ``array`` holds it all: ``array[:capacity]`` are the masses and ``array[-1]`` is their sum.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise NeedReplayError(f"capacity is {capacity}; a tree needs at least one leaf.")
        self.capacity = capacity
        self.array = empty_tree(capacity)

    @property
    def total(self) -> float:
        """The sum of all masses."""
        return float(self.array[-1])

    @property
    def masses(self) -> FloatArray:
        """The mass of each leaf; change them by ``set`` only."""
        return self.array[: self.capacity]

    def set(self, slots: IntArray, masses: FloatArray) -> None:
        """Give ``slots`` their ``masses``; of equal slots the last wins."""
        set_leaves(self.array, self.capacity, slots, masses)

    def check_valid(self) -> None:
        """Raise unless every parent is the sum of its children and no mass is negative."""
        if not sound(self.array, self.capacity):
            raise NeedReplayError("The sum tree holds a sum that is not that of its children.")
        if not np.all(self.masses >= 0.0) or not np.isfinite(self.total):
            raise NeedReplayError("The sum tree holds a mass that is negative or not finite.")
