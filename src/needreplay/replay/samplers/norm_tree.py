"""The norm tree: propose slots by a bound on their need that holds for features of any sign.

No slot's need exceeds |q| |v_j| (Cauchy and Schwarz). A plain sum tree of priority_j^alpha |v_j|^b
proposes slots, and a slot is accepted with cos^b of the angle between q and v_j. A candidate costs
one inner product, and a change costs a sum tree's update.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.prefetch import LINE, prefetch
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.slot_need import dot
from needreplay.replay.sumtree import SumTree, find_leaves, set_leaves
from needreplay.rules import priority as rules

combine = jit(rules.combine)
power = jit(rules.power)

SLACK = 1.0 + 1e-9
"""How much a bound is raised, so that rounding cannot put a score above it: |v| and q · v are sums
of d products in float64, each wrong by at most d · 1e-16 of |q| |v|."""

AT_A_TIME = 32
"""Candidates found together."""

SLOTS_PER_CANDIDATE = 8
"""How many slots a pass over the buffer scores in the time of one candidate, which is read from a
random address."""


class NormProposal(NamedTuple):
    """``tree`` proposes slots; ``query`` is q / |q|. See ``feature_need.Proposal``."""

    tree: FloatArray
    query: FloatArray
    need_alpha: float
    bound: float
    exact: bool


class NormTree:
    """Proposes slots for ``FeatureNeedSampler``, which documents the methods.

    ``_norms`` is |v_j|^b of each slot.
    """

    spare = 2.0

    def __init__(self, vectors: AnyArray, need_alpha: float) -> None:
        capacity, self._n_features = vectors.shape
        self._vectors, self._need_alpha = vectors, need_alpha
        self._tree, self._bounds = SumTree(capacity), SumTree(capacity)
        self._norms = np.full(capacity, rules.power(0.0, need_alpha))
        self.powers = self._tree.masses

    @property
    def total_power(self) -> float:
        """Σ priority^alpha."""
        return self._tree.total

    def set_powers(self, slots: IntArray, powers: FloatArray) -> None:
        """Set priority^alpha of ``slots``."""
        self._tree.set(slots, powers)
        _set_bounds(self._bounds.array, self.powers, self._norms, slots)

    def update_vectors(self, slots: IntArray) -> None:
        """The vectors of ``slots`` have changed."""
        _set_norms(self._vectors, slots, self._need_alpha, self._norms)
        _set_bounds(self._bounds.array, self.powers, self._norms, slots)

    def by_priority(self) -> NormProposal:
        """Proposals by priority alone."""
        return NormProposal(
            self._tree.array, np.zeros(self._n_features), 0.0, self._tree.total, True
        )

    def by_score(self, query: FloatArray) -> NormProposal | None:
        """Proposals for a query; None if no slot can have any need."""
        direction, bound = np.empty(self._n_features), self._bounds.total
        if bound == 0.0 or not unit(query, direction):
            return None
        return NormProposal(self._bounds.array, direction, self._need_alpha, bound * SLACK, False)

    def try_candidates(
        self,
        proposal: NormProposal,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
        places: IntArray,
    ) -> tuple[int, int]:
        """Try one candidate for each share; see ``feature_need.Tree``."""
        out = slots, scores, places
        return _try(proposal, self.powers, self._norms, self._vectors, shares, luck, *out)

    def most_rejected(self, size: int) -> int:
        """How many candidates cost about as much as a pass over the buffer."""
        return size + len(self.powers) // SLOTS_PER_CANDIDATE

    def check_valid(self) -> None:
        """Raise unless both trees are sound and follow from powers and vectors."""
        self._tree.check_valid()
        self._bounds.check_valid()
        norms = np.empty(len(self.powers))
        _set_norms(self._vectors, np.arange(len(norms)), self._need_alpha, norms)
        if not np.array_equal(norms, self._norms):
            raise NeedReplayError("A slot's norm is not that of its vector.")
        if not np.array_equal(self._bounds.masses, self.powers * norms):
            raise NeedReplayError("A leaf of the bounds is not its slot's power times its norm.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        return {"tree": self._tree.array, "bounds": self._bounds.array, "norms": self._norms}


@partial(jit, reassociate=True)
def _norm(rows: AnyArray, row: int) -> float:
    """|rows[row]|, summed in float64."""
    total = 0.0
    for k in range(rows.shape[1]):
        total += np.float64(rows[row, k]) * np.float64(rows[row, k])
    return float(np.sqrt(total))


@jit
def _set_norms(vectors: AnyArray, slots: IntArray, need_alpha: float, norms: FloatArray) -> None:
    """norms[j] = |v_j|^b for each of ``slots``."""
    for i in range(len(slots)):
        norms[slots[i]] = power(_norm(vectors, slots[i]), need_alpha)


@jit
def _set_bounds(bounds: FloatArray, powers: FloatArray, norms: FloatArray, slots: IntArray) -> None:
    """The leaves of ``bounds`` are priority_j^alpha |v_j|^b for each of ``slots``."""
    new = np.empty(len(slots))
    for i in range(len(slots)):
        new[i] = combine(powers[slots[i]], norms[slots[i]])
    set_leaves(bounds, len(norms), slots, new)


@jit
def _try(
    proposal: NormProposal,
    powers: FloatArray,
    norms: FloatArray,
    vectors: AnyArray,
    shares: FloatArray,
    luck: FloatArray,
    slots: IntArray,
    scores: FloatArray,
    places: IntArray,
) -> tuple[int, int]:
    """Candidates, one for each share, until all of ``slots`` are filled by accepted ones.

    Writes the last three; returns how many were accepted and how many tried. Some candidates and
    inner products are computed together, so that their memory accesses overlap.
    """
    tree, need_alpha = proposal.tree, proposal.need_alpha
    candidates = np.empty(AT_A_TIME, dtype=np.int64)
    need, most = np.ones(AT_A_TIME), np.zeros(AT_A_TIME)
    accepted, tried = 0, 0
    while tried < len(shares) and accepted < len(slots):
        found = candidates[: len(shares) - tried]
        find_leaves(tree, len(powers), shares[tried : tried + len(found)] * tree[-1], found)
        if not proposal.exact:
            _need_and_bound(vectors, norms, found, proposal.query, need, most)
        for i in range(len(found)):
            tried += 1
            if need[i] > 0.0:
                need_power = power(need[i], need_alpha)
                if most[i] == 0.0 or luck[tried - 1] * SLACK * most[i] < need_power:
                    slots[accepted] = found[i]
                    scores[accepted] = combine(powers[found[i]], need_power)
                    places[accepted] = tried - 1
                    accepted += 1
                    if accepted == len(slots):
                        break
    return accepted, tried


@jit
def _need_and_bound(
    vectors: AnyArray,
    norms: FloatArray,
    slots: IntArray,
    query: FloatArray,
    need: FloatArray,
    most: FloatArray,
) -> None:
    """q · v of each of ``slots``, and |v|^b, which no (q · v)^b exceeds as |q| is 1."""
    row_bytes = vectors.shape[1] * vectors.itemsize
    for i in range(len(slots)):
        prefetch(norms, slots[i] * norms.itemsize)
        for at in range(0, row_bytes, LINE):
            prefetch(vectors, slots[i] * row_bytes + at)
    for i in range(len(slots)):
        need[i] = dot(vectors, slots[i], query)
        most[i] = norms[slots[i]]


@jit
def unit(vector: FloatArray, out: FloatArray) -> bool:
    """out = vector / |vector|, without overflow; returns False where |vector| is 0."""
    largest = np.abs(vector).max()
    if largest == 0.0:
        return False
    squares = 0.0
    for k in range(len(vector)):
        out[k] = vector[k] / largest
        squares += out[k] * out[k]
    length = np.sqrt(squares)
    for k in range(len(vector)):
        out[k] /= length
    return True
