"""A wide tree of minima, laid out as the sum tree: the smallest number that is set, at any time."""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import FloatArray, IntArray
from needreplay.replay.sumtree import FANOUT, empty_tree


@jit
def node_minimum(tree: FloatArray, first: int) -> float:
    """The smallest of the eight numbers from ``first``."""
    smallest: float = tree[first]
    for k in range(first + 1, first + FANOUT):
        smallest = min(smallest, tree[k])
    return smallest


@jit
def set_minima(tree: FloatArray, capacity: int, slots: IntArray, values: FloatArray) -> None:
    """Leaf ``slots[i]`` is ``values[i]`` from now on; every minimum above it is taken anew."""
    size = len(slots)
    nodes = np.empty(size, dtype=np.int64)
    for i in range(size):
        tree[slots[i]] = values[i]
        nodes[i] = slots[i]
    start, below = 0, capacity
    while True:
        groups = (below + FANOUT - 1) // FANOUT
        above = start + groups * FANOUT
        for i in range(size):
            nodes[i] //= FANOUT
            tree[above + nodes[i]] = node_minimum(tree, start + nodes[i] * FANOUT)
        if groups == 1:
            tree[-1] = tree[above]
            return
        start, below = above, groups


class MinTree:
    """One number for each of ``capacity`` leaves, infinity where none is set, and the smallest."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.array = empty_tree(capacity, fill=np.inf)

    @property
    def smallest(self) -> float:
        """The smallest number that is set; infinity if none is."""
        return float(self.array[-1])

    def set(self, slots: IntArray, values: FloatArray) -> None:
        """Give ``slots`` (distinct) their ``values``; infinity unsets one."""
        set_minima(self.array, self.capacity, slots, values)

    def check_valid(self) -> None:
        """Raise unless the smallest number is the smallest leaf."""
        if self.smallest != self.array[: self.capacity].min():
            raise NeedReplayError("The smallest number is not the smallest of the leaves.")
