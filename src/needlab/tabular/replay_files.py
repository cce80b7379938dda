"""Replay as CSV: tables of backups, and decoded states. What a file says is never changed.

A table of backups has the columns ``pause``, ``state``, ``action`` and any others of
``REPLAY_COLUMNS``; a table of decoded states ``event``, ``time``, ``state``. Further columns are
kept. Columns may be in any order. An empty cell is a number that is not known, where the column may
hold one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from needlab.core.tables import Table, read_table, write_table
from needlab.tabular.replay_events import DIRECTIONS, REPLAY_COLUMNS, WHENS, pause_borders
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, IntArray

FIRST_ROW = 2
"""Of the cells in a file, as a spreadsheet counts."""
RUN_COLUMNS = ("preset", "agent", "trial")
"""What tells the runs in one table apart; their rows are counted in each for itself."""
BACKUPS, DECODED = ("pause", "state", "action"), ("event", "time", "state")
_LARGEST_INT, _LARGEST_FLOAT = 2**31 - 1, 3e38


class _Column(NamedTuple):
    """What the cells of a column may be."""

    kind: type = int
    low: float = 0
    empty: float | str | None = None
    """the value of an empty cell, and of a column that is not there; None: neither is allowed"""
    words: tuple[str, ...] = ()


_LABELS = {"direction": _Column(str, words=DIRECTIONS), "event": _Column(low=-1, empty=-1)}
_COLUMNS: dict[tuple[str, ...], Mapping[str, _Column]] = {
    BACKUPS: {
        "episode": _Column(empty=0),
        "pause": _Column(),
        "order": _Column(empty=-1, low=-1),
        "when": _Column(str, empty=WHENS[-1], words=WHENS),
        "agent_state": _Column(low=-1, empty=-1),
        "reward": _Column(float, empty=np.nan),
        "state": _Column(),
        "action": _Column(low=-1, empty=-1),
        "gain": _Column(float, empty=np.nan),
        "need": _Column(float, empty=np.nan),
        "chain_length": _Column(low=1, empty=1),
        **_LABELS,
    },
    DECODED: {
        "event": _Column(),
        "time": _Column(float),
        "state": _Column(low=-1, empty=-1),
        "direction": _Column(str, empty=DIRECTIONS[0], words=DIRECTIONS),
    },
}


def write_replay(path: str | Path, table: Table) -> None:
    """Write a replay table (``replay_table``) as CSV."""
    missing = [column for column in REPLAY_COLUMNS if column not in table.names]
    if missing:
        raise NeedReplayError(
            f"The table is no replay table: it lacks {', '.join(missing)}; the columns are "
            f"{', '.join(REPLAY_COLUMNS)}."
        )
    write_table(path, table)


def read_replay(path: str | Path) -> Table:
    """Read a table of backups, or of decoded states, and check every cell.

    Columns that a table of backups lacks are added with what says "unknown", but not ``direction``
    and ``event``: who has them both has labels, and who has neither can compute them.
    """
    name, table = str(path), read_table(path)
    kind = next((own for own in (BACKUPS, DECODED) if set(own) <= set(table.names)), None)
    if kind is None:
        raise NeedReplayError(
            f"{name} is no replay table: it needs the columns {', '.join(BACKUPS)} (backups) or "
            f"{', '.join(DECODED)} (decoded states); it has {', '.join(table.names)[:200]}."
        )
    columns = {column: table[column] for column in table.names}
    for column, rule in _COLUMNS[kind].items():
        if column in columns:
            columns[column] = _cells(f"Column {column!r} of {name}", columns[column], rule)
        elif column not in _LABELS:
            columns[column] = np.full(len(table), rule.empty)
    if kind == BACKUPS and np.all(columns["order"] < 0):
        columns["order"] = _places(columns)
    checked = Table(columns)
    for run, own in runs_of(checked):
        check = _check_backups if kind == BACKUPS else _check_decoded
        check(f"{name}, run {run!r}" if run else name, own)
    return checked


def runs_of(table: Table) -> list[tuple[str, Table]]:
    """The runs in one table, by what tells them apart of preset, agent and trial."""
    columns = [table[column].astype(np.str_) for column in RUN_COLUMNS if column in table.names]
    columns = [column for column in columns if np.unique(column).size > 1]
    runs = np.array([", ".join(key) for key in zip(*columns, strict=True)], np.str_)
    if not runs.size:
        return [("", table)]
    return [
        (run, Table({name: table[name][runs == run] for name in table.names}))
        for run in dict.fromkeys(runs.tolist())
    ]


def _places(columns: Mapping[str, AnyArray]) -> IntArray:
    """[row]: its place among the rows of its pause."""
    rows = np.arange(len(columns["pause"]))
    begins = rows == 0
    for name in ("pause", *RUN_COLUMNS):
        if name in columns:
            begins[1:] |= columns[name][1:] != columns[name][:-1]
    places: IntArray = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return places


def is_decoded(table: Table) -> bool:
    """Whether a table holds decoded states rather than backups."""
    return "action" not in table.names


def _cells(name: str, cells: AnyArray, rule: _Column) -> AnyArray:
    if rule.kind is str:
        return _each(name, cells, rule, _word(rule), f"one of: {', '.join(rule.words)}")
    whole = rule.kind is int
    allowed = f"a whole number from {rule.low:.0f} to {_LARGEST_INT}" if whole else "a number"
    found = _each(name, cells, rule, _whole(rule) if whole else _real, allowed)
    return found.astype(np.int64 if whole else np.float64)


def _each(
    name: str, cells: AnyArray, rule: _Column, parse: Callable[[object], object], allowed: str
) -> AnyArray:
    """Parse every cell; the error names the first that is wrong."""
    found: list[Any] = []
    for row, cell in enumerate(cells.tolist(), FIRST_ROW):
        empty = cell == "" or cell != cell  # NaN
        if empty and rule.empty is not None:
            found.append(rule.empty)
            continue
        try:
            found.append(parse(cell))
        except (ValueError, OverflowError) as error:
            raise NeedReplayError(
                f"{name} has {cell!r} in row {row}; it must be {allowed}"
                f"{'' if rule.empty is None else ', or empty'}."
            ) from error
    return np.array(found, np.str_ if rule.kind is str else rule.kind)


def _word(rule: _Column) -> Callable[[object], str]:
    def parse(cell: object) -> str:
        if cell not in rule.words:
            raise ValueError
        return str(cell)

    return parse


def _whole(rule: _Column) -> Callable[[object], int]:
    def parse(cell: object) -> int:
        number = _real(cell)
        if number != int(number) or not rule.low <= number <= _LARGEST_INT:
            raise ValueError
        return int(number)

    return parse


def _real(cell: object) -> float:
    if isinstance(cell, bool):
        raise ValueError
    number = float(cell)  # type: ignore[arg-type]
    if not abs(number) <= _LARGEST_FLOAT:
        raise ValueError
    return number


def _check_backups(where: str, table: Table) -> None:
    """Raise unless pauses, their order and their labels say one thing."""
    borders = pause_borders(table["pause"], where=f"{where}: ", first_row=FIRST_ROW)
    labeled = [column for column in _LABELS if column in table.names]
    if len(labeled) == 1:
        raise NeedReplayError(
            f"{where} has the column {labeled[0]!r} without the other of 'direction' and 'event'; "
            "give both, or neither to have them computed."
        )
    order, episode = table["order"], table["episode"]
    inside = _inside(borders, len(table))
    moved = np.diff(episode, prepend=episode[:1])
    for wrong, why in (
        (inside & (moved != 0), "is in another episode than the row before, in the same pause"),
        (moved < 0, "goes back to an earlier episode; sort the rows by episode"),
        ((order < 0) != (order[:1] < 0), "has an order, or none, unlike the first row"),
        (
            inside & (order >= 0) & (np.diff(order, prepend=0) <= 0),
            "has an order that does not rise within its pause; sort the rows by pause and order",
        ),
    ):
        _reject_first(where, wrong, why)
    if labeled:
        _check_labels(where, table)


def _check_labels(where: str, table: Table) -> None:
    """Every event is in one pause and has one direction; a direction is that of an event."""
    own = table["event"] >= 0
    why = "has a direction without an event; number the events from 0, or write none"
    _reject_first(where, ~own & (table["direction"] != DIRECTIONS[0]), why)
    events, first, place = np.unique(table["event"][own], return_index=True, return_inverse=True)
    for column in ("pause", "direction"):
        cells = table[column][own]
        wrong = cells != cells[first][place] if events.size else np.zeros(0, np.bool_)
        if np.any(wrong):
            raise NeedReplayError(
                f"{where}: event {table['event'][own][wrong][0]} has more than one {column}; an "
                "event is in one pause and has one direction."
            )


def _check_decoded(where: str, table: Table) -> None:
    """Raise unless events stand together, with rising times and one direction each."""
    borders = pause_borders(table["event"], "event", f"{where}: ", FIRST_ROW)
    inside = _inside(borders, len(table))
    falls = inside & (np.diff(table["time"], prepend=0.0) <= 0.0)
    why = "is not later than the row before, in the same event; sort the rows by event and time"
    _reject_first(where, falls, why)
    if "direction" in table.names and len(table):
        wrong = table["direction"] != table["direction"][_starts(borders)]
        _reject_first(where, wrong, "has another direction than the first row of its event")


def _inside(borders: list[int], count: int) -> BoolArray:
    """[row]: whether the row before belongs to the same pause."""
    inside = np.ones(count, np.bool_)
    inside[borders[:-1]] = False
    return inside


def _starts(borders: list[int]) -> IntArray:
    """[row]: the first row of its pause."""
    return np.repeat(np.array(borders[:-1], np.int64), np.diff(borders))


def _reject_first(where: str, wrong: BoolArray, why: str) -> None:
    if np.any(wrong):
        raise NeedReplayError(f"{where}: row {int(np.flatnonzero(wrong)[0]) + FIRST_ROW} {why}.")
