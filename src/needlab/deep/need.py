"""Need of a batch: features for the projection, need that scales updates, statistics.

Yuan & Mattar, section 3.2 (projection), section 4.3 (offset), section 6 (other treatments of
negative need, backward need). Every function takes a batch.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay._core.types import FloatArray


def projected(features: Tensor) -> Tensor:
    """φ / |φ|², and 0 where φ = 0: its product with m is need (section 3.2)."""
    squared = features.square().sum(1, keepdim=True)
    return features / squared.clamp(min=torch.finfo(squared.dtype).tiny)


def remove_negatives(need: Tensor, how: Literal["offset", "fallback", "clip"]) -> Tensor:
    """Need that can scale an update.

    ``offset`` (the paper): need − min(0, min_i need_i). ``fallback``: need 1 for the batch if any
    need is negative, which is plain PER. ``clip``: max(0, need).
    """
    if how == "offset":
        return need - need.min().clamp(max=0.0)
    if how == "fallback":
        return torch.where((need < 0.0).any(), torch.ones_like(need), need)
    return need.clamp(min=0.0)


def rescale(need: Tensor, how: Literal["raw", "mean", "max"]) -> Tensor:
    """Need divided by its mean or maximum in the batch; 1 if the batch has no need.

    Divided by its mean, need decides which updates are larger but not the size of the step.
    """
    if how == "raw":
        return need
    unit = need.mean() if how == "mean" else need.max()
    return need / unit if float(unit.detach()) > 0.0 else torch.ones_like(need)


class NeedStats(NamedTuple):
    """Need in a batch, for the log, before negatives are removed and need is rescaled."""

    mean: float
    variation: float
    """standard deviation / |mean|: 0 if need does not distinguish transitions"""
    negative: float
    """the share of negative needs"""
    similarity: float
    """mean cosine between the features of two transitions: 1 if all states look alike"""


def need_stats(need: FloatArray, features: FloatArray) -> NeedStats:
    """The statistics of one batch."""
    values = need.astype(np.float64)
    mean = float(values.sum()) / len(values)
    centered = values - mean
    deviation = math.sqrt(centered @ centered / len(values))
    variation = deviation / abs(mean) if mean != 0.0 else 0.0
    negative = float(np.mean(values < 0.0))
    return NeedStats(mean, variation, negative, similarity(features))


def similarity(features: FloatArray) -> float:
    """Mean of cos(φ_i, φ_j) over pairs i ≠ j: (|Σ φ_i / |φ_i||² − n) / (n (n − 1)).

    The cosine with features that are all 0 counts as 0. Section 6 of the paper conjectures that
    need helps where states look alike.
    """
    phi = features.astype(np.float64)
    squares = np.einsum("ij,ij->i", phi, phi)
    zero = squares == 0.0
    total = (1.0 / np.sqrt(squares + zero)) @ phi
    size = len(phi)
    nonzero = size - np.count_nonzero(zero)
    return float(total @ total - nonzero) / max(1, size * (size - 1))
