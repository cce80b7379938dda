"""Which of the ids in an update still count, and whether their gains can be taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import FloatArray, IntArray
from needreplay.replay.told import KERNEL_FLOATS, real_numbers, whole_numbers

LARGEST_GAIN = 1e200
"""Sums of larger gains, and their products with need, could overflow."""

_ID = np.dtype(np.int64)
_IDS = "give a vector of whole numbers, such as batch.ids. Nothing was changed."
_GAINS = "give a vector of real numbers, one for each id. Nothing was changed."

_FINE, _BAD_GAIN, _BAD_ID = 0, 1, 2
_ODD = 0x9E3779B1


@jit
def _first_bad_gain(gain: FloatArray) -> int:
    """The place of the first gain that is NaN, infinite, negative or too large, or -1."""
    for i in range(len(gain)):
        if not 0.0 <= float(gain[i]) <= LARGEST_GAIN:
            return i
    return -1


@jit
def _first_bad_id(ids: IntArray, next_id: int) -> int:
    """The place of the first id that was never given, or -1."""
    for i in range(len(ids)):
        if not 0 <= ids[i] < next_id:
            return i
    return -1


@jit
def _keep(ids: IntArray, oldest_id: int, keep: IntArray) -> tuple[int, int]:
    """Writes the places of ids that count, in order, to the end of ``keep``, and says from where.

    An id before ``oldest_id`` is gone (answers how many are); of equal ids the last counts. Those
    seen are kept in a small table with open addressing.
    """
    size = 2
    while size < 2 * len(ids):
        size *= 2
    seen = np.full(size, -1, dtype=np.int64)
    first, gone = len(ids), 0
    for i in range(len(ids) - 1, -1, -1):
        if ids[i] < oldest_id:
            gone += 1
            continue
        place = (ids[i] * _ODD) & (size - 1)
        while seen[place] != -1 and seen[place] != ids[i]:
            place = (place + 1) & (size - 1)
        if seen[place] == -1:
            seen[place] = ids[i]
            first -= 1
            keep[first] = i
    return first, gone


@jit
def _admit_gains(
    ids: IntArray,
    gain: FloatArray,
    oldest_id: int,
    next_id: int,
    capacity: int,
    slots: IntArray,
    gains: FloatArray,
) -> tuple[int, int, int, float]:
    """Writes slots and gains that count to the ends of the last two.

    Answers what is wrong and where, or 0, where they begin, how many ids are gone, and the largest.
    """
    bad = _first_bad_gain(gain)
    if bad >= 0:
        return _BAD_GAIN, bad, 0, 0.0
    bad = _first_bad_id(ids, next_id)
    if bad >= 0:
        return _BAD_ID, bad, 0, 0.0
    first, gone = _keep(ids, oldest_id, slots)
    largest = 0.0
    for i in range(first, len(ids)):
        place = slots[i]
        slots[i] = ids[place] % capacity
        gains[i] = gain[place] + 0.0  # 0 has no sign here
        largest = max(largest, gains[i])
    return _FINE, first, gone, largest


def take_gains(
    set_priorities: Callable[[IntArray, FloatArray], None],
    ids: ArrayLike,
    gain: ArrayLike,
    oldest_id: int,
    next_id: int,
    capacity: int,
) -> tuple[int, float]:
    """Hand the gains that count to ``set_priorities``, or refuse them all in prose.

    Answers how many ids are gone, and the largest gain of the others.
    """
    ids, gain = _checked(ids, gain)
    slots, gains = np.empty(len(ids), dtype=np.int64), np.empty(len(ids))
    found, first, gone, largest = _admit_gains(
        ids, gain, oldest_id, next_id, capacity, slots, gains
    )
    if found != _FINE:
        _refuse_gains(found, first, ids, gain, next_id)
    set_priorities(slots[first:], gains[first:])
    return gone, largest


def _checked(ids: ArrayLike, gain: ArrayLike) -> tuple[IntArray, FloatArray]:
    """Both as vectors of the same length that a kernel can read, or an error in prose."""
    ids = checked_ids(ids)
    gain = _as_gains(gain)
    if gain.shape != ids.shape:
        raise NeedReplayError(
            f"gain has shape {gain.shape} and ids {ids.shape}; give one gain for each id. "
            "Nothing was changed."
        )
    return ids, gain


def _refuse_gains(
    found: int, where: int, ids: IntArray, gain: FloatArray, next_id: int
) -> NoReturn:
    """Say in prose why an update was not taken."""
    if found == _BAD_ID:
        _refuse_id(ids, where, next_id)
    raise NeedReplayError(
        f"gain[{where}] is {gain[where]}; a gain has to be a finite number from 0 to "
        f"{LARGEST_GAIN:g}. Nothing was changed."
    )


def _as_gains(gain: ArrayLike) -> FloatArray:
    if type(gain) is np.ndarray and gain.dtype in KERNEL_FLOATS and gain.flags.c_contiguous:
        return gain
    return real_numbers("gain", gain, _GAINS)


@jit
def _admit(
    ids: IntArray, oldest_id: int, next_id: int, capacity: int, keep: IntArray, slots: IntArray
) -> tuple[int, int, int]:
    """Writes the places and slots of ids that count to the ends of the last two.

    Answers where the first id is that was never given, or -1; where they begin; how many are gone.
    """
    bad = _first_bad_id(ids, next_id)
    if bad >= 0:
        return bad, 0, 0
    first, gone = _keep(ids, oldest_id, keep)
    for i in range(first, len(ids)):
        slots[i] = ids[keep[i]] % capacity
    return bad, first, gone


def admitted(
    ids: IntArray, oldest_id: int, next_id: int, capacity: int
) -> tuple[int, IntArray, IntArray]:
    """How many ids are gone; the places and slots of those that count, of equal ids the last."""
    keep, slots = np.empty((2, len(ids)), dtype=np.int64)
    bad, first, gone = _admit(ids, oldest_id, next_id, capacity, keep, slots)
    if bad >= 0:
        _refuse_id(ids, bad, next_id)
    return gone, keep[first:], slots[first:]


def checked_ids(ids: ArrayLike) -> IntArray:
    """``ids`` as a vector of int64."""
    if type(ids) is np.ndarray and ids.dtype is _ID and ids.ndim == 1:
        return ids
    return whole_numbers("ids", ids, _IDS)


def _refuse_id(ids: IntArray, where: int, next_id: int) -> NoReturn:
    raise NeedReplayError(
        f"ids[{where}] is {ids[where]}, which was never given: ids so far are 0 to {next_id - 1}. "
        "Nothing was changed."
    )
