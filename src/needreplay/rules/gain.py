"""Gain: how much an update would change."""

from __future__ import annotations


def absolute_gain(error: float) -> float:
    """|δ|, the paper's gain: the size of the TD-error."""
    return abs(error)
