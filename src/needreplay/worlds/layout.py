"""Mazes drawn as text: ``#`` wall, ``S`` start, ``G`` goal, ``.`` or a space free.

Every character is one cell. A text that is not a maze is refused with a message that shows the
line. ``parse_layout`` explains how margins and blank lines are read.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import BoolArray

Cell: TypeAlias = tuple[int, int]
"""(row, column), both from 0, from the top left."""

WALL, START, GOAL, FREE = "#", "S", "G", "."
_CHARACTERS = frozenset(WALL + START + GOAL + FREE + " ")
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
_SHOWN_WIDTH = 72
_SHOWN_LINES = 12


@dataclass(frozen=True)
class Layout:
    """A rectangular maze: which cells are walls, where it starts and where it ends.

    ``str(layout)`` draws it (free cells as ``.``), and ``parse_layout`` reads that back.
    """

    rows: int
    cols: int
    walls: frozenset[Cell]
    start: Cell
    goals: tuple[Cell, ...]
    """In reading order."""
    source: str = field(default="layout", compare=False)
    """Where the layout came from, for messages; two equal mazes may have different sources."""

    def __str__(self) -> str:
        return "\n".join("".join(row) for row in self.characters())

    def characters(self) -> list[list[str]]:
        """One character per cell, row by row."""
        board = [[FREE] * self.cols for _ in range(self.rows)]
        for row, col in self.walls:
            board[row][col] = WALL
        for row, col in self.goals:
            board[row][col] = GOAL
        board[self.start[0]][self.start[1]] = START
        return board

    def state(self, cell: Cell) -> int:
        """The number of a cell, row-major: ``row * cols + col``."""
        row, col = cell
        return row * self.cols + col

    def cell(self, state: int) -> Cell:
        """The cell with this number: the inverse of ``state``."""
        return divmod(state, self.cols)

    def mask(self, cells: frozenset[Cell] | tuple[Cell, ...]) -> BoolArray:
        """A boolean board, true at ``cells``."""
        board = np.zeros((self.rows, self.cols), dtype=np.bool_)
        if cells:
            rows, cols = zip(*cells, strict=True)
            board[list(rows), list(cols)] = True
        return board

    def magnified(self, resolution: int) -> Layout:
        """The same maze with each cell cut into ``resolution`` x ``resolution`` cells.

        Walls and goals fill their block. There can be only one start, so it is the center of its
        block: row ``resolution // 2``, column ``resolution // 2`` of the block.
        """
        if isinstance(resolution, bool) or not isinstance(resolution, (int, np.integer)):
            raise NeedReplayError(
                f"resolution must be an integer, 1 or more: each cell of the maze becomes "
                f"resolution x resolution cells. It was {resolution!r}."
            )
        k = int(resolution)
        if k < 1:
            raise NeedReplayError(
                f"resolution must be 1 or more (1 leaves the maze as it is); it was {k}."
            )
        block = [(i, j) for i in range(k) for j in range(k)]
        return Layout(
            rows=self.rows * k,
            cols=self.cols * k,
            walls=frozenset((r * k + i, c * k + j) for r, c in self.walls for i, j in block),
            start=(self.start[0] * k + k // 2, self.start[1] * k + k // 2),
            goals=tuple(sorted((r * k + i, c * k + j) for r, c in self.goals for i, j in block)),
            source=self.source if k == 1 else f"{self.source} x {k}",
        )


def parse_layout(text: str, source: str = "layout") -> Layout:
    """Read a maze from text; what is not a maze is refused with the line that is wrong.

    Every character is a cell, spaces too, with two exceptions so that a block in triple quotes can
    be pasted as it is:

    - empty lines before and after the maze are ignored;
    - if the text ends in a line of fewer spaces than the maze is wide (where the closing quotes
      stood), that line is the block's indentation: it is ignored, and as many spaces are removed
      from the front of every row.

    If every row begins with a space and there is no such closing line, the spaces could be free
    cells or an indentation, and the text is refused; ``.`` is always a cell.
    Trailing spaces are cells: a row that lost or gained one is ragged, and refused.

    Args:
        text: the maze, one line per row.
        source: what to call it in messages.
    """
    lines = _numbered_rows(text, source)
    _refuse_unknown_characters(lines, source)
    _refuse_ragged_rows(lines, source)
    start = _only_start(lines, source)
    goals = tuple(_cells_of(GOAL, lines))
    if not goals:
        raise NeedReplayError(
            f"{source} has no goal: mark at least one cell with '{GOAL}'. It reads:\n"
            f"{_shown_all(lines)}"
        )
    layout = Layout(
        rows=len(lines),
        cols=len(lines[0].text),
        walls=frozenset(_cells_of(WALL, lines)),
        start=start,
        goals=goals,
        source=source,
    )
    _refuse_unreachable(layout, lines)
    return layout


def read_layout(path: str | Path) -> Layout:
    """Read a maze from a text file (UTF-8); see ``parse_layout`` for the format."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise NeedReplayError(f"The layout file {path} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise NeedReplayError(
            f"The layout file {path} is not a text file (its byte {error.start} is not UTF-8)."
        ) from error
    return parse_layout(text, source=str(path))


