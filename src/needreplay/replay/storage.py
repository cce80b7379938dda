"""Storage: named columns, laid out side by side in preallocated rows, one row per transition.

A transition is one or two cache lines rather than one per column. Id i lives in slot i mod capacity
until id i + capacity overwrites it. Gymnasium spaces are recognized by their attributes
(``spaces``, or ``shape`` and ``dtype``), so nothing has to be imported for them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, AnyDtype, Columns, IntArray
from needreplay.replay._kernels.blocks import gather
from needreplay.replay.validation import as_columns, shape_of

ColumnSpec: TypeAlias = Any
"""A dtype, a pair (dtype, shape), a Gymnasium space, or a mapping of names to these."""

Bytes = npt.NDArray[np.uint8]
Memory: TypeAlias = Callable[[int, int], Bytes]
"""Makes so many rows of so many bytes."""

SEPARATOR = "/"
WORD = 8
NO_ID = -1
MOST_IDS = 2**62
"""Ids are below it."""
LINE = 64
"""Bytes of a cache line."""
BLOCK = 1024
"""Rows of an ``add`` of many after which the sampler follows."""
_REMEDY = (
    "Images take least as uint8, with each frame of a stack stored once (frame_stack of for_env)."
)


# Columns -----------------------------------------------------------------------------------------


class Column(NamedTuple):
    """One column: ``name`` is the path to it ("obs", or "obs/position" within a Dict space)."""

    name: str
    dtype: AnyDtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one entry."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    @property
    def description(self) -> str:
        """For messages and for the header of a file."""
        dtype = self.dtype.str if self.dtype.names is None else str(self.dtype)
        return f"{self.name} {dtype}{list(self.shape)}"


def columns_of(name: str, spec: ColumnSpec) -> list[Column]:
    """The columns that ``spec`` stands for: one, or several for a mapping or a Dict space."""
    name = str.__str__(name)  # the plain text of a str subclass, such as an enum member
    if not name or SEPARATOR in name:
        raise NeedReplayError(f"A column cannot be named {name!r}: use a name without a slash.")
    inner = spec if isinstance(spec, Mapping) else getattr(spec, "spaces", None)
    if isinstance(inner, Mapping):
        if not inner:
            raise NeedReplayError(f"Column {name!r} is a Dict space without any space in it.")
        nested = [column for key, part in inner.items() for column in columns_of(str(key), part)]
        return [column._replace(name=f"{name}{SEPARATOR}{column.name}") for column in nested]
    return [_one_column(name, spec)]


def _one_column(name: str, spec: ColumnSpec) -> Column:
    shape: Any
    is_space = not isinstance(spec, type | np.dtype) and hasattr(spec, "dtype")
    if is_space:
        dtype, shape = spec.dtype, getattr(spec, "shape", None)
    elif isinstance(spec, tuple) and len(spec) == 2:
        dtype, shape = spec
    else:
        dtype, shape = spec, ()
    try:
        column = Column(name, np.dtype(dtype), tuple(int(n) for n in np.atleast_1d(shape)))
        if column.dtype.subdtype is not None:
            base, inner = column.dtype.subdtype
            column = Column(name, base, (*column.shape, *inner))
        known = dtype is not None and shape is not None and not column.dtype.hasobject
    except (TypeError, ValueError):
        known = False
    if not known or min(column.shape, default=1) < 1 or column.dtype.itemsize == 0:
        raise NeedReplayError(
            f"Column {name!r} cannot be stored as {spec!r}: pass a dtype, a pair (dtype, shape), "
            "or a Box, Discrete, MultiDiscrete, MultiBinary or Dict space."
        )
    return column


def plain_columns(columns: Mapping[str, ColumnSpec]) -> dict[str, ColumnSpec]:
    """``columns`` as pairs (dtype, shape), those of Dict spaces as dicts of these."""
    listed = [column for name, spec in columns.items() for column in columns_of(name, spec)]
    return nest({column.name: (column.dtype, column.shape) for column in listed})


def flatten(values: Mapping[str, object]) -> Columns:
    """``values`` with the entries of nested mappings under their paths, as columns are named."""
    flat: Columns = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}{SEPARATOR}{key}": v for key, v in flatten(value).items()})
        else:
            flat[name] = value
    return flat


def nest(flat: Mapping[str, object]) -> Columns:
    """The inverse of ``flatten``."""
    tree: Columns = {}
    for path, value in flat.items():
        *parents, name = path.split(SEPARATOR)
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree


class RowLayout(NamedTuple):
    """Where each column lies within a row of ``stride`` bytes."""

    columns: tuple[Column, ...]
    offsets: tuple[int, ...]
    groups: tuple[int, ...]
    """Where each group of columns starts."""
    stride: int
    record: AnyDtype
    """Of a row."""

    @property
    def is_nested(self) -> bool:
        """Whether a column is part of a Dict space."""
        return any(SEPARATOR in column.name for column in self.columns)


def lay_out(*groups: list[Column]) -> RowLayout:
    """Columns group by group, each aligned for its dtype, each group aligned to 8 bytes.

    A row and a group of its columns can then be copied in words of eight bytes. Within a group,
    columns of full words come first, so that they are aligned to words too.
    """
    columns = tuple(column for group in groups for column in group)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise NeedReplayError(f"A column is named twice: {', '.join(names)}.")
    if not columns:
        raise NeedReplayError("columns is empty; a buffer needs at least one column.")
    starts, offsets, at = [], dict[str, int](), 0
    for group in groups:
        at += -at % WORD
        starts.append(at)
        for column in sorted(group, key=lambda column: column.nbytes % WORD != 0):
            at += -at % column.dtype.alignment
            offsets[column.name] = at
            at += column.nbytes
    in_order, stride = tuple(offsets[name] for name in names), at + -at % WORD
    formats = [(column.dtype, column.shape) for column in columns]
    fields: Any = {"names": names, "formats": formats, "offsets": in_order, "itemsize": stride}
    return RowLayout(columns, in_order, tuple(starts), stride, np.dtype(fields))


# Memory ------------------------------------------------------------------------------------------


def memory() -> float:
    """Bytes of memory that this machine has; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def check_memory(name: str, count: int, columns: Iterable[Column], remedy: str) -> None:
    """Raise, before anything is allocated, if ``count`` rows do not fit into this machine.

    Args:
        name: what the caller calls ``count``.
        count: how many rows.
        columns: of a row.
        remedy: what else to do, a sentence.
    """
    listed, gib = list(columns), 2.0**30
    wanted, has = count * sum(column.nbytes for column in listed), memory()
    if wanted > has:
        largest = max(listed, key=lambda column: column.nbytes)
        raise NeedReplayError(
            f"{name} is {count:,}: that takes {wanted / gib:.1f} GiB, and this machine has "
            f"{has / gib:.1f} GiB. The largest column is {largest.name}, {largest.nbytes:,} bytes "
            f"in each. Make {name} smaller. {remedy}"
        )


