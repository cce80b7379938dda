"""Priority: the one place where gain and need are combined, and the weights that correct for it.

Yuan & Mattar, equation 7 and Algorithm 2; Schaul et al. (2016), section 3.
"""

from __future__ import annotations


def priority(gain: float, need: float) -> float:
    """P_i · M[S, S_i], the paper's equation 7: the product of gain and need."""
    return gain * need


def shaped(value: float, exponent: float) -> float:
    """x^α of a gain or of a need that is not negative; 0^0 = 1, so exponent 0 is uniform."""
    if exponent == 1.0:
        return value
    power: float = value**exponent
    return power


def importance_weight(probability: float, smallest: float, beta: float) -> float:
    """(N P_i)^-β / max_j (N P_j)^-β = (P_min / P_i)^β.

    ``smallest`` is P_min, the smallest probability in the batch or in the whole memory, whichever
    the weights are divided by. Probabilities known up to a constant are as good, and N cancels.
    """
    weight: float = (smallest / probability) ** beta
    return weight


def annealed(start: float, end: float, done: float) -> float:
    """β on its way from ``start`` to ``end``, in proportion to the share ``done`` of the way."""
    return start + (end - start) * min(max(done, 0.0), 1.0)


def rank_mass(rank: float, exponent: float) -> float:
    """(1 / rank)^α, Schaul et al.'s rank-based priority; rank 1 has the largest gain."""
    mass: float = rank**-exponent
    return mass


def sequence_gain(gain: float, old_gain: float, kept: float) -> float:
    """max(p_i, η p_i_old): PSER lets a gain fall by a share only (Brittain et al. 2020)."""
    return max(gain, kept * old_gain)


def decayed_back(gain: float, decay: float, steps: int) -> float:
    """p_i ρ^k: what PSER hands to the transition k steps before (Brittain et al. 2020)."""
    handed: float = gain * decay**steps
    return handed
