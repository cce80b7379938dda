"""Slots in the order of their gain, for rank-based and greedy sampling.

Unlike in ``replay.ordered``, equal gains stay in the order in which they came (there, by slot
number), which for slots sorted by state would be a bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import FloatArray


class RankOrder(NamedTuple):
    """All slots, from the largest gain to the smallest."""

    slots: npt.NDArray[np.int32]
    """[place]"""
    gain: FloatArray
    """[slot]"""
    cumulative: FloatArray
    """[place]: Σ of P up to it; empty for greedy sampling"""


def rank_order(slots: npt.NDArray[np.integer], gain: float, exponent: float | None) -> RankOrder:
    """``slots`` with equal gains, in the order given.

    Args:
        slots: every slot once; empty: an order that is not used.
        gain: the gain of all of them.
        exponent: P(r) ∝ r^−α for ranks r from 1; ``None``: greedy sampling.
    """
    ranks = np.arange(1.0, 1.0 if exponent is None else len(slots) + 1.0)
    mass = ranks ** -(exponent or 0.0)
    return RankOrder(
        slots=slots.astype(np.int32),
        gain=np.full(len(slots), gain),
        cumulative=np.cumsum(mass) / max(mass.sum(), 1.0),
    )


@compiled_in_place
def place_at(cumulative: FloatArray, uniform: float) -> int:
    """The first place whose cumulative probability is above ``uniform``."""
    place = int(np.searchsorted(cumulative, uniform, side="right"))
    return min(place, len(cumulative) - 1)


@compiled_in_place
def move(order: RankOrder, place: int, gain: float) -> None:
    """Set the gain of the slot at ``place``; move it behind its equals. Changes ``order``."""
    slots, slot = order.slots, order.slots[place]
    low, high = place + 1, slots.shape[0]
    if gain > order.gain[slot]:
        low, high = 0, place
    order.gain[slot] = gain
    while low < high:
        middle = (low + high) // 2
        if order.gain[slots[middle]] < gain:
            high = middle
        else:
            low = middle + 1
    if low <= place:
        for other in range(place, low, -1):
            slots[other] = slots[other - 1]
    else:
        low -= 1
        # Views from 0 on: so the compiler moves several slots at once.
        earlier, later = slots[place:low], slots[place + 1 : low + 1]
        for other in range(earlier.shape[0]):
            earlier[other] = later[other]
    slots[low] = slot
