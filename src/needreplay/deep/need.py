"""Deep need: successor features projected on features, and what is done with the result.

Yuan & Mattar, section 3.2 (projection), section 4.3 (the offset), section 6 (other ways with
negative need, and backward relevance). Every function works on a batch.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray


def projected(successor: Tensor, features: Tensor) -> Tensor:
    """Need(s, s') = m · φ(s') / |φ(s')|², and 0 where φ(s') = 0; rows are broadcast."""
    squared = torch.linalg.vecdot(features, features)
    safe = torch.where(squared > 0.0, squared, 1.0)
    need: Tensor = torch.linalg.vecdot(successor, features) / safe
    return need


@partial(jit, reassociate=True)
def projections(successor: AnyArray, features: AnyArray, need: AnyArray) -> None:
    """The same in one kernel, where no gradient is wanted; either may be a single row."""
    for i in range(len(need)):
        m, phi = successor[i % len(successor)], features[i % len(features)]
        product = squared = need.dtype.type(0.0)
        for k in range(len(phi)):
            product += m[k] * phi[k]
            squared += phi[k] * phi[k]
        need[i] = product / squared if squared > 0.0 else 0.0


def without_negatives(
    need: Tensor, how: Literal["offset", "fallback", "clip", "nonnegative"]
) -> Tensor:
    """Need that scales an update, negative need dealt with.

    ``offset``: need − min(0, min_i need_i), the paper's. ``fallback``: where any is negative the
    whole batch has need 1, which is plain PER. ``clip``: max(0, need). ``nonnegative``: as it is.
    """
    if how == "offset":
        return need - need.min().clamp(max=0.0)
    if how == "fallback":
        return torch.where((need < 0.0).any(), torch.ones_like(need), need)
    if how == "clip":
        return need.clamp(min=0.0)
    return need


def rescaled(need: Tensor, how: Literal["raw", "mean", "max"]) -> Tensor:
    """Need over its mean or maximum in the batch; a batch without need has need 1.

    Over its mean, need decides what is replayed more, and not how large the step is.
    """
    if how == "raw":
        return need
    unit = need.mean() if how == "mean" else need.max()
    return need / unit if float(unit.detach()) > 0.0 else torch.ones_like(need)


class NeedFacts(NamedTuple):
    """What is logged of the need in a batch, before negatives and scale are dealt with."""

    mean: float
    variation: float
    """the standard deviation over the absolute mean: 0 if need does not distinguish at all"""
    negative: float
    """the share of negative needs"""
    similarity: float
    """the mean cosine between the features of two transitions: 1 if all states look alike"""


@jit
def similarity(features: FloatArray) -> float:
    """Mean of cos(φ_i, φ_j) over pairs i ≠ j: (|Σ φ_i / |φ_i||² − n) / (n (n − 1)).

    Features that are all 0 are like no others. Section 6 of the paper guesses that need helps where
    states look alike.
    """
    size, width = features.shape
    total, there, alike = np.zeros(width), 0, 0.0
    for i in range(size):
        length = 0.0
        for k in range(width):
            length += float(features[i, k]) ** 2
        if length > 0.0:
            there += 1
            for k in range(width):
                total[k] += features[i, k] / math.sqrt(length)
    for k in range(width):
        alike += float(total[k]) ** 2
    mean: float = (alike - there) / max(1, size * (size - 1))
    return mean


@jit
def facts_of(need: FloatArray, features: FloatArray) -> NeedFacts:
    """What is logged of a batch; one kernel, because many small tensor operations take longer."""
    mean, square, negative = 0.0, 0.0, 0
    for i in range(len(need)):
        mean += need[i] / len(need)
        negative += need[i] < 0.0
    for i in range(len(need)):
        square += (need[i] - mean) ** 2 / len(need)
    variation = math.sqrt(square) / abs(mean) if mean != 0.0 else 0.0
    return NeedFacts(mean, variation, negative / len(need), similarity(features))