# Rows --------------------------------------------------------------------------------------------


class Ring:
    """``capacity`` rows: those of ids ``oldest_id`` up to, but not including, ``next_id``.

    ``memory`` makes rows of bytes; by default in memory.
    """

    def __init__(self, capacity: int, layout: RowLayout, memory: Memory | None = None) -> None:
        if isinstance(capacity, bool) or int(capacity) != capacity or capacity < 1:
            raise NeedReplayError(f"capacity is {capacity!r}; pass an integer from 1 on.")
        self.capacity = int(capacity)
        if memory is None:
            check_memory("capacity", self.capacity, layout.columns, _REMEDY)
        self.layout = layout
        self.rows = (memory or aligned_rows)(self.capacity, layout.stride)
        self.ids: IntArray = np.zeros(2, dtype=np.int64)
        """The oldest and the next id, in an array that kernels share."""
        self.columns = column_views(self.rows, layout)
        """Every column by slot: views of the rows."""

    def __len__(self) -> int:
        oldest_id, next_id = self.ids.tolist()  # both at once: another thread may be adding
        return int(next_id - oldest_id)

    @property
    def oldest_id(self) -> int:
        """The id of the oldest transition."""
        return self.ids.item(0)

    @property
    def next_id(self) -> int:
        """The id that the next transition gets."""
        return self.ids.item(1)

    def ids_of(self, slots: IntArray) -> IntArray:
        """The ids of the transitions in ``slots``."""
        last = self.next_id - 1
        ids: IntArray = last - (last - slots) % self.capacity
        return ids


