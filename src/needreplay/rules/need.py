"""Need: how soon, and how often, the agent will be where an experience began.

Yuan & Mattar, equations 1 and 6, section 3.2, and section 6 ("Forward vs. backward relevance").
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import FloatArray

SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest normal number: 1 over a smaller one can overflow."""
LOWEST_AUC, MARGIN = 0.8, 0.1
"""Of a learned need: below this AUC, or without this margin over trivial scores, nothing can be
concluded about need."""


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


def accurate_need(auc: float, baseline: float) -> bool:
    """Whether conclusions can be drawn about a learned need with this AUC.

    ``baseline`` is the highest AUC of the scores that know nothing of the future. Need has to be
    above it by ``MARGIN``, or by half of what is left to 1. False where either is not known.
    """
    return auc >= LOWEST_AUC and auc - baseline >= min(MARGIN, 0.5 * (1.0 - baseline))
