"""The equations that both packages use: pure functions of numbers and arrays, one equation each.

TD error, gain, need, the successor representation, priority, importance weights, recency. Yuan &
Mattar, equations 1, 2, 6 and 12, Algorithm 2 and section 3.2; Schaul et al. (2016), section 3.
Nothing here has state, reads a file or draws a random number. The laboratory's kernels compile
these very functions; the library's repeat eight of them in ``replay/_kernels/equations.pxd``.
"""

from __future__ import annotations

import math

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray

SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest normal number: 1 over a smaller one can overflow."""


# TD errors and returns ---------------------------------------------------------------------------


def td_error(reward: float, discount: float, next_value: float, value: float) -> float:
    """δ = r + γ V(s') − V(s).

    ``discount`` is 0 where the episode terminated, so that nothing is bootstrapped there.
    """
    return reward + discount * next_value - value


def moved_towards(value: float, step_size: float, error: float) -> float:
    """V(s) ← V(s) + α δ: the value after a step of size α along the error."""
    return value + step_size * error


def discounted(reward: float, discount: float, later: float) -> float:
    """R_t = r_t + γ R_{t+1}: one step of a discounted sum, from its end."""
    return reward + discount * later


# Gain and need -----------------------------------------------------------------------------------


def absolute_gain(error: float) -> float:
    """|δ|, the paper's gain: the size of the TD-error."""
    return abs(error)


def forward_need(M: FloatArray, current: int, other: int) -> float:
    """Need(s_i, s_j) = M[i, j]: expected visits to the other state, from the current one."""
    need: float = M[current, other]
    return need


def backward_need(M: FloatArray, current: int, other: int) -> float:
    """M[j, i]: how much the other state is expected to lead to the current one."""
    need: float = M[other, current]
    return need


def projector(features: FloatArray) -> FloatArray:
    """φ / |φ|², and 0 where φ = 0; its inner product with successor features m is need.

    m · φ / |φ|² is the occupancy of φ's state plus that of every state whose features overlap with
    it; it equals M only where features are orthogonal. φ is scaled by its largest entry first, so
    that no square overflows or underflows. Entries below ``SMALLEST`` count as 0.
    """
    largest = np.abs(features).max()
    if largest < SMALLEST:
        return np.zeros_like(features)
    scaled = features / largest
    projected: FloatArray = scaled / (scaled * scaled).sum() / largest
    return projected


def closed_form(T: FloatArray, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹, the paper's equation 2."""
    identity = np.eye(T.shape[0])
    return np.linalg.solve(identity - discount * T, identity).astype(np.float64, copy=False)


def successor_row(T: FloatArray, discount: float, state: int) -> FloatArray:
    """M[state, :], one row of ``closed_form``, by elimination without pivoting.

    I − γ T is diagonally dominant, so no pivot is needed. Kernels compile this function; the order
    of its operations does not depend on a linear algebra library.
    """
    size = T.shape[0]
    A = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            A[i, j] = (i == j) - discount * T[j, i]
    row = np.zeros(size)
    row[state] = 1.0
    for k in range(size):
        for i in range(k + 1, size):
            if A[i, k] != 0.0:
                factor = A[i, k] / A[k, k]
                for j in range(k + 1, size):
                    A[i, j] -= factor * A[k, j]
                row[i] -= factor * row[k]
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            row[k] -= A[k, j] * row[j]
        row[k] /= A[k, k]
    return row


# Priority and importance weights -----------------------------------------------------------------


def combine(gain: float, need: float, alpha: float = 1.0, need_alpha: float = 1.0) -> float:
    """gain^alpha · need^need_alpha: the score of a transition, unnormalized.

    With both exponents 1 this is equation 12 of the paper, P_i · M[S, S_i]. Those that store
    gain^alpha pass it as ``gain`` and leave ``alpha`` at 1. ``deep/need.py`` has need as a tensor,
    to scale updates by.
    """
    if alpha != 1.0:
        gain = gain**alpha
    if need_alpha != 1.0:
        need = need**need_alpha
    return gain * need


def power(value: float, exponent: float) -> float:
    """x^a of a value that is not negative; 0^0 = 1, so exponent 0 is uniform."""
    if exponent == 1.0:
        return value
    result: float = value**exponent
    return result


def importance_weight(probability: float, smallest: float, beta: float) -> float:
    """(N P_i)^-β / max_j (N P_j)^-β = (P_min / P_i)^β.

    ``smallest`` is P_min, the smallest probability in the batch. Probabilities known up to a
    constant are enough, and N cancels.
    """
    weight: float = (smallest / probability) ** beta
    return weight


def mixed_probability(probability: float, uniform_mix: float, count: int) -> float:
    """(1 - mix) P_i + mix / N: a share ``uniform_mix`` of the probability is uniform."""
    return (1.0 - uniform_mix) * probability + uniform_mix / count


def ape_x_epsilon(actor: int, actors: int, base: float = 0.4, exponent: float = 7.0) -> float:
    """ε_i = base^(1 + exponent · i / (N - 1)) of actor i of N (Horgan et al. 2018)."""
    return float(base ** (1.0 + exponent * actor / max(1, actors - 1)))


def annealed(start: float, end: float, done: float) -> float:
    """β between ``start`` and ``end``, when the share ``done`` of the way is behind it."""
    return start + (end - start) * min(max(done, 0.0), 1.0)


def rank_priority(rank: float, alpha: float) -> float:
    """(1 / rank)^α, Schaul et al.'s rank-based priority; rank 1 has the largest gain."""
    result: float = rank**-alpha
    return result


def pser_priority(priority: float, old: float, retained: float) -> float:
    """max(p_i, η p_i_old): PSER limits how fast a priority falls (Brittain et al. 2020)."""
    return max(priority, retained * old)


def pser_decayed(priority: float, decay: float, steps: int) -> float:
    """p_i ρ^k: the priority that PSER gives to the transition k steps before."""
    result: float = priority * decay**steps
    return result


# Recency -----------------------------------------------------------------------------------------


def recency_rate(mean_age: float) -> float:
    """log((m + 1) / m): P(age = a) ∝ exp(-rate · a) = (m / (m + 1))^a has the mean m."""
    return math.log1p(1.0 / mean_age)


def effective_number(mean_age: float, count: int) -> float:
    """1 / Σ p² of ``count`` transitions sampled by age: how many they are worth.

    With q = m / (m + 1), p_a = q^a (1 - q) / (1 - q^n) for a = 0, ..., n - 1. The sum of squares is
    geometric, too: 1 / Σ p² = (1 + q) / (1 - q) · (1 - q^n) / (1 + q^n), which is
    (2 m + 1) tanh(n rate / 2).
    """
    return (2.0 * mean_age + 1.0) * math.tanh(count * recency_rate(mean_age) / 2.0)


def mean_age_for(effective: float, *counts: int) -> float:
    """The mean age at which so many transitions are worth ``effective`` ones, by bisection.

    With several ``counts``, the sizes of a buffer while it grows, on average over these.

    >>> round(mean_age_for(1_000, 100_000), 6)
    499.5
    """
    mean = sum(counts) / len(counts)
    if not 1.0 < effective < mean:
        raise NeedReplayError(
            f"effective is {effective}; it must be above 1 and below the mean of counts, {mean}."
        )
    low, high = 0.0, 1e9 * mean
    for _ in range(200):
        middle = (low + high) / 2.0
        if sum(effective_number(middle, count) for count in counts) < effective * len(counts):
            low = middle
        else:
            high = middle
    return high


# Choice ------------------------------------------------------------------------------------------


def uniform_index(u: float, n: int) -> int:
    """⌊u n⌋ for u in [0, 1], at most n − 1: one of ``n`` things, each equally likely.

    A ``u`` that was rescaled can round to 1; without the minimum, the index would not exist.
    """
    return min(int(u * n), n - 1)
