"""Slots in the order of their gain: rank-based and greedy draws.

A sorted array, moved up or down by one where a gain changes: one pass over memory of at most N
numbers, which for the sizes here is cheaper than a balanced tree.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from needreplay.compiled import compiled_in_place
from needreplay.types import FloatArray


def rank_cumulative(n: int, exponent: float) -> FloatArray:
    """Σ_{i ≤ r} P(i) with P(i) ∝ i^−α, for each rank r from 1 to n."""
    mass = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    cumulative: FloatArray = np.cumsum(mass) / mass.sum()
    return cumulative


@compiled_in_place
def place_at(cumulative: FloatArray, uniform: float) -> int:
    """The first place whose cumulative probability is above ``uniform``."""
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > uniform:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_in_place
def move(order: npt.NDArray[np.int32], gains: FloatArray, place: int, gain: float) -> int:
    """The slot at ``place`` has ``gain`` from now on; answers with its new place.

    ``order`` holds slots from the largest gain to the smallest, ``gains`` their gains; among equal
    gains the slot becomes the last. Writes both.
    """
    slot = order[place]
    last = order.shape[0] - 1
    if gain > gains[place]:
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if gains[middle] < gain:
                high = middle
            else:
                low = middle + 1
        for other in range(place, low, -1):
            order[other] = order[other - 1]
            gains[other] = gains[other - 1]
        target = low
    else:
        low, high = place, last
        while low < high:
            middle = (low + high + 1) // 2
            if gains[middle] >= gain:
                low = middle
            else:
                high = middle - 1
        for other in range(place, low):
            order[other] = order[other + 1]
            gains[other] = gains[other + 1]
        target = low
    order[target] = slot
    gains[target] = gain
    return target
