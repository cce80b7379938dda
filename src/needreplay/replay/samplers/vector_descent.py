"""Drawing from a sum tree of vectors: descend by a line above need^b, then accept or try again.

x^b is concave for 0 < b <= 1, so x^b <= c x + e with c = b x0^(b-1) and e = (1 - b) x0^b, for any
x0 > 0. The line is linear, so the nodes know its sum over their slots. A block of slots is drawn by
that sum, scored exactly, and accepted with (its true score) / (its line).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.dots import dot
from needreplay.replay.samplers.vector_nodes import BLOCK, FAN_OUT, VectorNodes, recompute_changed
from needreplay.rules import priority as rules

priority = jit(rules.priority)
shaped = jit(rules.shaped)

REJECTED = -1


class VectorProposal(NamedTuple):
    """What a batch is drawn by, see ``Proposal``.

    Need is x = ``need`` · v, and ``bounding`` · S1 is the sum of w y over a node, where y >= x and
    y >= 0: negative need counts as 0 there. The node's line is ``slope`` · (that sum) + ``offset``
    · S0, and ``bound`` is the root's line.
    """

    need: FloatArray
    bounding: FloatArray
    exponent: float
    slope: float
    offset: float
    bound: float
    total: float


@jit
def split_query(need: FloatArray, scaled: FloatArray, bounding: FloatArray) -> bool:
    """Scale need to a largest entry of ±1; answers whether any entry is negative.

    Writes m to ``scaled`` and max(0, m) to ``bounding``.
    """
    largest = np.abs(need).max()
    scale = largest if largest > 0.0 else 1.0
    negative = False
    for k in range(len(need)):
        scaled[k] = need[k] / scale
        bounding[k] = max(0.0, scaled[k])
        negative |= need[k] < 0.0
    return negative


@jit
def prepare(
    tree: VectorNodes, need: FloatArray, scaled: FloatArray, bounding: FloatArray
) -> tuple[float, bool]:
    """Bring the tree up to date and split the query, in one kernel.

    Answers with the root's Σ w y, and whether any entry of need is negative.
    """
    recompute_changed(tree)
    negative = split_query(need, scaled, bounding)
    return dot(tree.sums, 0, bounding), negative


@jit
def draw_round(
    tree: VectorNodes,
    proposal: VectorProposal,
    shares: FloatArray,
    luck: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> int:
    """One candidate for each share; those accepted fill ``slots`` and ``scores`` from the front.

    Answers with how many were accepted, which may be more than there are places.
    """
    n = len(shares)
    order = np.argsort(shares)
    blocks = np.zeros(n, dtype=np.int64)
    chances = np.ones(n)
    descend(tree, proposal, order, shares, blocks, chances)
    candidates = np.empty(n, dtype=np.int64)
    weights = np.empty(n)
    pick_slots(tree, proposal, order, shares, luck, blocks, chances, candidates, weights)
    accepted = 0
    for i in range(n):
        if candidates[i] != REJECTED:
            if accepted < len(slots):
                slots[accepted] = candidates[i]
                scores[accepted] = weights[i]
            accepted += 1
    return accepted


@jit
def descend(
    tree: VectorNodes,
    proposal: VectorProposal,
    order: IntArray,
    shares: FloatArray,
    blocks: IntArray,
    chances: FloatArray,
) -> None:
    """From the root to a block each, level by level, by the line's sum over the nodes.

    Writes ``blocks``, the ``chances`` of coming there and what is left of ``shares`` within. In
    ascending ``order`` of shares equal nodes are neighbours, so each node's children are weighed
    once.
    """
    masses, sums, first = tree.masses, tree.sums, tree.first
    bounding, slope, offset = proposal.bounding, proposal.slope, proposal.offset
    weights = np.empty(FAN_OUT)
    total = 0.0
    for level in range(len(first) - 2):
        level_begin, level_end = first[level + 1], first[level + 2]
        previous = -1
        for i in order:
            begin = level_begin + blocks[i] * FAN_OUT
            end = min(begin + FAN_OUT, level_end)
            if blocks[i] != previous:
                previous = blocks[i]
                total = weigh(masses, sums, begin, end, bounding, slope, offset, weights)
            child, shares[i] = place_in(weights, end - begin, total, shares[i])
            blocks[i] = previous * FAN_OUT + child
            chances[i] *= weights[child] / total


@jit
def weigh(
    masses: FloatArray,
    sums: AnyArray,
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
            weights[i] += slope * dot(sums, begin + i, bounding)
        total += weights[i]
    return total


@jit
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


@jit
def pick_slots(
    tree: VectorNodes,
    proposal: VectorProposal,
    order: IntArray,
    shares: FloatArray,
    luck: FloatArray,
    blocks: IntArray,
    chances: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> None:
    """Accept a block if luck · bound · chance < its score, then draw one of its slots by score.

    Writes ``slots`` (or REJECTED) and ``scores``.
    """
    mass, vectors = tree.mass, tree.vectors
    need, exponent, bound = proposal.need, proposal.exponent, proposal.bound
    weights = np.empty(BLOCK)
    total = 0.0
    previous = -1
    for i in order:
        begin = blocks[i] * BLOCK
        end = min(begin + BLOCK, len(mass))
        if blocks[i] != previous:
            previous = blocks[i]
            total = score_block(mass, vectors, begin, end, need, exponent, weights)
        slots[i] = REJECTED
        scores[i] = 0.0
        if total > 0.0 and (bound == 0.0 or luck[i] * bound * chances[i] < total):
            chosen, _ = place_in(weights, end - begin, total, shares[i])
            slots[i] = begin + chosen
            scores[i] = weights[chosen]


@jit
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
                mass[begin + i], power_of_need(vectors, begin + i, need, exponent)
            )
        total += weights[i]
    return total


@jit
def power_of_need(vectors: AnyArray, slot: int, need: FloatArray, exponent: float) -> float:
    """max(0, m · v)^b; where b = 0 that needs no product."""
    if exponent == 0.0:
        return 1.0
    return shaped(max(0.0, dot(vectors, slot, need)), exponent)
