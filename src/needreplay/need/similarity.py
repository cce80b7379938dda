"""How similar observations look: what need must beat to have learned something of the future."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from needreplay._core.types import AnyArray, Observation

SIMILARITY, BLURRED, BRIGHTNESS = "similarity", "blurred similarity", "brightness"
"""Ways to look at an observation: its numbers; of images also blurred, and the means of planes."""
_COORDINATES = 1_024


def looks_of(obs: Observation) -> dict[str, AnyArray]:
    """Observations as rows of numbers; images also blurred, and the means of their planes."""
    looks = {SIMILARITY: _flat(obs)}
    if not isinstance(obs, dict) and obs.ndim == 4:
        rows, columns = (1, 2) if obs.shape[3] < min(obs.shape[1:3]) else (2, 3)
        images = obs.astype(np.float32)
        looks[BRIGHTNESS] = images.mean((rows, columns))
        for axis in (rows, columns, rows, columns):
            images = _box(images, axis)
        looks[BLURRED] = _flat(images)
    return looks


def _box(images: AnyArray, axis: int, width: int = 3) -> AnyArray:
    """Means of ``width`` neighbors along an axis; beyond the edge there is nothing."""
    edges = [(0, 0)] * images.ndim
    edges[axis] = (width // 2 + 1, width // 2)
    sums = np.pad(images, edges).cumsum(axis)
    size = images.shape[axis]
    upper = np.take(sums, np.arange(width, width + size), axis)
    means: AnyArray = (upper - np.take(sums, np.arange(size), axis)) / width
    return means


def measure_of(name: str, obs: Observation) -> Callable[[AnyArray, AnyArray], AnyArray]:
    """Jaccard's distance of planes (an empty board is not near to every other), else Euclid's."""
    planes = not isinstance(obs, dict) and not is_real(obs).any()
    if name == SIMILARITY:
        return partial(_distances, jaccard=planes)
    return _angles if planes else partial(_distances, jaccard=False)


def is_real(columns: Observation) -> AnyArray:
    """Which numbers of ``_flat`` are real ones; pixels and planes have one unit."""
    if isinstance(columns, dict):
        return np.concatenate([is_real(column) for column in columns.values()])
    return np.full(_flat(columns).shape[1], columns.dtype.kind == "f")


def _flat(columns: Observation) -> AnyArray:
    """Observations as rows of numbers, of many about ``_COORDINATES`` evenly spaced ones."""
    if isinstance(columns, dict):
        return np.concatenate([_flat(column) for column in columns.values()], 1)
    rows: AnyArray = columns.reshape(len(columns), -1)
    rows = rows[:, :: max(1, rows.shape[1] // _COORDINATES)]
    return rows if columns.dtype.kind == "f" else rows.astype(np.float32)


def _distances(some: AnyArray, others: AnyArray, *, jaccard: bool) -> AnyArray:
    """Of each row of numbers of ``some`` to each of ``others``."""
    products = some @ others.T
    both = np.square(some).sum(1)[:, None] + np.square(others).sum(1)
    if jaccard:
        return 1.0 - products / np.maximum(both - products, 1e-9)  # type: ignore[no-any-return]
    return np.sqrt(np.maximum(0.0, both - 2.0 * products))  # type: ignore[no-any-return]


def _angles(some: AnyArray, others: AnyArray) -> AnyArray:
    """1 - the cosine between each row of ``some`` and each of ``others``."""
    units = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) for x in (some, others)]
    return 1.0 - units[0] @ units[1].T  # type: ignore[no-any-return]
