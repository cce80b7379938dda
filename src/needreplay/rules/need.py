"""Need: how soon, and how often, the agent will be where an experience began.

Yuan & Mattar, equations 1 and 6, and section 6 ("Forward vs. backward relevance").
"""

from __future__ import annotations

from needreplay.core.types import FloatArray


def forward_need(M: FloatArray, current: int, other: int) -> float:
    """Need(s_i, s_j) = M[i, j]: expected visits to the other state, from the current one."""
    need: float = M[current, other]
    return need


def backward_need(M: FloatArray, current: int, other: int) -> float:
    """M[j, i]: how much the other state is expected to lead to the current one."""
    need: float = M[other, current]
    return need
