"""Slots in the order of their gain, for rank-based and greedy sampling, in O(√N) a change.

A sorted sequence in blocks of about √N places. A block is a ring: where a slot moves past it, the
block turns by one place instead of being copied. Equal gains stay in the order in which they came;
the library's ``RankSampler`` orders them by slot, which for slots sorted by state would be a bias.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needlab.core.jit import compiled_in_place
from needreplay._core.types import FloatArray, IntArray


class RankOrder(NamedTuple):
    """Place p, from the largest gain to the smallest, lies in block p // width.

    There it is at (head + p % width) % width.
    """

    slot: npt.NDArray[np.int32]
    """[block, position]"""
    gain: FloatArray
    """[block, position]"""
    head: IntArray
    """[block]: the position of its first place"""
    cumulative: FloatArray
    """[place]: Σ of P up to it; empty for greedy sampling"""


def rank_order(slots: npt.NDArray[np.integer], gain: float, exponent: float | None) -> RankOrder:
    """``slots`` with equal gains, in the order given.

    Args:
        slots: every slot once; empty: an order that is not used.
        gain: the gain of all of them.
        exponent: P(r) ∝ r^−α for ranks r from 1; ``None``: greedy sampling.
    """
    n = len(slots)
    width = 1 << round(math.log2(max(n, 1)) / 2)
    blocks = -(-n // width)
    padded = np.zeros(blocks * width, np.int32)
    padded[:n] = slots
    mass = np.arange(1, n + 1 if exponent is not None else 1, dtype=np.float64) ** -(
        exponent or 0.0
    )
    return RankOrder(
        slot=padded.reshape(blocks, width),
        gain=np.full((blocks, width), gain),
        head=np.zeros(blocks, np.int64),
        cumulative=np.cumsum(mass) / mass.sum() if mass.size else mass,
    )


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
def entry_of(order: RankOrder, place: int) -> tuple[int, int]:
    """The block of ``place`` and the position in it."""
    width = order.slot.shape[1]
    block = place // width
    return block, (order.head[block] + place) & (width - 1)


@compiled_in_place
def slot_at_place(order: RankOrder, place: int) -> int:
    """The slot at ``place``."""
    slot: int = order.slot[entry_of(order, place)]
    return slot


@compiled_in_place
def gain_at_place(order: RankOrder, place: int) -> float:
    """The gain at ``place``."""
    gain: float = order.gain[entry_of(order, place)]
    return gain


@compiled_in_place
def copy_place(order: RankOrder, source: int, target: int) -> None:
    """Copy what is at place ``source`` to ``target``. Changes ``order``."""
    before, after = entry_of(order, source), entry_of(order, target)
    order.slot[after] = order.slot[before]
    order.gain[after] = order.gain[before]


@compiled_in_place
def place_for(order: RankOrder, place: int, size: int, gain: float) -> int:
    """Where the slot at ``place`` belongs once it has ``gain``: the last of its equals."""
    if gain > gain_at_place(order, place):
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if gain_at_place(order, middle) < gain:
                high = middle
            else:
                low = middle + 1
        return low
    low, high = place, size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if gain_at_place(order, middle) >= gain:
            low = middle
        else:
            high = middle - 1
    return low


@compiled_in_place
def move(order: RankOrder, place: int, size: int, gain: float) -> None:
    """Set the gain of the slot at ``place`` of ``size``, and move it. Changes ``order``.

    Slots between the two places are shifted by one; a block that lies wholly between them passes
    one slot to its neighbor and turns.
    """
    width = order.slot.shape[1]
    slot = slot_at_place(order, place)
    target = place_for(order, place, size, gain)
    step = 1 if target > place else -1
    entry = 0 if step > 0 else width - 1
    hole = place
    while hole != target:
        block = hole // width
        if block != target // width and hole == block * width + entry:
            order.head[block] = (order.head[block] + step) & (width - 1)
            hole = block * width + width - 1 - entry
        copy_place(order, hole + step, hole)
        hole += step
    entry_there = entry_of(order, target)
    order.slot[entry_there] = slot
    order.gain[entry_there] = gain
