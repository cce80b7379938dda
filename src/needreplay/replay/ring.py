"""The store: preallocated rows in a ring, one row a transition, and ids that never repeat.

A row holds all columns side by side, so that a transition at random is one or two cache lines
rather than one for each column. Id i lives in slot i mod capacity until id i + capacity comes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.prefetch import LINE
from needreplay.core.types import AnyArray, IntArray
from needreplay.replay import native
from needreplay.replay.schema import Column, RowLayout

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_MOST_PLANS = 64
_FEW = 64


@jit
def copy_bytes(source: Bytes, at: int, target: Bytes, to: int, count: int) -> None:
    """target[to : to + count] = source[at : at + count].

    Unsigned places, which need no test for being counted from the end: then it is one ``memcpy``.
    """
    given, place = np.uint64(at), np.uint64(to)
    for k in range(np.uint64(count)):
        target[place + k] = source[given + k]


@jit
def _words8(memory: Bytes) -> Words:
    """The same memory in words of eight bytes."""
    return memory.view(np.uint64)


@jit
def _words4(memory: Bytes) -> npt.NDArray[np.uint32]:
    """The same memory in words of four bytes."""
    return memory.view(np.uint32)


@jit
def following(place: int, length: int) -> int:
    """(place + 1) mod length, without a division."""
    return place + 1 if place + 1 < length else 0


@jit
def copy_row(source: Words, i: int, target: Words, j: int, first: int, end: int) -> None:
    """target[j, first:end] = source[i, first:end]."""
    for k in range(first, end):
        target[j, k] = source[i, k]


@jit
def _gather(
    source: AnyArray, slots: IntArray, stride: int, at: int, out: AnyArray, to: int, step: int
) -> None:
    """out[to + i step] = source[slots[i] stride + at], in words.

    Unsigned places: they need no test for being counted from the end.
    """
    place, by = np.uint64(to), np.uint64(step)
    for i in range(len(slots)):
        out[place] = source[np.uint64(slots[i] * stride + at)]
        place += by


@jit
def _spread(
    source: AnyArray, at: int, step: int, out: AnyArray, to: int, stride: int, count: int
) -> None:
    """out[to + i stride] = source[at + i step] for ``count`` places, in words."""
    place, by = np.uint64(to), np.uint64(stride)
    given, on = np.uint64(at), np.uint64(step)
    for _ in range(count):
        out[place] = source[given]
        place += by
        given += on


@jit
def take_rows(rows: Bytes, slots: IntArray, spans: IntArray, starts: IntArray, out: Bytes) -> None:
    """Column c of the rows in ``slots``, one after the other, from ``starts[c]`` of ``out``.

    A column of a few words of eight or four bytes, which most are, is copied word by word.
    """
    stride, flat = rows.shape[1], rows.reshape(-1)
    rows8, rows4, out8, out4 = _words8(flat), _words4(flat), _words8(out), _words4(out)
    for c in range(len(starts)):
        at, count, to = spans[c, 0], spans[c, 1], starts[c]
        if count <= _FEW and count % 8 == 0 and at % 8 == 0:
            step = count // 8
            for k in range(step):
                _gather(rows8, slots, stride // 8, at // 8 + k, out8, to // 8 + k, step)
        elif count <= _FEW and count % 4 == 0 and at % 4 == 0:
            step = count // 4
            for k in range(step):
                _gather(rows4, slots, stride // 4, at // 4 + k, out4, to // 4 + k, step)
        else:
            for i in range(len(slots)):
                copy_bytes(flat, slots[i] * stride + at, out, to + i * count, count)


@jit
def put_rows(
    rows: Bytes, slot: int, spans: IntArray, starts: IntArray, source: Bytes, first: int, end: int
) -> None:
    """The opposite: entries ``first`` to ``end`` of each column go to the rows from ``slot`` on."""
    stride, flat = rows.shape[1], rows.reshape(-1)
    rows8, rows4, given8, given4 = _words8(flat), _words4(flat), _words8(source), _words4(source)
    for c in range(len(starts)):
        to, count, at = slot * stride + spans[c, 0], spans[c, 1], starts[c] + first * spans[c, 1]
        if count <= _FEW and count % 8 == 0 and to % 8 == 0:
            step = count // 8
            for k in range(step):
                _spread(given8, at // 8 + k, step, rows8, to // 8 + k, stride // 8, end - first)
        elif count <= _FEW and count % 4 == 0 and to % 4 == 0:
            step = count // 4
            for k in range(step):
                _spread(given4, at // 4 + k, step, rows4, to // 4 + k, stride // 4, end - first)
        else:
            for i in range(end - first):
                copy_bytes(source, at + i * count, flat, to + i * stride, count)


@jit
def write_rows(
    rows: Bytes,
    first_id: int,
    spans: IntArray,
    starts: IntArray,
    staged: Bytes,
    slots: IntArray,
) -> None:
    """Staged transitions get the ids from ``first_id`` on; writes ``rows`` and their ``slots``."""
    done = 0
    while done < len(slots):
        slot = (first_id + done) % len(rows)
        end = min(len(slots), done + len(rows) - slot)
        put_rows(rows, slot, spans, starts, staged, done, end)
        for i in range(done, end):
            slots[i] = slot + i - done
        done = end


@jit
def slots_of(ids: IntArray, oldest_id: int, capacity: int) -> IntArray:
    """Where each of ``ids`` is, and -1 for those that are no longer kept."""
    slots = np.empty(len(ids), dtype=np.int64)
    for i in range(len(ids)):
        slots[i] = ids[i] % capacity if ids[i] >= oldest_id else -1
    return slots


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
        self.native = native.columns_of(
            {column.name: self.column(column.name) for column in layout.columns}
        )

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
        at += -at % LINE
        starts.append(at)
        cuts.append((column.name, (size, *column.shape), column.dtype, at))
        at += size * column.nbytes
    at += -at % 8
    return Plan(at, np.array(starts, dtype=np.int64), cuts)


def aligned_rows(count: int, stride: int) -> Bytes:
    """``count`` rows of zeros that begin on a cache line."""
    memory = np.zeros(count * stride + LINE, dtype=np.uint8)
    start = -memory.ctypes.data % LINE
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
