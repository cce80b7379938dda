"""Drawing from a sum tree of vectors: descend by a line above need^b, then accept or try again.

x^b is concave for 0 < b <= 1, so x^b <= c x + e with c = b x0^(b-1) and e = (1 - b) x0^b, for any
x0 > 0. The line is linear, so the nodes know its sum over their slots. A block of slots is drawn by
that sum, scored exactly, and accepted with (its true score) / (its line).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.memory.draws.dots import dot
from needreplay.memory.draws.vector_nodes import BLOCK, FAN_OUT, VectorTree
from needreplay.rules.priority import priority as _priority
from needreplay.types import AnyArray, FloatArray, IntArray

priority = compiled(_priority)

REJECTED = -1


class Query(NamedTuple):
    """What a batch is drawn by.

    Need is x = ``need`` · v, and ``bounding`` · S1 is the sum of w y over a node, where y >= x and
    y >= 0. The node's line is ``slope`` · (that sum) + ``offset`` · S0. ``certain``: need^b is its
    own line, so nothing is rejected.
    """

    need: FloatArray
    bounding: FloatArray
    exponent: float
    slope: float
    offset: float
    certain: bool


@compiled
def draw_batch(
    tree: VectorTree,
    query: Query,
    rng: np.random.Generator,
    most_rejected: int,
    slots: IntArray,
    scores: FloatArray,
) -> tuple[int, int]:
    """Fill ``slots``, and ``scores`` with w · need^b, from the front on.

    Answers with how many were filled and how many candidates that took: the caller has to fill the
    rest if more than ``most_rejected`` were rejected. Every round draws one candidate for each
    place that is still open; those that are accepted fill the next places.
    """
    filled = 0
    tried = 0
    while filled < len(slots) and tried - filled <= most_rejected:
        open_places = len(slots) - filled
        shares = rng.random(open_places)
        luck = np.zeros(open_places) if query.certain else rng.random(open_places)
        order = np.argsort(shares)
        blocks = np.zeros(open_places, dtype=np.int64)
        lines = np.zeros(open_places)
        descend(tree, query, order, shares, blocks, lines)
        found = np.empty(open_places, dtype=np.int64)
        score = np.empty(open_places)
        pick_slots(tree, query, order, shares, luck, blocks, lines, found, score)
        for i in range(open_places):
            if found[i] != REJECTED:
                slots[filled] = found[i]
                scores[filled] = score[i]
                filled += 1
        tried += open_places
    return filled, tried


@compiled
def descend(
    tree: VectorTree,
    query: Query,
    order: IntArray,
    shares: FloatArray,
    blocks: IntArray,
    lines: FloatArray,
) -> None:
    """From the root to a block each, level by level, by the line's sum over the nodes.

    Writes ``blocks``, their ``lines``, and what is left of ``shares`` within them. In ascending
    ``order`` of shares equal nodes are neighbours, so each node's children are weighed once.
    """
    masses, sums = tree.masses, tree.sums
    weights = np.empty(FAN_OUT)
    total = 0.0
    for level in range(len(tree.first) - 2):
        level_begin, level_end = tree.first[level + 1], tree.first[level + 2]
        previous = -1
        for i in order:
            begin = level_begin + blocks[i] * FAN_OUT
            end = min(begin + FAN_OUT, level_end)
            if blocks[i] != previous:
                previous = blocks[i]
                total = weigh(
                    masses, sums, begin, end, query.bounding, query.slope, query.offset, weights
                )
            child, shares[i] = place_in(weights, end - begin, total, shares[i])
            blocks[i] = previous * FAN_OUT + child
            lines[i] = weights[child]


@compiled
def weigh(
    masses: FloatArray,
    sums: FloatArray,
    begin: int,
    end: int,
    bounding: FloatArray,
    slope: float,
    offset: float,
    weights: FloatArray,
) -> float:
    """weights[i] = c · (q · S1) + e · S0 of node ``begin + i``; answers with their sum."""
    total = 0.0
    for i in range(end - begin):
        weights[i] = offset * masses[begin + i]
        if slope != 0.0:
            weights[i] += slope * dot(sums[begin + i], bounding)
        total += weights[i]
    return total


@compiled
def place_in(weights: FloatArray, count: int, total: float, share: float) -> tuple[int, float]:
    """Where ``share`` in [0, 1) of the total falls, and its share of that place.

    Rounding can leave more than there is; it then goes to the last place that has any weight.
    """
    rest = share * total
    chosen = 0
    for i in range(count):
        if weights[i] > 0.0:
            chosen = i
            if rest < weights[i]:
                break
            rest -= weights[i]
    left = rest / weights[chosen] if weights[chosen] > 0.0 else 0.0
    return chosen, min(left, 1.0)


@compiled
def pick_slots(
    tree: VectorTree,
    query: Query,
    order: IntArray,
    shares: FloatArray,
    luck: FloatArray,
    blocks: IntArray,
    lines: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> None:
    """Accept a block if luck · line < its score, then draw one of its slots by score.

    Writes ``slots`` (or REJECTED) and ``scores``.
    """
    mass, vectors = tree.mass, tree.vectors
    weights = np.empty(BLOCK)
    total = 0.0
    previous = -1
    for i in order:
        begin = blocks[i] * BLOCK
        end = min(begin + BLOCK, len(mass))
        if blocks[i] != previous:
            previous = blocks[i]
            total = score_block(mass, vectors, begin, end, query.need, query.exponent, weights)
        slots[i] = REJECTED
        scores[i] = 0.0
        if total > 0.0 and (query.certain or luck[i] * lines[i] < total):
            chosen, _ = place_in(weights, end - begin, total, shares[i])
            slots[i] = begin + chosen
            scores[i] = weights[chosen]


@compiled
def score_block(
    mass: FloatArray,
    vectors: AnyArray,
    begin: int,
    end: int,
    need: FloatArray,
    exponent: float,
    weights: FloatArray,
) -> float:
    """weights[i] = w · max(0, m · v)^b of slot ``begin + i``; answers with their sum."""
    total = 0.0
    for i in range(end - begin):
        weights[i] = 0.0
        if mass[begin + i] > 0.0:
            weights[i] = priority(
                mass[begin + i], power_of_need(vectors[begin + i], need, exponent)
            )
        total += weights[i]
    return total


@compiled
def power_of_need(vector: AnyArray, need: FloatArray, exponent: float) -> float:
    """max(0, m · v)^b, without the product where b = 0 and without the power where b = 1."""
    if exponent == 0.0:
        return 1.0
    x = max(0.0, dot(vector, need))
    return x if exponent == 1.0 else x**exponent
