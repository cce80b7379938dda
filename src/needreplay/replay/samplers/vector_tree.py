"""The vector tree: propose slots by sums of vectors, for features that are not negative.

Every node holds Σ w_j and Σ w_j v_j over its slots (w = priority^alpha), so one inner product sums
any linear function of need over a node. x^b is concave for 0 < b <= 1, so x^b <= c x + e with
c = b x0^(b-1) and e = (1 - b) x0^b for any x0 > 0. A descent by that line finds a block of slots,
which is scored exactly and accepted with (its score) / (its line). At b = 1 nothing is rejected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.slot_need import dot
from needreplay.rules import priority as rules

combine = jit(rules.combine)

BLOCK = 16
"""Slots under a lowest node. Nodes take 4 / (3 BLOCK) as many rows as slots: a sixth more memory
than the vectors alone, at 8 bytes a column against 4."""
FAN_OUT = 4
"""Children of every other node: a descent reads FAN_OUT · log N rows, least at 3 or 4."""
REJECTED = -1
SLACK = 1.0 + 1e-9
"""How much the bound on a block's score is raised, so that rounding cannot put its score above."""


class VectorNodes(NamedTuple):
    """Slots (``powers``, ``vectors``), nodes (``totals``, ``sums``) and which are out of date.

    Level l, from the root down, is the nodes ``first[l]`` to ``first[l + 1]``; those of the last
    level are blocks of slots. ``changed[:n_changed[0]]`` are the blocks to recompute, and
    ``is_changed`` marks them. Sums are recomputed from below, never incremented: nothing drifts.
    """

    powers: FloatArray
    vectors: AnyArray
    totals: FloatArray
    sums: FloatArray
    first: IntArray
    is_changed: BoolArray
    changed: IntArray
    n_changed: IntArray


class VectorProposal(NamedTuple):
    """See ``feature_need.Proposal``. Need is x = ``query`` · v.

    ``bounding`` · Σ w v is the sum of w y over a node, where y >= max(0, x). The node's line is
    ``slope`` times that sum plus ``offset`` · Σ w, and ``bound`` is the root's line.
    """

    query: FloatArray
    bounding: FloatArray
    need_alpha: float
    slope: float
    offset: float
    bound: float
    exact: bool


