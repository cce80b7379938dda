"""Tables as CSV and settings as JSON, written atomically.

The same data is always the same bytes. If anything stops a write (a full disk, a missing
permission, Ctrl-C), the old file is still there, and no partial one beside it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.files import reason, replacing
from needreplay._core.types import AnyArray, FloatArray

_KINDS_OF_COLUMN = "iufbU"
_SHOWN_ROWS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length, each a one-dimensional array of numbers, booleans or text."""

    columns: Mapping[str, Sequence[Any] | AnyArray]

    def __post_init__(self) -> None:
        arrays = {name: _column(name, values) for name, values in self.columns.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if not arrays:
            raise NeedReplayError("A table needs at least one column.")
        if len(set(lengths.values())) > 1:
            each = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise NeedReplayError(f"A table's columns must be equally long, but {each}.")
        object.__setattr__(self, "columns", arrays)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> AnyArray:
        column = self.columns[name]
        assert isinstance(column, np.ndarray)
        return column

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self.columns)

    def keys(self) -> tuple[str, ...]:
        """The columns' names, so that ``dict(table)`` has the columns."""
        return self.names

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise NeedReplayError(
                "to_pandas needs pandas, which is not installed: pip install pandas. dict(table) "
                "has the columns as arrays."
            ) from error
        return pandas.DataFrame(dict(self))

    def _repr_html_(self) -> str:
        """The first rows, in a notebook."""
        shown = [[*_cells(self[name][:_SHOWN_ROWS])] for name in self.names]
        head = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*shown, strict=True)
        )
        more = f"<p>{len(self):,} rows</p>" if len(self) > _SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def where(self, **wanted: Any) -> Table:
        """The rows whose columns have these values."""
        rows = np.logical_and.reduce([self[name] == value for name, value in wanted.items()])
        return Table({name: self[name][rows] for name in self.names})

    def distinct(self, *names: str) -> list[Any]:
        """The different values of a column, in order; of several columns, the different tuples.

        >>> table = Table({"agent": ["ps", "ps", "dyna"], "seed": [1, 2, 1]})
        >>> table.distinct("agent"), table.distinct("agent", "seed")
        (['ps', 'dyna'], [('ps', 1), ('ps', 2), ('dyna', 1)])
        """
        columns = [self[name].tolist() for name in names]
        return list(dict.fromkeys(columns[0] if len(names) == 1 else zip(*columns, strict=True)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row, by the names of the columns."""
        for row in zip(*(self[name].tolist() for name in self.names), strict=True):
            yield dict(zip(self.names, row, strict=True))


def joined(parts: Sequence[Mapping[str, AnyArray]]) -> Table:
    """Concatenate tables that have the same columns."""
    return Table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def long_table(
    names: Sequence[str],
    parts: Mapping[Any, Mapping[str, Any]] | Iterable[tuple[Any, Mapping[str, Any]]],
) -> Table:
    """Concatenate parts; each part's key fills the columns ``names``.

    >>> table = long_table(["agent"], {"ps": {"steps": [3, 4]}, "ps-sr": {"steps": [2]}})
    >>> table["agent"].tolist()
    ['ps', 'ps', 'ps-sr']
    """
    stacked = []
    for key, columns in parts.items() if isinstance(parts, Mapping) else parts:
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        length = max(array.size for array in arrays.values())
        values = zip(names, key if isinstance(key, tuple) else (key,), strict=True)
        keys = {name: np.full(length, value) for name, value in values}
        stacked.append(keys | {n: np.broadcast_to(a, length) for n, a in arrays.items()})
    return joined(stacked)


def as_numbers(column: AnyArray) -> FloatArray:
    """A column as numbers; an empty cell is one that is not known, NaN."""
    if column.dtype.kind != "U":
        return column.astype(np.float64)
    return np.array([float(cell) if cell else np.nan for cell in column.tolist()])


def _column(name: str, values: Sequence[Any] | AnyArray) -> AnyArray:
    if not isinstance(name, str) or not name:
        raise NeedReplayError(f"A column's name must be some text, not {name!r}.")
    is_array = isinstance(values, np.ndarray)
    if not is_array:
        values = list(values)
        # numpy would silently turn the numbers of a mixed column into text.
        if len({isinstance(value, str) for value in values}) > 1:
            raise NeedReplayError(f"Column {name!r} mixes text with numbers.")
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty((0, 0))
    if array.ndim != 1 or array.dtype.kind not in _KINDS_OF_COLUMN:
        raise NeedReplayError(
            f"Column {name!r} must be one row of numbers, booleans or text, "
            f"not {array.ndim}-dimensional {array.dtype}."
        )
    return array.copy() if is_array else array


def prepare_folder(path: str | Path) -> Path:
    """Make the folder ``path`` if it is missing, and raise for one that cannot be written."""
    folder = Path(path)
    probe = folder / f".{secrets.token_hex(8)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise NeedReplayError(
            f"The folder {str(folder)!r} cannot be written: {why}; choose another."
        ) from error
    return folder


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path``: all of it, or nothing at all."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def write_table(path: str | Path, table: Table) -> None:
    """Write ``table`` to ``path`` as CSV: floats so that they read back exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(zip(*(_cells(table[name]) for name in table.names), strict=True))
    write_text(path, text.getvalue())


def _cells(column: AnyArray) -> Iterator[str]:
    if column.dtype.kind == "b":
        return ("true" if value else "false" for value in column.tolist())
    if column.dtype.kind == "f":
        return map(repr, column.astype(np.float64).tolist())
    return map(str, column.tolist())


def read_table(path: str | Path) -> Table:
    """Read a table that ``write_table`` wrote.

    A column whose every cell is a whole number becomes int64, every cell a number float64, every
    cell true or false bool; any other column is text.
    """
    path = Path(path)
    check_file(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except OSError as error:
        raise NeedReplayError(f"{str(path)!r} cannot be read: {reason(error)}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise NeedReplayError(f"{str(path)!r} is not a CSV table: {error}.") from error
    if not rows:
        raise NeedReplayError(f"{str(path)!r} is empty: a table begins with its column names.")
    names, cells = rows[0], rows[1:]
    if len(set(names)) < len(names):
        raise NeedReplayError(f"{str(path)!r} has two columns of one name: {', '.join(names)}.")
    for number, row in enumerate(cells, start=2):
        if len(row) != len(names):
            raise NeedReplayError(
                f"Row {number} of {str(path)!r} has {len(row)} cells instead of {len(names)}."
            )
    return Table({name: _parsed([row[i] for row in cells]) for i, name in enumerate(names)})


def _parsed(cells: list[str]) -> AnyArray:
    if cells and set(cells) <= {"true", "false"}:
        return np.array([cell == "true" for cell in cells])
    for kind in (int, float):
        try:
            numbers = [kind(cell) for cell in cells]
            return np.array(numbers, dtype=np.int64 if kind is int else np.float64)
        except (ValueError, OverflowError):
            continue
    return np.array(cells, dtype=np.str_)


def write_json(path: str | Path, value: object) -> None:
    """Write ``value`` to ``path`` as JSON; dataclasses, arrays and paths become plain values.

    JSON has no infinite or missing numbers: they are written as the text "inf", "-inf", "nan".
    """
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: object) -> object:
    """What ``read_json`` gives after ``write_json``."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise NeedReplayError(f"{value!r} cannot be written as JSON.")


def read_json(path: str | Path) -> Any:
    """Read a JSON file, and explain what is wrong with a damaged one."""
    path = Path(path)
    check_file(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NeedReplayError(f"{str(path)!r} cannot be read: {reason(error)}.") from error
    except (ValueError, RecursionError) as error:
        raise NeedReplayError(f"{str(path)!r} is not JSON: {error}.") from error


def check_file(path: Path) -> None:
    """Raise for a pipe, a device or a folder where a file is expected: reading might never end."""
    try:
        special = path.exists() and not path.is_file()
    except ValueError:
        special = True
    if special:
        raise NeedReplayError(f"{str(path)!r} is not a file.")
