"""A sum tree of vectors: every node holds Σ w_j and Σ w_j v_j over its slots (w = gain^a).

Any linear function of need is then summed over a node by one product. The children of a node lie
side by side, so a level of a descent is one small matrix times a vector. Slots that changed are
noted, and the sums above them recomputed from below, not incremented: nothing drifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray

BLOCK = 16
"""Slots under a lowest node. Nodes take 4 / (3 BLOCK) as many rows as slots: a sixth more memory
than the vectors alone, at 8 bytes a column against 4."""
FAN_OUT = 4
"""Children of every other node: a descent reads FAN_OUT · log N rows, least at 3 or 4."""


class VectorNodes(NamedTuple):
    """Slots (``mass``, ``vectors``), nodes (``masses``, ``sums``) and what is out of date.

    Level l, from the root down, is the nodes ``first[l]`` to ``first[l + 1]``; those of the last
    level are blocks of slots. ``changed[:n_changed[0]]`` are the blocks to recompute, and
    ``is_changed`` marks them.
    """

    mass: FloatArray
    vectors: AnyArray
    masses: FloatArray
    sums: FloatArray
    first: IntArray
    is_changed: BoolArray
    changed: IntArray
    n_changed: IntArray


def empty_nodes(mass: FloatArray, vectors: AnyArray) -> VectorNodes:
    """The nodes above ``mass`` and ``vectors``, all 0."""
    n_blocks = max(1, -(-len(mass) // BLOCK))
    sizes = [n_blocks]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN_OUT))
    first = np.concatenate([[0], np.cumsum(sizes[::-1])]).astype(np.int64)
    return VectorNodes(
        mass=mass,
        vectors=vectors,
        masses=np.zeros(first[-1]),
        sums=np.zeros((int(first[-1]), vectors.shape[1])),
        first=first,
        is_changed=np.zeros(n_blocks, dtype=np.bool_),
        changed=np.zeros(n_blocks, dtype=np.int64),
        n_changed=np.zeros(1, dtype=np.int64),
    )


@jit
def note_changed(tree: VectorNodes, slots: IntArray) -> None:
    """The sums above ``slots`` are out of date; writes ``changed``."""
    is_changed, changed, n_changed = tree.is_changed, tree.changed, tree.n_changed
    for i in range(len(slots)):
        block = slots[i] // BLOCK
        if not is_changed[block]:
            is_changed[block] = True
            changed[n_changed[0]] = block
            n_changed[0] += 1


@jit
def set_masses(tree: VectorNodes, slots: IntArray, masses: FloatArray) -> None:
    """``slots`` have ``masses`` from now on, and the sums above them are out of date."""
    mass = tree.mass
    for i in range(len(slots)):
        mass[slots[i]] = masses[i]
    note_changed(tree, slots)


@jit
def recompute_changed(tree: VectorNodes) -> None:
    """Bring all sums up to date, each once, from the blocks to the root."""
    count = tree.n_changed[0]
    if count == 0:
        return
    mass, vectors, masses, sums = tree.mass, tree.vectors, tree.masses, tree.sums
    first, is_changed = tree.first, tree.is_changed
    places = np.sort(tree.changed[:count])
    bottom = len(first) - 2
    for i in range(count):
        is_changed[places[i]] = False
        sum_block(mass, vectors, masses, sums, first[bottom], places[i])
    for level in range(bottom - 1, -1, -1):
        distinct = 0
        for i in range(count):
            above = places[i] // FAN_OUT
            if distinct == 0 or places[distinct - 1] != above:
                places[distinct] = above
                distinct += 1
                here = first[level] + above
                begin = first[level + 1] + above * FAN_OUT
                sum_children(masses, sums, here, begin, min(begin + FAN_OUT, first[level + 2]))
        count = distinct
    tree.n_changed[0] = 0


@jit
def sum_block(
    mass: FloatArray,
    vectors: AnyArray,
    masses: FloatArray,
    sums: FloatArray,
    first: int,
    block: int,
) -> None:
    """S0 = Σ w_j and S1 = Σ w_j v_j over one block of slots; writes its node."""
    node = first + block
    sums[node] = 0.0
    masses[node] = 0.0
    for slot in range(block * BLOCK, min(block * BLOCK + BLOCK, len(mass))):
        if mass[slot] > 0.0:
            masses[node] += mass[slot]
            add_scaled(sums, node, mass[slot], vectors, slot)


@jit
def sum_children(masses: FloatArray, sums: FloatArray, node: int, begin: int, end: int) -> None:
    """S0 and S1 of ``node`` from its children ``begin`` to ``end``."""
    sums[node] = sums[begin]
    masses[node] = masses[begin]
    for child in range(begin + 1, end):
        masses[node] += masses[child]
        add_scaled(sums, node, 1.0, sums, child)


@jit
def add_scaled(sums: FloatArray, node: int, scale: float, rows: AnyArray, row: int) -> None:
    """sums[node] += scale · rows[row]."""
    for k in range(rows.shape[1]):
        sums[node, k] += scale * rows[row, k]