class VectorTree:
    """Proposes slots for ``FeatureNeedSampler``, which documents the methods."""

    spare = 0.0

    def __init__(self, vectors: AnyArray, need_alpha: float) -> None:
        if need_alpha > 1.0:
            raise NeedReplayError(
                f"need_alpha is {need_alpha}, but with nonnegative=True it must be from 0 to 1; "
                "make the sampler with nonnegative=False, which takes any need_alpha."
            )
        self._need_alpha = need_alpha
        self._nodes = empty_nodes(np.zeros(len(vectors)), vectors)
        self.powers = self._nodes.powers

    @property
    def total_power(self) -> float:
        """Σ priority^alpha, as of the last proposal."""
        return float(self._nodes.totals[0])

    def set_powers(self, slots: IntArray, powers: FloatArray) -> None:
        """Set priority^alpha of ``slots``."""
        set_powers(self._nodes, slots, powers)

    def update_vectors(self, slots: IntArray) -> None:
        """The vectors of ``slots`` have changed."""
        note_changed(self._nodes, slots)

    def by_priority(self) -> VectorProposal:
        """Proposals by priority alone."""
        recompute_changed(self._nodes)
        none = np.zeros(self._nodes.vectors.shape[1])
        return VectorProposal(none, none, 0.0, 0.0, 1.0, self.total_power, True)

    def by_score(self, query: FloatArray) -> VectorProposal | None:
        """Proposals for a query; None if no slot can have any need."""
        scaled, bounding = np.empty((2, len(query)))
        total, has_negative = prepare(self._nodes, query, scaled, bounding)
        if not total > 0.0:
            return None
        b, total_power = self._need_alpha, float(self._nodes.totals[0])
        if b == 1.0 and not has_negative:
            return VectorProposal(scaled, bounding, 1.0, 1.0, 0.0, total, True)
        mean = total / total_power
        slope, offset = b * mean ** (b - 1.0), (1.0 - b) * mean**b
        bound = total_power * mean**b * SLACK
        return VectorProposal(scaled, bounding, b, slope, offset, bound, False)

    def try_candidates(
        self,
        proposal: VectorProposal,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
        places: IntArray,
    ) -> tuple[int, int]:
        """Try one candidate for each share; see ``feature_need.Tree``."""
        return _try(self._nodes, proposal, shares, luck, slots, scores, places), len(shares)

    def most_rejected(self, size: int) -> int:
        """How many candidates cost about as much as a pass over the buffer."""
        levels = len(self._nodes.first) - 2
        return size + len(self.powers) // (BLOCK + levels * FAN_OUT)

    def check_valid(self) -> None:
        """Raise if a node that is not marked as changed is not the sum of what is below it."""
        nodes = self._nodes
        again = empty_nodes(nodes.powers, nodes.vectors)
        pending = nodes.changed[: nodes.n_changed[0]]
        if not np.array_equal(np.sort(pending), np.flatnonzero(nodes.is_changed)):
            raise NeedReplayError("The list of changed blocks is not what is marked as changed.")
        note_changed(again, np.arange(len(nodes.powers)))
        recompute_changed(again)
        fresh = np.ones(len(nodes.totals), dtype=np.bool_)
        for level in range(len(nodes.first) - 1):
            covered = FAN_OUT ** (len(nodes.first) - 2 - level)
            fresh[nodes.first[level] + np.unique(pending // covered)] = False
        same = (again.sums == nodes.sums).all(axis=1) & (again.totals == nodes.totals)
        if not same[fresh].all():
            raise NeedReplayError("A node does not hold the sum of the slots below it.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        arrays = self._nodes._asdict()
        del arrays["first"], arrays["vectors"]
        return arrays


def empty_nodes(powers: FloatArray, vectors: AnyArray) -> VectorNodes:
    """The nodes above ``powers`` and ``vectors``, all 0."""
    n_blocks = max(1, -(-len(powers) // BLOCK))
    sizes = [n_blocks]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN_OUT))
    first = np.concatenate([[0], np.cumsum(sizes[::-1])]).astype(np.int64)
    return VectorNodes(
        powers=powers,
        vectors=vectors,
        totals=np.zeros(first[-1]),
        sums=np.zeros((int(first[-1]), vectors.shape[1])),
        first=first,
        is_changed=np.zeros(n_blocks, dtype=np.bool_),
        changed=np.zeros(n_blocks, dtype=np.int64),
        n_changed=np.zeros(1, dtype=np.int64),
    )


@jit
def note_changed(nodes: VectorNodes, slots: IntArray) -> None:
    """Mark the sums above ``slots`` as out of date."""
    is_changed, changed, n_changed = nodes.is_changed, nodes.changed, nodes.n_changed
    for i in range(len(slots)):
        block = slots[i] // BLOCK
        if not is_changed[block]:
            is_changed[block] = True
            changed[n_changed[0]] = block
            n_changed[0] += 1


@jit
def set_powers(nodes: VectorNodes, slots: IntArray, new: FloatArray) -> None:
    """Set the powers of ``slots``, and mark the sums above them as out of date."""
    powers = nodes.powers
    for i in range(len(slots)):
        powers[slots[i]] = new[i]
    note_changed(nodes, slots)


@jit
def recompute_changed(nodes: VectorNodes) -> None:
    """Bring all sums up to date, each once, from the blocks to the root."""
    count = nodes.n_changed[0]
    if count == 0:
        return
    powers, vectors, totals, sums = nodes.powers, nodes.vectors, nodes.totals, nodes.sums
    first, is_changed = nodes.first, nodes.is_changed
    places = np.sort(nodes.changed[:count])
    bottom = len(first) - 2
    for i in range(count):
        is_changed[places[i]] = False
        _sum_block(powers, vectors, totals, sums, first[bottom], places[i])
    for level in range(bottom - 1, -1, -1):
        distinct = 0
        for i in range(count):
            above = places[i] // FAN_OUT
            if distinct == 0 or places[distinct - 1] != above:
                places[distinct] = above
                distinct += 1
                here = first[level] + above
                begin = first[level + 1] + above * FAN_OUT
                _sum_children(totals, sums, here, begin, min(begin + FAN_OUT, first[level + 2]))
        count = distinct
    nodes.n_changed[0] = 0


@jit
def _sum_block(
    powers: FloatArray,
    vectors: AnyArray,
    totals: FloatArray,
    sums: FloatArray,
    first: int,
    block: int,
) -> None:
    """Σ w_j and Σ w_j v_j over one block of slots; writes its node."""
    node = first + block
    sums[node] = 0.0
    totals[node] = 0.0
    for slot in range(block * BLOCK, min(block * BLOCK + BLOCK, len(powers))):
        if powers[slot] > 0.0:
            totals[node] += powers[slot]
            _add_scaled(sums, node, powers[slot], vectors, slot)


@jit
def _sum_children(totals: FloatArray, sums: FloatArray, node: int, begin: int, end: int) -> None:
    """The sums of ``node`` from its children ``begin`` to ``end``."""
    sums[node] = sums[begin]
    totals[node] = totals[begin]
    for child in range(begin + 1, end):
        totals[node] += totals[child]
        _add_scaled(sums, node, 1.0, sums, child)


@jit
def _add_scaled(sums: FloatArray, node: int, scale: float, rows: AnyArray, row: int) -> None:
    """sums[node] += scale · rows[row]."""
    for k in range(rows.shape[1]):
        sums[node, k] += scale * rows[row, k]


@jit
def prepare(
    nodes: VectorNodes, query: FloatArray, scaled: FloatArray, bounding: FloatArray
) -> tuple[float, bool]:
    """Bring the tree up to date and scale the query to a largest entry of ±1.

    Writes q to ``scaled`` and max(0, q) to ``bounding``; returns the root's Σ w y, and whether any
    entry is negative.
    """
    recompute_changed(nodes)
    largest = np.abs(query).max()
    scale = largest if largest > 0.0 else 1.0
    has_negative = False
    for k in range(len(query)):
        scaled[k] = query[k] / scale
        bounding[k] = max(0.0, scaled[k])
        has_negative |= query[k] < 0.0
    return dot(nodes.sums, 0, bounding), has_negative


@jit
def _try(
    nodes: VectorNodes,
    proposal: VectorProposal,
    shares: FloatArray,
    luck: FloatArray,
    slots: IntArray,
    scores: FloatArray,
    places: IntArray,
) -> int:
    """One candidate for each share; accepted ones fill the last three arrays from the front.

    Returns how many were accepted, which may be more than there are places.
    """
    n = len(shares)
    order = np.argsort(shares)
    blocks = np.zeros(n, dtype=np.int64)
    chances = np.ones(n)
    _descend(nodes, proposal, order, shares, blocks, chances)
    candidates = np.empty(n, dtype=np.int64)
    of_candidates = np.empty(n)
    _pick_slots(nodes, proposal, order, shares, luck, blocks, chances, candidates, of_candidates)
    accepted = 0
    for i in range(n):
        if candidates[i] != REJECTED:
            if accepted < len(slots):
                slots[accepted] = candidates[i]
                scores[accepted] = of_candidates[i]
                places[accepted] = i
            accepted += 1
    return accepted


@jit
def _descend(
    nodes: VectorNodes,
    proposal: VectorProposal,
    order: IntArray,
    shares: FloatArray,
    blocks: IntArray,
    chances: FloatArray,
) -> None:
    """From the root to a block each, level by level, by the line's sum over the nodes.

    Writes ``blocks``, the ``chances`` of arriving there, and to ``shares`` what is left within. In
    ascending ``order`` of shares equal nodes are neighbors, so each node's children are computed
    once.
    """
    totals, sums, first = nodes.totals, nodes.sums, nodes.first
    bounding, slope, offset = proposal.bounding, proposal.slope, proposal.offset
    lines = np.empty(FAN_OUT)
    total = 0.0
    for level in range(len(first) - 2):
        level_begin, level_end = first[level + 1], first[level + 2]
        previous = -1
        for i in order:
            begin = level_begin + blocks[i] * FAN_OUT
            end = min(begin + FAN_OUT, level_end)
            if blocks[i] != previous:
                previous = blocks[i]
                total = 0.0
                for k in range(end - begin):
                    lines[k] = offset * totals[begin + k]
                    if slope != 0.0:
                        lines[k] += slope * dot(sums, begin + k, bounding)
                    total += lines[k]
            child, shares[i] = place_in(lines, end - begin, total, shares[i])
            blocks[i] = previous * FAN_OUT + child
            chances[i] *= lines[child] / total


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


@jit
def _pick_slots(
    nodes: VectorNodes,
    proposal: VectorProposal,
    order: IntArray,
    shares: FloatArray,
    luck: FloatArray,
    blocks: IntArray,
    chances: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> None:
    """Accept a block if luck · bound · chance < its score, then sample one of its slots by score.

    Writes ``slots`` (or REJECTED) and ``scores``.
    """
    powers, vectors = nodes.powers, nodes.vectors
    query, need_alpha, bound = proposal.query, proposal.need_alpha, proposal.bound
    block_scores = np.empty(BLOCK)
    total = 0.0
    previous = -1
    for i in order:
        begin = blocks[i] * BLOCK
        end = min(begin + BLOCK, len(powers))
        if blocks[i] != previous:
            previous = blocks[i]
            total = _score_block(powers, vectors, begin, end, query, need_alpha, block_scores)
        slots[i] = REJECTED
        scores[i] = 0.0
        if total > 0.0 and (proposal.exact or luck[i] * bound * chances[i] < total):
            chosen, _ = place_in(block_scores, end - begin, total, shares[i])
            slots[i] = begin + chosen
            scores[i] = block_scores[chosen]


@jit
def _score_block(
    powers: FloatArray,
    vectors: AnyArray,
    begin: int,
    end: int,
    query: FloatArray,
    need_alpha: float,
    scores: FloatArray,
) -> float:
    """scores[i] = w · max(0, q · v)^b of slot ``begin + i``; returns their sum."""
    total = 0.0
    for i in range(end - begin):
        slot = begin + i
        scores[i] = 0.0
        if powers[slot] > 0.0:
            need = 1.0 if need_alpha == 0.0 else max(0.0, dot(vectors, slot, query))
            scores[i] = combine(powers[slot], need, 1.0, need_alpha)
        total += scores[i]
    return total
