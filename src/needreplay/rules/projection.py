"""Need from features: successor features projected on those of an experience.

Yuan & Mattar, section 3.2. m · φ / |φ|² is the occupancy of φ's state plus that of every state
whose features overlap with it; it equals M only where features are orthogonal.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import FloatArray

SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest normal number: 1 over a smaller one can overflow."""


def projector(features: FloatArray) -> FloatArray:
    """φ / |φ|², and 0 where φ = 0: what successor features m are multiplied with to be projected.

    φ is scaled by its largest entry first, so that no square overflows or vanishes. Numbers below
    ``SMALLEST``, by which nothing can be divided, are as good as 0.
    """
    largest = np.abs(features).max()
    if largest < SMALLEST:
        return np.zeros_like(features)
    scaled = features / largest
    projected: FloatArray = scaled / (scaled * scaled).sum() / largest
    return projected
