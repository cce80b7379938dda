"""Priority: how gain and need are combined, and the importance weights that correct for it.

Yuan & Mattar, equation 12 and Algorithm 2; Schaul et al. (2016), section 3.
"""

from __future__ import annotations


def combine(gain: float, need: float, alpha: float = 1.0, need_alpha: float = 1.0) -> float:
    """gain^alpha · need^need_alpha: the score of a transition, unnormalized.

    With both exponents 1 this is equation 12 of the paper, P_i · M[S, S_i]. Kernels compile this
    very function; those that store gain^alpha pass it as ``gain`` and leave ``alpha`` at 1. Two
    twins repeat a part: ``replay/native/fast_path.c`` computes gain^alpha, and ``deep/need.py``
    need as a tensor, to scale updates by.
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
