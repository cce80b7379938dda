"""Slots kept in order of their priority, in sorted blocks: insert, remove and find the k-th.

A block is a short run of slots; finding a place is a binary search among blocks and within one, and
an insertion moves at most one block's numbers. The largest priority is first; of equal ones, the
lower slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, FloatArray, IntArray

BLOCK = 512
ABSENT = -1.0
_BLOCKS, _FREE, _COUNT = 0, 1, 2


class Ordered(NamedTuple):
    """``blocks[order[k], :length[order[k]]]`` for k = 0, 1, ... are the slots in order.

    ``priorities`` are per slot, -1 where the slot is absent. ``spare`` is a stack of unused blocks.
    ``sizes`` holds how many blocks are in use, how many are spare, and how many slots there are.
    """

    priorities: FloatArray
    blocks: AnyArray
    length: IntArray
    order: IntArray
    spare: IntArray
    sizes: IntArray


def empty_order(capacity: int) -> Ordered:
    """An order without any slot in it.

    Two neighboring blocks always hold more than half a block together, which bounds their number.
    """
    n_blocks = 4 * (capacity // BLOCK + 1) + 2
    return Ordered(
        priorities=np.full(capacity, ABSENT),
        blocks=np.zeros((n_blocks, BLOCK), dtype=np.int32),
        length=np.zeros(n_blocks, dtype=np.int64),
        order=np.zeros(n_blocks, dtype=np.int64),
        spare=np.arange(n_blocks, dtype=np.int64),
        sizes=np.array([0, n_blocks, 0], dtype=np.int64),
    )


@jit
def _is_before(priorities: FloatArray, slot: int, priority: float, other: int) -> bool:
    """Whether ``slot`` comes before a slot ``other`` of that priority."""
    held = priorities[slot]
    return held > priority or (held == priority and slot < other)


@jit
def _block_of(order: Ordered, priority: float, slot: int) -> int:
    """The place of the first block whose last slot does not come before ``slot``."""
    low, high = 0, order.sizes[_BLOCKS]
    while low < high:
        middle = (low + high) // 2
        block = order.order[middle]
        last = order.blocks[block, order.length[block] - 1]
        if _is_before(order.priorities, last, priority, slot):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _place_in(order: Ordered, block: int, priority: float, slot: int) -> int:
    """The place within ``block`` of the first slot that does not come before ``slot``."""
    low, high = 0, order.length[block]
    while low < high:
        middle = (low + high) // 2
        if _is_before(order.priorities, order.blocks[block, middle], priority, slot):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _open_block(order: Ordered, place: int) -> int:
    """Put a spare block at ``place`` of the order and return it."""
    order.sizes[_FREE] -= 1
    block: int = order.spare[order.sizes[_FREE]]
    for k in range(order.sizes[_BLOCKS], place, -1):
        order.order[k] = order.order[k - 1]
    order.order[place] = block
    order.length[block] = 0
    order.sizes[_BLOCKS] += 1
    return block


@jit
def _close_block(order: Ordered, place: int) -> None:
    """Take the block at ``place`` out of the order."""
    order.spare[order.sizes[_FREE]] = order.order[place]
    order.sizes[_FREE] += 1
    order.sizes[_BLOCKS] -= 1
    for k in range(place, order.sizes[_BLOCKS]):
        order.order[k] = order.order[k + 1]


@jit
def _join(order: Ordered, place: int) -> None:
    """If the blocks at ``place`` and after it fill half a block at most, make them one."""
    if place < 0 or place + 1 >= order.sizes[_BLOCKS]:
        return
    left, right = order.order[place], order.order[place + 1]
    if order.length[left] + order.length[right] > BLOCK // 2:
        return
    for k in range(order.length[right]):
        order.blocks[left, order.length[left] + k] = order.blocks[right, k]
    order.length[left] += order.length[right]
    _close_block(order, place + 1)


@jit
def insert(order: Ordered, slot: int, priority: float) -> None:
    """Put an absent ``slot`` where ``priority`` belongs."""
    place = _block_of(order, priority, slot)
    if order.sizes[_BLOCKS] == 0:
        _open_block(order, 0)
    elif place == order.sizes[_BLOCKS]:
        place -= 1
    block = order.order[place]
    if order.length[block] == BLOCK:
        half = BLOCK // 2
        right = _open_block(order, place + 1)
        for k in range(half):
            order.blocks[right, k] = order.blocks[block, half + k]
        order.length[right] = half
        order.length[block] = half
        if _is_before(order.priorities, order.blocks[block, half - 1], priority, slot):
            block = right
    within = _place_in(order, block, priority, slot)
    for k in range(order.length[block], within, -1):
        order.blocks[block, k] = order.blocks[block, k - 1]
    order.blocks[block, within] = slot
    order.length[block] += 1
    order.priorities[slot] = priority
    order.sizes[_COUNT] += 1


@jit
def remove(order: Ordered, slot: int) -> None:
    """Take ``slot`` out; it is absent afterwards."""
    place = _block_of(order, order.priorities[slot], slot)
    block = order.order[place]
    within = _place_in(order, block, order.priorities[slot], slot)
    order.length[block] -= 1
    for k in range(within, order.length[block]):
        order.blocks[block, k] = order.blocks[block, k + 1]
    order.priorities[slot] = ABSENT
    order.sizes[_COUNT] -= 1
    if order.length[block] == 0:
        _close_block(order, place)
        _join(order, place - 1)
    else:
        _join(order, place)
        _join(order, place - 1)


@jit
def set_priorities(order: Ordered, slots: IntArray, priorities: FloatArray) -> None:
    """Move (or insert) each slot to where its priority belongs."""
    for i in range(len(slots)):
        if order.priorities[slots[i]] != ABSENT:
            remove(order, slots[i])
        insert(order, slots[i], priorities[i])


@jit
def remove_all(order: Ordered, slots: IntArray) -> None:
    """Take each slot out."""
    for i in range(len(slots)):
        remove(order, slots[i])


@jit
def _ends(order: Ordered) -> IntArray:
    """The place in the order after the last slot of each block, in order."""
    ends = np.empty(order.sizes[_BLOCKS], dtype=np.int64)
    end = 0
    for k in range(len(ends)):
        end += order.length[order.order[k]]
        ends[k] = end
    return ends


@jit
def slots_at(order: Ordered, places: IntArray) -> IntArray:
    """The slots at ``places`` (from 0) of the order."""
    ends, slots = _ends(order), np.empty(len(places), dtype=np.int64)
    for i in range(len(places)):
        k = np.searchsorted(ends, places[i], side="right")
        block = order.order[k]
        slots[i] = order.blocks[block, places[i] - (ends[k] - order.length[block])]
    return slots


@jit
def places_of(order: Ordered, slots: IntArray) -> IntArray:
    """The places (from 0) of ``slots``, all present, in the order."""
    ends, places = _ends(order), np.empty(len(slots), dtype=np.int64)
    for i in range(len(slots)):
        priority = order.priorities[slots[i]]
        k = _block_of(order, priority, slots[i])
        block = order.order[k]
        places[i] = ends[k] - order.length[block] + _place_in(order, block, priority, slots[i])
    return places


def count(order: Ordered) -> int:
    """How many slots are in the order."""
    return int(order.sizes[_COUNT])


def check_order(order: Ordered) -> None:
    """Raise unless every present slot is in the order once, at its place.

    No number is used as an index before it is known to be one: it may come from a file.
    """
    n_blocks, (in_use, spare, present) = len(order.length), order.sizes.tolist()
    if in_use < 0 or spare < 0 or in_use + spare != n_blocks:
        raise NeedReplayError("A block is lost, or both in use and spare.")
    blocks = np.concatenate([order.order[:in_use], order.spare[:spare]])
    if not np.array_equal(np.sort(blocks), np.arange(n_blocks)):
        raise NeedReplayError("A block is lost, or both in use and spare.")
    lengths = order.length[order.order[:in_use]]
    if np.any((lengths < 1) | (lengths > BLOCK)):
        raise NeedReplayError("A block holds less than one slot, or more than there is space for.")
    if np.any(lengths[1:] + lengths[:-1] <= BLOCK // 2):
        raise NeedReplayError("Two neighboring blocks should have been joined.")
    listed = order.blocks[order.order[:in_use]][np.arange(BLOCK) < lengths[:, None]]
    slots = np.flatnonzero(order.priorities != ABSENT)
    by_priority = slots[np.lexsort((slots, -order.priorities[slots]))]
    if present != len(listed) or not np.array_equal(listed, by_priority):
        raise NeedReplayError("The slots are not in the order of their priorities.")
