"""The norm tree: P(j) ∝ gain_j^a · max(0, m · v_j)^b exactly, for features of any sign.

No slot's need exceeds |m| |v_j| (Cauchy and Schwarz), and that bound is a number a slot, whatever m
is: a plain sum tree of gain_j^a |v_j|^b proposes, and a slot is accepted with cos^b of the angle
between m and v_j. One product of d numbers a candidate, and a change costs a sum tree's update.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.prefetch import LINE, prefetch
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.dots import dot
from needreplay.replay.samplers.fallbacks import BY_GAIN, BY_PRIORITY, UNIFORM
from needreplay.replay.samplers.feature_need import FeatureSampler
from needreplay.replay.sumtree import SumTree, find_leaves, set_leaves
from needreplay.rules import priority as rules

priority = jit(rules.priority)
shaped = jit(rules.shaped)

SLACK = 1.0 + 1e-9
"""How much a slot's bound is raised, so that rounding cannot put its score above: |v| and m · v are
sums of d products in float64, each wrong by at most d · 1e-16 of |m| |v|."""

AT_A_TIME = 32
"""Candidates found together."""

SLOTS_SWEPT_PER_CANDIDATE = 8
"""A candidate's vector is fetched from anywhere; a sweep reads on and scores some eight by then."""


class NormProposal(NamedTuple):
    """``tree`` holds what slots are proposed by; ``need`` is m / |m|. See ``Proposal``."""

    tree: FloatArray
    need: FloatArray
    exponent: float
    bound: float
    total: float


@partial(jit, reassociate=True)
def norm(rows: AnyArray, row: int) -> float:
    """|rows[row]|, summed in float64."""
    total = 0.0
    for k in range(rows.shape[1]):
        total += np.float64(rows[row, k]) * np.float64(rows[row, k])
    return float(np.sqrt(total))


@jit
def norm_powers(vectors: AnyArray, slots: IntArray, exponent: float, powers: FloatArray) -> None:
    """powers[j] = |v_j|^b for each of ``slots``."""
    for i in range(len(slots)):
        powers[slots[i]] = shaped(norm(vectors, slots[i]), exponent)


@jit
def set_bounds(bounds: FloatArray, masses: FloatArray, powers: FloatArray, slots: IntArray) -> None:
    """The leaves of ``bounds`` are gain_j^a |v_j|^b for each of ``slots``."""
    new = np.empty(len(slots))
    for i in range(len(slots)):
        new[i] = priority(masses[slots[i]], powers[slots[i]])
    set_leaves(bounds, len(powers), slots, new)


@jit
def propose(
    proposal: NormProposal,
    masses: FloatArray,
    powers: FloatArray,
    vectors: AnyArray,
    shares: FloatArray,
    luck: FloatArray,
    slots: IntArray,
    scores: FloatArray,
) -> tuple[int, int]:
    """Candidates, one for each share, until all of ``slots`` are filled by those accepted.

    Writes ``slots`` and their ``scores``; answers with how many were accepted and how many tried.
    Some are found and some products taken at a time, so that the memory can serve them together.
    """
    tree, exponent = proposal.tree, proposal.exponent
    candidates = np.empty(AT_A_TIME, dtype=np.int64)
    products, most = np.ones(AT_A_TIME), np.zeros(AT_A_TIME)
    accepted, tried = 0, 0
    while tried < len(shares) and accepted < len(slots):
        found = candidates[: len(shares) - tried]
        find_leaves(tree, len(masses), shares[tried : tried + len(found)] * tree[-1], found)
        if proposal.bound > 0.0:
            hold_against(vectors, powers, found, proposal.need, products, most)
        for i in range(len(found)):
            tried += 1
            if products[i] > 0.0:
                need_power = shaped(products[i], exponent)
                if most[i] == 0.0 or luck[tried - 1] * SLACK * most[i] < need_power:
                    slots[accepted] = found[i]
                    scores[accepted] = priority(masses[found[i]], need_power)
                    accepted += 1
                    if accepted == len(slots):
                        break
    return accepted, tried


@jit
def hold_against(
    vectors: AnyArray,
    powers: FloatArray,
    slots: IntArray,
    need: FloatArray,
    products: FloatArray,
    most: FloatArray,
) -> None:
    """m · v of each of ``slots``, and |v|^b, which no (m · v)^b exceeds as |m| is 1."""
    row_bytes = vectors.shape[1] * vectors.itemsize
    for i in range(len(slots)):
        prefetch(powers, slots[i] * powers.itemsize)
        for at in range(0, row_bytes, LINE):
            prefetch(vectors, slots[i] * row_bytes + at)
    for i in range(len(slots)):
        products[i] = dot(vectors, slots[i], need)
        most[i] = powers[slots[i]]


@jit
def unit(vector: FloatArray, out: FloatArray) -> bool:
    """out = vector / |vector|, without overflow; answers whether that can be."""
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


class FeatureNeedSampler(FeatureSampler[NormProposal]):
    """Gain and need from features of any sign, exactly, in O(d + log N) a candidate.

    A candidate is accepted with cos^b of the angle between need and its features, so the more they
    point the same way the better. ``FeatureSampler`` has the arguments.
    """

    name = "norm tree"
    _spare = 2.0

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._gains = SumTree(capacity)
        self._bounds = SumTree(capacity)
        self._powers = np.full(capacity, rules.shaped(0.0, self.need_alpha))
        self._mass = self._gains.masses

    def _set_mass(self, slots: IntArray, masses: FloatArray) -> None:
        self._gains.set(slots, masses)
        set_bounds(self._bounds.array, self._mass, self._powers, slots)

    def _note_vectors(self, slots: IntArray) -> None:
        norm_powers(self.features.vectors, slots, self.need_alpha, self._powers)
        set_bounds(self._bounds.array, self._mass, self._powers, slots)

    def _total_mass(self) -> float:
        return self._gains.total

    def _proposal(self, told: FloatArray | None) -> tuple[NormProposal, int]:
        total, bound = self._gains.total, self._bounds.total
        by_gain = NormProposal(self._gains.array, np.zeros(self.n_features), 0.0, 0.0, total)
        if total == 0.0:
            return by_gain, UNIFORM
        if told is None:
            return by_gain, BY_PRIORITY
        direction = np.empty(self.n_features)
        if bound == 0.0 or not unit(told, direction):
            return by_gain, BY_GAIN
        b = self.need_alpha
        return NormProposal(self._bounds.array, direction, b, bound, bound), BY_PRIORITY

    def _round(
        self,
        proposal: NormProposal,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
    ) -> tuple[int, int]:
        vectors = self.features.vectors
        return propose(proposal, self._mass, self._powers, vectors, shares, luck, slots, scores)

    def _most_rejected(self, size: int) -> int:
        return size + len(self._mass) // SLOTS_SWEPT_PER_CANDIDATE

    def check_valid(self) -> None:
        """Raise unless both trees are sound and hold what follows from gains and vectors."""
        self._gains.check_valid()
        self._bounds.check_valid()
        self._check_masses(self._mass)
        powers = np.empty(len(self._mass))
        norm_powers(self.features.vectors, np.arange(len(powers)), self.need_alpha, powers)
        if not np.array_equal(powers, self._powers):
            raise NeedReplayError("A slot's norm is not that of its vector.")
        if not np.array_equal(self._bounds.masses, self._mass * powers):
            raise NeedReplayError("A leaf of the bounds is not its slot's gain times its norm.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        trees = {"gains": self._gains.array, "bounds": self._bounds.array, "powers": self._powers}
        return {**trees, **super().arrays()}
