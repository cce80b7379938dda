"""Stored transitions in their order: indexing, iteration, and steps ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import Columns, IntArray

_AT_ONCE = 256
"""Transitions that iteration reads together."""


class OutOfRangeError(NeedReplayError, IndexError):
    """There is no such transition."""


def places_of(key: object, count: int) -> IntArray:
    """Which of ``count`` transitions, from the oldest on, ``key`` stands for."""
    if isinstance(key, slice):
        return np.arange(count)[key]
    places = np.asarray(key)
    if places.dtype == np.bool_ and places.shape == (count,):
        return np.flatnonzero(places)
    if places.dtype.kind not in "iu" and places.shape != (0,):
        raise NeedReplayError(
            f"A buffer has no item {key!r}: pass a place from 0 (the oldest) to {count - 1}, a "
            "slice, or an array of places. A column of all is buffer[:]['obs']."
        )
    places = places.astype(np.int64)
    if places.size and not -count <= places.min() <= places.max() < count:
        wrong = places.min() if places.min() < -count else places.max()
        raise OutOfRangeError(f"Transition {wrong} is asked for, but {count} are stored.")
    return places % max(1, count)


def as_steps(steps: ArrayLike, shape: tuple[int, ...]) -> IntArray:
    """``steps``, a number or one for each id, as integers of ``shape``."""
    try:
        counts = np.broadcast_to(np.asarray(steps), shape).astype(np.int64, "C", "safe")
    except (TypeError, ValueError):
        counts = np.full(1, -1)
    if counts.min(initial=0) < 0:
        raise NeedReplayError(f"steps is {steps!r}; pass an integer from 0 on, or one for each id.")
    return counts


def one_of(columns: Columns, i: int) -> Columns:
    """Row ``i`` of columns."""
    return {
        name: one_of(column, i) if isinstance(column, dict) else column[i]
        for name, column in columns.items()
    }


def each_of(read: Callable[[IntArray], Columns], first: int, end: int) -> Iterator[Columns]:
    """The transitions with ids from ``first`` up to ``end``, one by one."""
    for begin in range(first, end, _AT_ONCE):
        ids = np.arange(begin, min(end, begin + _AT_ONCE))
        try:
            columns = read(ids)
        except NeedReplayError as error:
            raise NeedReplayError(
                f"{error} They were overwritten while you iterated over the buffer; put the loop "
                "into `with buffer.locked():`, which keeps other threads out, and add nothing."
            ) from error
        yield from (one_of(columns, i) for i in range(len(ids)))
