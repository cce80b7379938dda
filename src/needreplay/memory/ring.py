"""The store: preallocated rows in a ring, one row a transition, and ids that never repeat.

A row holds all columns side by side, so that a transition at random is one or two cache lines
rather than one for each column. Id i lives in slot i mod capacity until id i + capacity comes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.compiled import compiled
from needreplay.errors import NeedReplayError
from needreplay.memory.schema import Column, RowLayout
from needreplay.types import AnyArray, IntArray

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_ALIGN = 64
_MOST_PLANS = 64
_FEW = 64


@compiled
def copy_bytes(source: Bytes, at: int, target: Bytes, to: int, count: int) -> None:
    """target[to : to + count] = source[at : at + count]."""
    for k in range(count):
        target[to + k] = source[at + k]


@compiled
def following(place: int, length: int) -> int:
    """(place + 1) mod length, without a division."""
    return place + 1 if place + 1 < length else 0


@compiled
def copy_row(source: Words, i: int, target: Words, j: int, first: int, end: int) -> None:
    """target[j, first:end] = source[i, first:end]."""
    for k in range(first, end):
        target[j, k] = source[i, k]


@compiled
def take_rows(rows: Bytes, slots: IntArray, spans: IntArray, starts: IntArray, out: Bytes) -> None:
    """Column c of the rows in ``slots``, one after the other, from ``starts[c]`` of ``out``.

    A column of a few words of four bytes, which most are, is copied word by word.
    """
    row_words, out_words = rows.view(np.uint32), out.view(np.uint32)
    for c in range(len(starts)):
        offset, count, to = spans[c, 0], spans[c, 1], starts[c]
        if count <= _FEW and count % 4 == 0 and offset % 4 == 0:
            for k in range(count // 4):
                for i in range(len(slots)):
                    out_words[to // 4 + k + i * (count // 4)] = row_words[slots[i], offset // 4 + k]
        else:
            for i in range(len(slots)):
                copy_bytes(rows[slots[i]], offset, out, to + i * count, count)


@compiled
def put_rows(
    rows: Bytes, slots: IntArray, spans: IntArray, starts: IntArray, source: Bytes, size: int
) -> None:
    """The opposite of ``take_rows``: ``size`` entries of each column of ``source`` to ``slots``."""
    row_words, words = rows.view(np.uint32), source.view(np.uint32)
    for c in range(len(starts)):
        offset, count, at = spans[c, 0], spans[c, 1], starts[c]
        if count <= _FEW and count % 4 == 0 and offset % 4 == 0:
            for k in range(count // 4):
                for i in range(size):
                    row_words[slots[i], offset // 4 + k] = words[at // 4 + k + i * (count // 4)]
        else:
            for i in range(size):
                copy_bytes(source, at + i * count, rows[slots[i]], offset, count)


@compiled
def write_rows(
    rows: Bytes,
    first_id: int,
    spans: IntArray,
    starts: IntArray,
    staged: Bytes,
    size: int,
    slots: IntArray,
) -> None:
    """``size`` staged transitions get the ids from ``first_id`` on; writes rows and slots."""
    slot = first_id % len(rows)
    for i in range(size):
        slots[i] = slot
        slot = following(slot, len(rows))
    put_rows(rows, slots, spans, starts, staged, size)


class Plan(NamedTuple):
    """Where the columns of a batch lie in one piece of memory, each contiguous."""

    length: int
    starts: IntArray
    cuts: list[tuple[str, tuple[int, ...], np.dtype[Any], int]]
    """Name, shape, dtype and start of each column."""

    def columns(self, memory: Bytes) -> dict[str, AnyArray]:
        """The columns in ``memory``, by name."""
        return {name: np.ndarray(shape, dtype, memory, at) for name, shape, dtype, at in self.cuts}


class Ring:
    """``capacity`` rows: those of ids ``oldest_id`` up to, but not including, ``next_id``."""

    def __init__(self, capacity: int, layout: RowLayout) -> None:
        if isinstance(capacity, bool) or int(capacity) != capacity or capacity < 1:
            raise NeedReplayError(f"capacity is {capacity!r}; give a whole number from 1 on.")
        self.capacity = int(capacity)
        self.layout = layout
        self.rows = aligned_rows(self.capacity, layout.stride)
        self.next_id = 0
        self.oldest_id = 0
        self.spans = layout.spans
        self._plans: dict[int, Plan] = {}

    def __len__(self) -> int:
        return self.next_id - self.oldest_id

    def advance(self, count: int) -> None:
        """``count`` more ids have been written; what they overwrote is no longer kept."""
        self.next_id += count
        if self.next_id - self.oldest_id > self.capacity:
            self.oldest_id = self.next_id - self.capacity

    def column(self, name: str) -> AnyArray:
        """The whole column by slot, live: a view of the rows."""
        index = [column.name for column in self.layout.columns].index(name)
        return column_view(self.rows, self.layout.columns[index], self.layout.offsets[index])

    def plan(self, size: int) -> Plan:
        """Where the columns of a batch of ``size`` lie; kept for next time."""
        plan = self._plans.get(size)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[size] = planned(self.layout, size)
        return plan


def planned(layout: RowLayout, size: int) -> Plan:
    """Every column of ``size`` rows after the other, each on a cache line."""
    starts, cuts, at = [], [], 0
    for column in layout.columns:
        at += -at % _ALIGN
        starts.append(at)
        cuts.append((column.name, (size, *column.shape), column.dtype, at))
        at += size * column.nbytes
    at += -at % 8
    return Plan(at, np.array(starts, dtype=np.int64), cuts)


def aligned_rows(count: int, stride: int) -> Bytes:
    """``count`` rows of zeros that begin on a cache line."""
    memory = np.zeros(count * stride + _ALIGN, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + count * stride].reshape(count, stride)


def column_view(rows: Bytes, column: Column, offset: int) -> AnyArray:
    """One column of ``rows`` as an array of its own dtype and shape, sharing the memory."""
    if not len(rows):
        return np.empty((0, *column.shape), dtype=column.dtype)
    inner = np.empty(column.shape, dtype=column.dtype).strides
    whole = rows.reshape(-1)
    return np.ndarray(
        (len(rows), *column.shape), column.dtype, whole.data, offset, (rows.shape[1], *inner)
    )
