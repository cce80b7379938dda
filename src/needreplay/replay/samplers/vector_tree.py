"""Kernels of the vector tree: sample by need exactly, where features and need are not negative.

Every node holds Σ w_j v_j over its slots (w = priority^alpha), so one inner product with the query
is the sum of w_j need_j below it, for any query: a descent by these sums never rejects. Sums are
recomputed from below, never incremented: nothing drifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.need import dot
from needreplay.rules import priority as rules

combine = jit(rules.combine)

BLOCK = 16
"""Slots under a lowest node. Nodes take 4 / (3 BLOCK) as many rows as slots: a sixth more memory
than the vectors alone, at 8 bytes a column against 4."""
FAN_OUT = 4
"""Children of every other node: a descent reads FAN_OUT · log N rows, least at 3 or 4."""


class VectorTree(NamedTuple):
    """The sums of all nodes, and which of them are out of date.

    Level l, from the root down, is the nodes ``first[l]`` to ``first[l + 1]``; those of the last
    level are blocks of slots. ``changed[:n_changed[0]]`` are the blocks to recompute, and
    ``is_changed`` marks them.
    """

    sums: FloatArray
    first: IntArray
    is_changed: BoolArray
    changed: IntArray
    n_changed: IntArray


def empty_tree(capacity: int, n_features: int) -> VectorTree:
    """A tree above ``capacity`` slots, all sums 0."""
    n_blocks = max(1, -(-capacity // BLOCK))
    sizes = [n_blocks]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN_OUT))
    first = np.concatenate([[0], np.cumsum(sizes[::-1])]).astype(np.int64)
    return VectorTree(
        sums=np.zeros((int(first[-1]), n_features)),
        first=first,
        is_changed=np.zeros(n_blocks, dtype=np.bool_),
        changed=np.zeros(n_blocks, dtype=np.int64),
        n_changed=np.zeros(1, dtype=np.int64),
    )


def check_tree(tree: VectorTree, powers: FloatArray, vectors: AnyArray) -> None:
    """Raise if a node that is not marked as changed is not the sum of what is below it."""
    again = empty_tree(len(powers), vectors.shape[1])
    pending, marked = tree.changed[: max(0, tree.n_changed[0])], np.flatnonzero(tree.is_changed)
    if len(pending) != tree.n_changed[0] or not np.array_equal(np.sort(pending), marked):
        raise NeedReplayError("The list of changed blocks is not what is marked as changed.")
    note_changed(again, np.arange(len(powers)))
    recompute_changed(again, powers, vectors)
    fresh = np.ones(len(tree.sums), dtype=np.bool_)
    for level in range(len(tree.first) - 1):
        covered = FAN_OUT ** (len(tree.first) - 2 - level)
        fresh[tree.first[level] + np.unique(pending // covered)] = False
    if not np.array_equal(again.sums[fresh], tree.sums[fresh]):
        raise NeedReplayError("A node does not hold the sum of the slots below it.")


@jit
def note_changed(tree: VectorTree, slots: IntArray) -> None:
    """Mark the sums above ``slots`` as out of date."""
    is_changed, changed, n_changed = tree.is_changed, tree.changed, tree.n_changed
    for i in range(len(slots)):
        block = slots[i] // BLOCK
        if not is_changed[block]:
            is_changed[block] = True
            changed[n_changed[0]] = block
            n_changed[0] += 1


@jit
def recompute_changed(tree: VectorTree, powers: FloatArray, vectors: AnyArray) -> None:
    """Bring all sums up to date, each once, from the blocks to the root."""
    count = tree.n_changed[0]
    if count == 0:
        return
    sums, first, is_changed = tree.sums, tree.first, tree.is_changed
    places = np.sort(tree.changed[:count])
    bottom = len(first) - 2
    for i in range(count):
        is_changed[places[i]] = False
        node, begin = first[bottom] + places[i], places[i] * BLOCK
        sums[node] = 0.0
        for slot in range(begin, min(begin + BLOCK, len(powers))):
            if powers[slot] > 0.0:
                _add_scaled(sums, node, powers[slot], vectors, slot)
    for level in range(bottom - 1, -1, -1):
        distinct = 0
        for i in range(count):
            above = places[i] // FAN_OUT
            if distinct == 0 or places[distinct - 1] != above:
                places[distinct] = above
                distinct += 1
                node, begin = first[level] + above, first[level + 1] + above * FAN_OUT
                sums[node] = sums[begin]
                for child in range(begin + 1, min(begin + FAN_OUT, first[level + 2])):
                    _add_scaled(sums, node, 1.0, sums, child)
        count = distinct
    tree.n_changed[0] = 0


@jit
def _add_scaled(sums: FloatArray, node: int, scale: float, rows: AnyArray, row: int) -> None:
    """sums[node] += scale · rows[row]."""
    for k in range(rows.shape[1]):
        sums[node, k] += scale * rows[row, k]


@jit
def total_score(
    tree: VectorTree, powers: FloatArray, vectors: AnyArray, query: FloatArray
) -> float:
    """Σ_j w_j (q · v_j); brings the tree up to date."""
    recompute_changed(tree, powers, vectors)
    return dot(tree.sums, 0, query)


@jit
def sample_slots(
    tree: VectorTree,
    powers: FloatArray,
    vectors: AnyArray,
    query: FloatArray,
    shares: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> None:
    """One slot for each share in [0, 1) of the total; writes ``slots`` and ``scores``.

    Goes down level by level. In ascending order of shares equal nodes are neighbors, so the
    children of each are computed once; ``shares`` become the shares within the node.
    """
    sums, first = tree.sums, tree.first
    order = np.argsort(shares)
    nodes = np.zeros(len(shares), dtype=np.int64)
    parts = np.empty(max(BLOCK, FAN_OUT))
    total = 0.0
    for level in range(1, len(first)):
        is_block = level == len(first) - 1
        width = BLOCK if is_block else FAN_OUT
        previous = -1
        for i in order:
            begin = nodes[i] * width
            end = min(begin + width, len(powers) if is_block else first[level + 1] - first[level])
            if nodes[i] != previous:
                previous, total = nodes[i], 0.0
                for k in range(end - begin):
                    if not is_block:
                        parts[k] = dot(sums, first[level] + begin + k, query)
                    elif powers[begin + k] > 0.0:
                        parts[k] = combine(powers[begin + k], dot(vectors, begin + k, query))
                    else:
                        parts[k] = 0.0
                    total += parts[k]
            chosen, shares[i] = place_in(parts, end - begin, total, shares[i])
            nodes[i] = begin + chosen
            if is_block:
                slots[i] = nodes[i]
                scores[i] = parts[chosen]


@jit
def place_in(values: FloatArray, count: int, total: float, share: float) -> tuple[int, float]:
    """Where ``share`` in [0, 1] of the total falls, and the share of that place.

    Rounding can leave more than there is; it then falls on the last place with a positive value.
    """
    rest = share * total
    chosen = 0
    for i in range(count):
        if values[i] > 0.0:
            chosen = i
            if rest < values[i]:
                break
            rest -= values[i]
    left = rest / values[chosen] if values[chosen] > 0.0 else 0.0
    return chosen, min(left, 1.0)