def aligned_rows(count: int, stride: int) -> Bytes:
    """``count`` rows of zeros that start on a cache line."""
    memory = np.zeros(count * stride + LINE, dtype=np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + count * stride].reshape(count, stride)


def column_views(rows: Bytes, layout: RowLayout) -> dict[str, AnyArray]:
    """Each column of ``rows`` as an array of its own dtype and shape, sharing the memory."""
    records = rows.view(layout.record)[:, 0]
    return {column.name: records[column.name] for column in layout.columns}


class Parts(NamedTuple):
    """Rows outside of a ring, and what they refer to."""

    rows: Bytes
    frames: Bytes | None = None
    """frames of stacks, each once"""
    places: IntArray | None = None
    """of each row, which frames are those of its stack and of its next stack, oldest first"""

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in self if array is not None)

    def copied(self) -> Parts:
        """A copy, in memory of its own."""
        frames = None if self.frames is None else self.frames.copy()
        return Parts(self.rows.copy(), frames, None if self.places is None else self.places.copy())

    @staticmethod
    def gathered(blocks: list[Parts], rows: IntArray) -> Parts:
        """Row ``rows[i]`` of ``blocks[i]``, each; the frames of each row are stored once."""
        return Parts(*gather(blocks, rows))


Framed = tuple[dict[str, Any], Callable[[], None]]
"""A step with the numbers of its frames, and what forgets that these were stored."""
Placed = Sequence[tuple[IntArray, Parts]]
"""Rows from several places, and where in a batch they belong."""


