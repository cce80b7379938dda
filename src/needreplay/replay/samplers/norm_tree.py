"""Kernels of the norm tree: propose slots by a bound on their need, for features of any sign.

No slot's need exceeds |q| |v_j| (Cauchy and Schwarz). A plain sum tree of priority_j^alpha |v_j|^b
proposes slots, and a slot is accepted with cos^b of the angle between q and v_j. A candidate costs
one inner product, and a change costs a sum tree's update.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from needreplay import equations
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.prefetch import LINE, prefetch
from needreplay.replay.samplers.need import dot
from needreplay.replay.sumtree import find_leaves, set_leaves

combine = jit(equations.combine)
power = jit(equations.power)

SLACK = 1.0 + 1e-9
"""How much a bound is raised, so that rounding cannot put a score above it: |v| and q · v are sums
of d products in float64, each wrong by at most d · 1e-16 of |q| |v|."""

AT_A_TIME = 32
"""Candidates found together, so that their memory accesses overlap."""

SLOTS_PER_CANDIDATE = 8
"""How many slots a pass over the buffer scores in the time of one candidate, which is read from a
random address."""

NONE = -1
"""The slot of a row that has none yet."""

LARGEST_WHOLE = 8
"""Powers up to this are products in a pass: a general power takes longer than all else."""


@partial(jit, reassociate=True)
def _norm(rows: AnyArray, row: int) -> float:
    """|rows[row]|, summed in float64."""
    total = 0.0
    for k in range(rows.shape[1]):
        total += np.float64(rows[row, k]) * np.float64(rows[row, k])
    return float(np.sqrt(total))


@jit
def set_norms(vectors: AnyArray, slots: IntArray, need_alpha: float, norms: FloatArray) -> int:
    """norms[j] = |v_j|^b for each of ``slots``; returns the end of these, the last one plus 1."""
    end = 0
    for i in range(len(slots)):
        norms[slots[i]] = power(_norm(vectors, slots[i]), need_alpha)
        end = max(end, slots[i] + 1)
    return end


@jit
def set_bounds(bounds: FloatArray, powers: FloatArray, norms: FloatArray, slots: IntArray) -> None:
    """The leaves of ``bounds`` are priority_j^alpha |v_j|^b for each of ``slots``."""
    new = np.empty(len(slots))
    for i in range(len(slots)):
        new[i] = combine(powers[slots[i]], norms[slots[i]])
    set_leaves(bounds, len(norms), slots, new)


@jit
def try_candidates(
    bounds: FloatArray,
    powers: FloatArray,
    norms: FloatArray,
    vectors: AnyArray,
    query: FloatArray,
    need_alpha: float,
    shares: FloatArray,
    luck: FloatArray,
    slots: IntArray,
    scores: FloatArray,
    places: IntArray,
) -> tuple[int, int]:
    """Candidates, one for each share, until all of ``slots`` are filled by accepted ones.

    Writes the last three; ``places[i]`` says which candidate ``slots[i]`` was. Returns how many
    were accepted and how many tried.
    """
    candidates = np.empty(AT_A_TIME, dtype=np.int64)
    need = np.empty(AT_A_TIME)
    accepted, tried = 0, 0
    while tried < len(shares) and accepted < len(slots):
        found = candidates[: len(shares) - tried]
        find_leaves(bounds, len(powers), shares[tried : tried + len(found)] * bounds[-1], found)
        _need_of(vectors, norms, found, query, need)
        for i in range(len(found)):
            tried += 1
            need_power = _accepted_power(need[i], need_alpha, luck[tried - 1], norms[found[i]])
            if need_power > 0.0:
                slots[accepted] = found[i]
                scores[accepted] = combine(powers[found[i]], need_power)
                places[accepted] = tried - 1
                accepted += 1
                if accepted == len(slots):
                    break
    return accepted, tried


@jit
def _accepted_power(need: float, need_alpha: float, luck: float, norm: float) -> float:
    """need^b if a candidate is accepted: with probability need^b / norm; otherwise 0."""
    if need <= 0.0:
        return 0.0
    need_power: float = power(need, need_alpha)
    return need_power if luck * SLACK * norm < need_power else 0.0


@jit
def try_rows(
    bounds: FloatArray,
    norms: FloatArray,
    vectors: AnyArray,
    queries: FloatArray,
    need_alpha: float,
    shares: FloatArray,
    luck: FloatArray,
    most_rejected: int,
    rows: IntArray,
    rejected: IntArray,
    slots: IntArray,
) -> tuple[int, int, int]:
    """Candidates, one for each share, for ``rows`` in turn, each with a query of its own.

    A row gets the first of its candidates that is accepted: ``slots[row]``, which must be ``NONE``
    before. Proposals do not depend on the query, so those of all rows are found together. A row
    gives up after ``most_rejected``; ``rejected`` counts them. Writes the last three: the rows that
    still wait come first in ``rows``. Returns how many these are, and how many candidates were
    accepted and tried.
    """
    candidates = np.empty(AT_A_TIME, dtype=np.int64)
    begin, waiting, accepted, tried = 0, len(rows), 0, 0
    while begin < len(shares) and waiting > 0:
        found = candidates[: len(shares) - begin]
        find_leaves(bounds, len(norms), shares[begin : begin + len(found)] * bounds[-1], found)
        _request(vectors, norms, found)
        for i in range(len(found)):
            row = rows[i % waiting]
            if slots[row] == NONE:
                tried += 1
                need = dot(vectors, found[i], queries[row])
                if _accepted_power(need, need_alpha, luck[begin + i], norms[found[i]]) > 0.0:
                    slots[row] = found[i]
                    accepted += 1
                else:
                    rejected[row] += 1
        begin += len(found)
        for i in range(min(len(found), waiting) - 1, -1, -1):
            if slots[rows[i]] != NONE or rejected[rows[i]] > most_rejected:
                waiting -= 1
                rows[i] = rows[waiting]
    return waiting, accepted, tried


@partial(jit, reassociate=True)
def score_all(
    powers: FloatArray,
    vectors: AnyArray,
    query: FloatArray,
    need_alpha: float,
    slots: IntArray,
    cumulative: FloatArray,
) -> tuple[int, float]:
    """The slots with need, and cumulative scores: priority_j^alpha (need_j / largest need)^b.

    Writes the last two. Returns how many there are, and the largest need.
    """
    n, largest, total = 0, 0.0, 0.0
    for slot in range(len(powers)):
        if powers[slot] > 0.0:
            need = dot(vectors, slot, query)
            if need > 0.0:
                slots[n], cumulative[n] = slot, need
                n += 1
                largest = max(largest, need)
    whole = int(need_alpha) if need_alpha <= LARGEST_WHOLE else 0
    for i in range(n):
        share = cumulative[i] / largest
        need_power = share
        if whole == need_alpha:
            for _ in range(1, whole):
                need_power *= share
        else:
            need_power = power(share, need_alpha)
        total += combine(powers[slots[i]], need_power)
        cumulative[i] = total
    return n, largest


@jit
def _need_of(
    vectors: AnyArray, norms: FloatArray, slots: IntArray, query: FloatArray, need: FloatArray
) -> None:
    """need[i] = q · v of ``slots[i]``."""
    _request(vectors, norms, slots)
    for i in range(len(slots)):
        need[i] = dot(vectors, slots[i], query)


@jit
def _request(vectors: AnyArray, norms: FloatArray, slots: IntArray) -> None:
    """Request the norms and vectors of ``slots`` from memory, together."""
    row_bytes = vectors.shape[1] * vectors.itemsize
    for i in range(len(slots)):
        prefetch(norms, slots[i] * norms.itemsize)
        for at in range(0, row_bytes, LINE):
            prefetch(vectors, slots[i] * row_bytes + at)


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


@jit
def unit_rows(rows: FloatArray, out: FloatArray) -> BoolArray:
    """``unit`` of each row; returns where."""
    positive = np.empty(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        positive[i] = unit(rows[i], out[i])
    return positive
