"""Slots in the order of their gain, for rank-based and greedy draws, in O(√N) a change.

A sorted sequence in blocks of about √N places. A block is a ring: where a slot moves past it, the
block turns by one place instead of being copied.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import FloatArray, IntArray


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
    """[place]: Σ of P up to it; empty: the first place is always drawn"""


def rank_order(slots: npt.NDArray[np.integer], gain: float, exponent: float | None) -> RankOrder:
    """``slots`` with equal gains, in the order given.

    Args:
        slots: every slot once; none: an order that is not used.
        gain: the gain of all of them.
        exponent: P(r) ∝ r^−α for ranks r from 1; ``None``: the first is always drawn.
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
def slot_at_place(order: RankOrder, place: int) -> int:
    """The slot at ``place``."""
    width = order.slot.shape[1]
    block = place // width
    slot: int = order.slot[block, (order.head[block] + place) & (width - 1)]
    return slot


@compiled_in_place
def gain_at_place(order: RankOrder, place: int) -> float:
    """The gain at ``place``."""
    width = order.slot.shape[1]
    block = place // width
    gain: float = order.gain[block, (order.head[block] + place) & (width - 1)]
    return gain


@compiled_in_place
def copy_place(order: RankOrder, source: int, target: int) -> None:
    """What is at place ``source`` is at ``target`` too. Writes ``order``."""
    width = order.slot.shape[1]
    a, b = source // width, target // width
    i = (order.head[a] + source) & (width - 1)
    j = (order.head[b] + target) & (width - 1)
    order.slot[b, j] = order.slot[a, i]
    order.gain[b, j] = order.gain[a, i]


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
    """The slot at ``place`` of ``size`` has ``gain`` from now on. Writes ``order``.

    Within its own block and that of its new place slots are shifted one by one; a block between
    them gives one slot to its neighbour and turns.
    """
    width = order.slot.shape[1]
    slot = slot_at_place(order, place)
    target = place_for(order, place, size, gain)
    hole = place
    while hole // width > target // width:
        first = hole // width * width
        while hole > first:
            copy_place(order, hole - 1, hole)
            hole -= 1
        copy_place(order, hole - 1, hole)
        hole -= 1
        while hole // width > target // width:
            block = hole // width
            order.head[block] = (order.head[block] - 1) & (width - 1)
            hole = block * width
            copy_place(order, hole - 1, hole)
            hole -= 1
    while hole // width < target // width:
        last = (hole // width + 1) * width - 1
        while hole < last:
            copy_place(order, hole + 1, hole)
            hole += 1
        copy_place(order, hole + 1, hole)
        hole += 1
        while hole // width < target // width:
            block = hole // width
            order.head[block] = (order.head[block] + 1) & (width - 1)
            hole = (block + 1) * width - 1
            copy_place(order, hole + 1, hole)
            hole += 1
    while hole > target:
        copy_place(order, hole - 1, hole)
        hole -= 1
    while hole < target:
        copy_place(order, hole + 1, hole)
        hole += 1
    block = target // width
    position = (order.head[block] + target) & (width - 1)
    order.slot[block, position] = slot
    order.gain[block, position] = gain
