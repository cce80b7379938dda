"""Need from features: successor features projected on those of an experience.

Yuan & Mattar, section 3.2. m · φ / |φ|² is the occupancy of φ's state plus that of every state
whose features overlap with it; it equals M only where features are orthogonal.
"""

from __future__ import annotations

import numpy as np

from needreplay.types import AnyArray, FloatArray


def projector(features: AnyArray) -> FloatArray:
    """φ / |φ|² for every row φ, and 0 where φ = 0: what successor features are multiplied with.

    Rows are scaled by their largest entry first, so that no square overflows or vanishes.
    """
    phi = np.asarray(features, dtype=np.float64)
    largest = np.abs(phi).max(axis=-1, keepdims=True, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0)
    scaled = phi / scale
    square = np.square(scaled).sum(axis=-1, keepdims=True)
    projected: FloatArray = scaled / np.where(square > 0.0, square, 1.0) / scale
    return projected
