"""What a transition is made of: named columns, from dtypes and shapes or from Gymnasium spaces.

A space is known by what it has (``spaces``, or ``shape`` and ``dtype``), so that nothing has to be
imported for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import IntArray

ColumnSpec: TypeAlias = Any
"""A dtype, a pair (dtype, shape), a Gymnasium space, or a mapping of names to these."""

SEPARATOR = "/"
WORD = 8


class Column(NamedTuple):
    """One column: ``name`` is the path to it ("obs", or "obs/position" within a Dict)."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one entry."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    @property
    def described(self) -> str:
        """For messages and for the header of a file."""
        dtype = self.dtype.str if self.dtype.names is None else str(self.dtype)
        return f"{self.name} {dtype}{list(self.shape)}"


def columns_of(name: str, spec: ColumnSpec) -> list[Column]:
    """The columns that ``spec`` stands for: one, or several for a mapping or a Dict space."""
    name = str.__str__(name)  # of a str subclass (an enum's member, say) the text alone
    if not name or SEPARATOR in name:
        raise NeedReplayError(f"A column cannot be named {name!r}: give a name without a slash.")
    inner = spec if isinstance(spec, Mapping) else getattr(spec, "spaces", None)
    if isinstance(inner, Mapping):
        if not inner:
            raise NeedReplayError(f"Column {name!r} is a Dict space without any space in it.")
        nested = [column for key, part in inner.items() for column in columns_of(str(key), part)]
        return [column._replace(name=f"{name}{SEPARATOR}{column.name}") for column in nested]
    return [_plain_column(name, spec)]


def _plain_column(name: str, spec: ColumnSpec) -> Column:
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
            f"Column {name!r} cannot be stored from {spec!r}: give a dtype, a pair (dtype, shape), "
            "or a Box, Discrete, MultiDiscrete or Dict space."
        )
    return column


class RowLayout(NamedTuple):
    """Where each column lies within a row of ``stride`` bytes."""

    columns: tuple[Column, ...]
    offsets: tuple[int, ...]
    groups: tuple[int, ...]
    """Where each group of columns begins."""
    stride: int

    @property
    def spans(self) -> IntArray:
        """Offset and number of bytes of each column, for kernels."""
        spans = [(at, column.nbytes) for at, column in zip(self.offsets, self.columns, strict=True)]
        return np.array(spans, dtype=np.int64).reshape(-1, 2)


def laid_out(*groups: list[Column]) -> RowLayout:
    """Columns group by group, each where its dtype wants to begin, each group on a whole word.

    A row and a group of its columns can then be copied in words of eight bytes. In a group, columns
    of whole words come first, so that they are on whole words as well.
    """
    columns = tuple(column for group in groups for column in group)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise NeedReplayError(f"A column is named twice: {', '.join(names)}.")
    if not columns:
        raise NeedReplayError("columns is empty; a memory needs at least one column.")
    begins, offsets, at = [], dict[str, int](), 0
    for group in groups:
        at += -at % WORD
        begins.append(at)
        for column in sorted(group, key=lambda column: column.nbytes % WORD != 0):
            at += -at % column.dtype.alignment
            offsets[column.name] = at
            at += column.nbytes
    in_order = tuple(offsets[name] for name in names)
    return RowLayout(columns, in_order, tuple(begins), at + -at % WORD)


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with the entries of mappings under their paths, as columns are named."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = flattened(value)
            flat.update({f"{name}{SEPARATOR}{key}": part for key, part in inner.items()})
        else:
            flat[name] = value
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The opposite of ``flattened``."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split(SEPARATOR)
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree
