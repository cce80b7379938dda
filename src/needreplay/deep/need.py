"""Deep need: successor features projected on features, and what is done with the result.

Yuan & Mattar, section 3.2 (projection), section 4.3 (the offset), section 6 (other ways with
negative need, and backward relevance). Every function works on a batch.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor


def projected(successor: Tensor, features: Tensor) -> Tensor:
    """Need(s, s') = m · φ(s') / |φ(s')|², and 0 where φ(s') = 0; rows are broadcast."""
    squared = features.square().sum(-1)
    safe = torch.where(squared > 0.0, squared, torch.ones_like(squared))
    return (successor * features).sum(-1) / safe


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
    return torch.where(unit > 0.0, need / torch.where(unit > 0.0, unit, 1.0), torch.ones_like(need))


class NeedFacts(NamedTuple):
    """What is logged of the need in a batch, before negatives and scale are dealt with."""

    mean: float
    variation: float
    """the standard deviation over the absolute mean: 0 if need does not distinguish at all"""
    negative: float
    """the share of negative needs"""
    similarity: float
    """the mean cosine between the features of two transitions: 1 if all states look alike"""


def facts_of(need: Tensor, features: Tensor) -> NeedFacts:
    """What is logged of a batch, in one trip from the device."""
    negative = (need < 0.0).to(need.dtype).mean()
    facts = torch.stack([need.mean(), need.std(correction=0), negative, similarity(features)])
    mean, deviation, share, alike = facts.tolist()
    return NeedFacts(mean, deviation / abs(mean) if mean != 0.0 else 0.0, share, alike)


def similarity(features: Tensor) -> Tensor:
    """Mean of cos(φ_i, φ_j) over pairs i ≠ j: (|Σ φ_i / |φ_i||² − n) / (n (n − 1)).

    Section 6 of the paper guesses that need helps where states look alike.
    """
    units = torch.nn.functional.normalize(features, dim=1)
    own = units.square().sum()
    pairs = max(1, len(features) * (len(features) - 1))
    return (units.sum(0).square().sum() - own) / pairs