class Writer:
    """Turns what ``add`` gets into rows, and rows into the columns of a batch.

    This one stores columns as they are passed, one transition or many at a time.
    """

    bulk = "ring/rows"
    """The array that may be too large to be held twice; whatever bytes it has are valid."""
    windows: Any = None
    """The kernel of episodes."""
    tells_kernel = True
    """Whether a kernel can tell the sampler of what is added; otherwise Python tells it."""
    frame_stack = 0
    """Frames in a stack, if they are stored beside the rows."""

    def __init__(self, *groups: list[Column]) -> None:
        self.layout = lay_out(*groups)
        self.is_nested = self.layout.is_nested
        self._targets = column_views(aligned_rows(1, self.layout.stride), self.layout)

    def info_rows(self, info: Mapping[str, Column]) -> dict[str, AnyArray]:
        """Memory for what ``add`` takes for the sampler: here rows that kernels work in."""
        return {name: np.zeros((BLOCK, *c.shape), c.dtype) for name, c in info.items()}

    def pending_info(self) -> dict[str, AnyArray]:
        """States or features of what is not yet in the ring."""
        return {}

    def rows_of(self, values: Columns, env: int | None) -> tuple[Columns, int, int]:  # noqa: ARG002
        """``values``; how many rows these are (as the first column has), and those of a step."""
        first = self.layout.columns[0]
        shape = shape_of(values.get(first.name))
        size = shape[0] if len(shape) > len(first.shape) and shape[0] > 0 else 1
        return values, size, size

    def most_rows(self, values: Columns, env: int | None) -> int:
        """The most rows that adding ``values`` writes."""
        return self.rows_of(values, env)[1]

    def converted(self, values: Mapping[str, Any], size: int, step: int) -> dict[str, AnyArray]:  # noqa: ARG002
        """``values``, checked, as an array of its own dtype for each column.

        ``step``: how many of the ``size`` rows are of one time.
        """
        return as_columns(self._targets, size, values)

    def with_frames(self, step: dict[str, AnyArray], env: int | None) -> dict[str, AnyArray]:  # noqa: ARG002
        """``step``, with what is not stored in its row replaced by where that is."""
        return step

    def framed(self, values: Columns) -> Framed | None:  # noqa: ARG002 - no stacks
        """One plain step of one environment with its frames stored; None: it is not one."""
        return None

    def check_env(self, env: object) -> int:  # noqa: ARG002 - no episodes
        """``env``, if it is the number of an environment."""
        raise _no_episodes()

    def placed(self, ring: Ring, count: int) -> tuple[IntArray, IntArray]:
        """Slots of the ``count`` newest transitions, and the id before each in its episode or -1.

        Called after ``ring`` was advanced.
        """
        slots = np.arange(ring.next_id - count, ring.next_id) % ring.capacity
        return slots, np.full(count, NO_ID, dtype=np.int64)

    def future(self, ids: IntArray, steps: IntArray) -> IntArray:  # noqa: ARG002 - no episodes
        """The ids ``steps`` after ``ids`` in their episodes, -1 where there is none."""
        raise _no_episodes()

    def places(self, ids: IntArray) -> IntArray:  # noqa: ARG002 - no episodes
        """The number of the episode of each of ``ids``, and its step in it."""
        raise _no_episodes()

    def choose_cut(self, env: int | None) -> None:  # noqa: ARG002 - no episodes
        """Choose whose open windows are to be written: those of ``env``, or of all."""
        raise NeedReplayError(
            "This buffer has no episodes to cut; make it with episodes (ReplayBuffer.for_spaces "
            "does)."
        )

    def told(self, count: int) -> slice:
        """Which of ``info_rows`` are those of the ``count`` transitions just written."""
        return slice(count)

    def columns(self, gathered: dict[str, AnyArray]) -> Columns:
        """The public columns of a batch, from those of the ring."""
        return nest(gathered) if self.is_nested else gathered

    def parts(self, ring: Ring, ids: IntArray) -> Parts:
        """The rows of ``ids`` with all that they refer to, copied."""
        return Parts(ring.rows[ids % ring.capacity])

    def columns_from(self, placed: Placed) -> Columns:
        """The public columns of rows that ``parts`` returned, here or elsewhere."""
        return nest(self._plain_from(placed))

    def _plain_from(self, placed: Placed) -> dict[str, AnyArray]:
        """The columns as they are in the rows."""
        rows = np.empty((sum(len(at) for at, _ in placed), self.layout.stride), dtype=np.uint8)
        for at, parts in placed:
            rows[at] = parts.rows
        views = column_views(rows, self.layout)
        return {name: np.ascontiguousarray(view) for name, view in views.items()}

    def count_incomplete(self, ring: Ring) -> int:  # noqa: ARG002 - a row is complete
        """How many of the oldest transitions lost a part that is not in their row."""
        return 0

    def check_valid(self, ring: Ring) -> None:
        """Raise if what is stored beside the rows contradicts itself."""

    def clear(self) -> None:
        """Forget everything beside the rows."""

    def arrays(self) -> dict[str, AnyArray]:
        """Arrays beside the rows that a checkpoint needs, live."""
        return {}

    def take(self, other: Any, first: int, count: int, shift: int) -> None:
        """What another writer has beside its rows, of ``count`` ids from ``first`` on.

        Their ids are larger by ``shift`` here, and their slots begin at 0.
        """

    def links(self, count: int) -> IntArray:
        """The id after each of the first ``count`` slots in its episode, or -1."""
        return np.full(count, NO_ID, dtype=np.int64)

    def filled(self) -> dict[str, int]:
        """How many rows of an array are in use, where not all are."""
        return {}

    def settings(self) -> dict[str, object]:
        """What a file must agree on."""
        return {"columns": [column.description for column in self.layout.columns]}


def _no_episodes() -> NeedReplayError:
    return NeedReplayError(
        "This buffer does not know which transitions follow each other; make it with episodes "
        "(ReplayBuffer.for_spaces does)."
    )