def to_layout(layout: str | Path | Layout) -> Layout:
    """A layout from a layout, its text, or the path of a file.

    A string is a maze's text if it has a line break or only characters of the format
    (``"S..G"``); otherwise it is a path. A ``Path`` is always a path.
    """
    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, Path):
        return read_layout(layout)
    if not isinstance(layout, str):
        raise NeedReplayError(
            "layout must be a Layout, a maze's text or the path of a file; "
            f"it was of type {type(layout).__name__}."
        )
    is_text = "\n" in layout or _CHARACTERS.issuperset(layout)
    return parse_layout(layout) if is_text else read_layout(layout)


@dataclass(frozen=True)
class _Line:
    """One row of the maze, and its place in the text as the author sees it."""

    number: int
    text: str
    indent: int = 0

    def place(self, col: int) -> str:
        return f"line {self.number}, column {self.indent + col + 1}"

    def shown(self, col: int | None = None) -> str:
        """The line with its number, and a caret below ``col``; long lines are cut around it."""
        first = 0 if col is None else max(0, col - _SHOWN_WIDTH // 2)
        piece = self.text[first : first + _SHOWN_WIDTH].replace("\t", "→")
        before = "…" if first else ""
        after = "…" if first + _SHOWN_WIDTH < len(self.text) else ""
        label = f"{self.number:>6} | "
        shown = f"{label}{before}{piece}{after}"
        if col is None:
            return shown
        return f"{shown}\n{' ' * (len(label) + len(before) + col - first)}^"


def _numbered_rows(text: str, source: str) -> list[_Line]:
    raw = [line.removesuffix("\r") for line in text.split("\n")]
    lines = [_Line(number, line) for number, line in enumerate(raw, start=1)]
    if not text.strip():
        raise NeedReplayError(
            f"{source} is empty: a maze needs at least a start '{START}' and a goal '{GOAL}'."
        )
    while not lines[0].text:
        lines.pop(0)
    while not lines[-1].text:
        lines.pop()
    return _without_indentation(lines, source)


def _without_indentation(lines: list[_Line], source: str) -> list[_Line]:
    *rows, last = lines
    closing = last.text
    if rows and not closing.strip(" ") and all(len(row.text) > len(closing) for row in rows):
        unindented = next((row for row in rows if not row.text.startswith(closing)), None)
        if unindented is not None:
            raise NeedReplayError(
                f"{source} ends in a line of {len(closing)} spaces, which is read as the "
                f"indentation of the block, but line {unindented.number} is not indented so far. "
                f"Indent all rows alike, or write free cells as '{FREE}':\n{unindented.shown()}"
            )
        return [_Line(row.number, row.text[len(closing) :], len(closing)) for row in rows]
    margin = min(len(line.text) - len(line.text.lstrip(" ")) for line in lines)
    if margin:
        raise NeedReplayError(
            f"Every row of {source} begins with {_spaces(margin)}, which could be free cells or an "
            f"indentation. Write free cells as '{FREE}', or remove the indentation "
            f"(textwrap.dedent does):\n{lines[0].shown(0)}"
        )
    return lines


def _spaces(count: int) -> str:
    return "a space" if count == 1 else f"{count} spaces"


def _refuse_unknown_characters(lines: list[_Line], source: str) -> None:
    for line in lines:
        for col, character in enumerate(line.text):
            if character not in _CHARACTERS:
                name = "a tab" if character == "\t" else repr(character)
                raise NeedReplayError(
                    f"{source} has an unknown character, {name}, at {line.place(col)}. A maze is "
                    f"made of '{WALL}' wall, '{START}' start, '{GOAL}' goal, and '{FREE}' or a "
                    f"space for a free cell:\n{line.shown(col)}"
                )


def _refuse_ragged_rows(lines: list[_Line], source: str) -> None:
    usual = Counter(len(line.text) for line in lines).most_common(1)[0][0]
    for line in lines:
        width = len(line.text)
        if width != usual:
            raise NeedReplayError(
                f"{source} is ragged: line {line.number} has {width} cells where the maze is "
                f"{usual} wide. Rows must be equally long, trailing spaces included (an editor may "
                f"remove them: '{FREE}' is safer):\n{line.shown(min(width, usual))}"
            )


def _only_start(lines: list[_Line], source: str) -> Cell:
    starts = list(_cells_of(START, lines))
    if not starts:
        raise NeedReplayError(
            f"{source} has no start: mark one cell with '{START}'. It reads:\n{_shown_all(lines)}"
        )
    if len(starts) > 1:
        (row, col), (other_row, other_col) = starts[:2]
        raise NeedReplayError(
            f"{source} has {len(starts)} starts, and a maze has one. The first is at "
            f"{lines[row].place(col)}, the second at {lines[other_row].place(other_col)}:\n"
            f"{lines[other_row].shown(other_col)}"
        )
    return starts[0]


def _refuse_unreachable(layout: Layout, lines: list[_Line]) -> None:
    reached = _reachable(layout)
    if reached.isdisjoint(layout.goals):
        row, col = layout.goals[0]
        start_row, start_col = layout.start
        subject = "the goal" if len(layout.goals) == 1 else "no goal"
        verb = "cannot" if len(layout.goals) == 1 else "can"
        raise NeedReplayError(
            f"In {layout.source}, {subject} {verb} be reached from the start at "
            f"{lines[start_row].place(start_col)}: walls are in the way. A goal is at "
            f"{lines[row].place(col)}:\n{lines[row].shown(col)}"
        )


def _reachable(layout: Layout) -> set[Cell]:
    reached = {layout.start}
    waiting = deque([layout.start])
    while waiting:
        row, col = waiting.popleft()
        for down, right in _MOVES:
            cell = (row + down, col + right)
            inside = 0 <= cell[0] < layout.rows and 0 <= cell[1] < layout.cols
            if inside and cell not in layout.walls and cell not in reached:
                reached.add(cell)
                waiting.append(cell)
    return reached


def _cells_of(character: str, lines: list[_Line]) -> list[Cell]:
    return [
        (row, col)
        for row, line in enumerate(lines)
        for col, found in enumerate(line.text)
        if found == character
    ]


def _shown_all(lines: list[_Line]) -> str:
    shown = [line.shown() for line in lines[:_SHOWN_LINES]]
    if len(lines) > _SHOWN_LINES:
        shown.append(f"       … and {len(lines) - _SHOWN_LINES} more lines")
    return "\n".join(shown)
