"""Need: how soon, and how often, the agent will be where an experience began.

Yuan & Mattar, equations 1 and 6, and section 6 ("Forward vs. backward relevance").
"""

from __future__ import annotations

from needreplay.types import FloatArray


def forward_need(M: FloatArray, current: int) -> FloatArray:
    """Need(s_i, s_j) = M[i, j] for every j: expected visits to each state, from the current one."""
    return M[current, :]


def backward_need(M: FloatArray, current: int) -> FloatArray:
    """M[j, i] for every j: how much each state is expected to lead to the current one."""
    return M[:, current]
