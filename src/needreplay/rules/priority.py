"""Priority: the one place where gain and need are combined."""

from __future__ import annotations


def priority(gain: float, need: float) -> float:
    """P_i · M[S, S_i], the paper's equation 7: the product of gain and need."""
    return gain * need
