"""Recency: replay new transitions more often, by a geometric distribution of their age."""

from __future__ import annotations

import math

from needreplay.core.errors import NeedReplayError


def recency_rate(mean_age: float) -> float:
    """log((m + 1) / m): P(age = a) ∝ exp(-rate · a) = (m / (m + 1))^a has the mean m."""
    return math.log1p(1.0 / mean_age)


def effective_number(mean_age: float, count: int) -> float:
    """1 / Σ p² of ``count`` transitions sampled by age: how many they are worth.

    With q = m / (m + 1), p_a = q^a (1 - q) / (1 - q^n) for a = 0, ..., n - 1. The sum of squares is
    geometric, too: 1 / Σ p² = (1 + q) / (1 - q) · (1 - q^n) / (1 + q^n), which is
    (2 m + 1) tanh(n rate / 2).
    """
    return (2.0 * mean_age + 1.0) * math.tanh(count * recency_rate(mean_age) / 2.0)


def mean_age_for(effective: float, *counts: int) -> float:
    """The mean age at which so many transitions are worth ``effective`` ones, by bisection.

    With several ``counts``, the sizes of a buffer while it grows, on average over these.

    >>> round(mean_age_for(1_000, 100_000), 6)
    499.5
    """
    mean = sum(counts) / len(counts)
    if not 1.0 < effective < mean:
        raise NeedReplayError(
            f"effective is {effective}; it must be above 1 and below the mean of counts, {mean}."
        )
    low, high = 0.0, 1e9 * mean
    for _ in range(200):
        middle = (low + high) / 2.0
        if sum(effective_number(middle, count) for count in counts) < effective * len(counts):
            low = middle
        else:
            high = middle
    return high
