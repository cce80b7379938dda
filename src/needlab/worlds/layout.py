"""Mazes drawn as text: ``#`` wall, ``S`` start, ``G`` goal, ``.`` or a space free.

Every character is one cell. A text that is not a maze is refused with a message that shows the
line. ``parse_layout`` explains how margins and blank lines are read.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError, counted
from needreplay._core.types import BoolArray

Cell: TypeAlias = tuple[int, int]
"""(row, column), both from 0, from the top left."""

WALL, START, GOAL, FREE = "#", "S", "G", "."
_CHARACTERS = frozenset(WALL + START + GOAL + FREE + " ")
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
_SHOWN_WIDTH = 72


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
        k = check_number("resolution", resolution, int, AT_LEAST_ONE)
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
    board = _board_of(text, source)
    _refuse_unknown_characters(board)
    _refuse_ragged_rows(board)
    starts, goals = board.cells(START), board.cells(GOAL)
    if not starts:
        raise NeedReplayError(f"{source} has no start: mark one cell with '{START}'.")
    if len(starts) > 1:
        raise board.refusal(
            f"{source} has {len(starts)} starts, and a maze has one. The first is at "
            f"{board.place(starts[0])}, the second at {board.place(starts[1])}",
            starts[1],
        )
    if not goals:
        raise NeedReplayError(f"{source} has no goal: mark at least one cell with '{GOAL}'.")
    layout = Layout(
        rows=len(board.rows),
        cols=len(board.rows[0]),
        walls=frozenset(board.cells(WALL)),
        start=starts[0],
        goals=tuple(goals),
        source=source,
    )
    if _reachable(layout).isdisjoint(goals):
        found = "the goal cannot" if len(goals) == 1 else "no goal can"
        raise board.refusal(
            f"In {source}, {found} be reached from the start at {board.place(starts[0])}: walls "
            f"are in the way. A goal is at {board.place(goals[0])}",
            goals[0],
        )
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


class _Board(NamedTuple):
    """The rows of a maze, and where they stand in the text as its author sees it."""

    source: str
    rows: list[str]
    line: int
    """of the first row"""
    indent: int = 0

    def cells(self, character: str) -> list[Cell]:
        """Where ``character`` is."""
        return [
            (i, k) for i, row in enumerate(self.rows) for k, c in enumerate(row) if c == character
        ]

    def place(self, cell: Cell) -> str:
        return f"line {self.line + cell[0]}, column {self.indent + cell[1] + 1}"

    def refusal(self, message: str, cell: Cell) -> NeedReplayError:
        """The error that shows the row of ``cell`` with a caret below it; long rows are cut."""
        row, col = cell
        first = max(0, col - _SHOWN_WIDTH // 2)
        end, text = first + _SHOWN_WIDTH, self.rows[row].replace("\t", "→")
        before, after = "…" if first else "", "…" if end < len(text) else ""
        label = f"{self.line + row:>6} | {before}"
        caret = " " * (len(label) + col - first) + "^"
        return NeedReplayError(f"{message}:\n{label}{text[first:end]}{after}\n{caret}")


def _board_of(text: str, source: str) -> _Board:
    """The rows of ``text`` without empty lines around them and without their indentation."""
    if not text.strip():
        raise NeedReplayError(
            f"{source} is empty: a maze needs at least a start '{START}' and a goal '{GOAL}'."
        )
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = next(i for i, line in enumerate(lines) if line)
    while not lines[-1]:
        lines.pop()
    *rows, closing = lines[first:]
    indent = len(closing)
    if rows and not closing.strip(" ") and all(len(row) > indent for row in rows):
        board = _Board(source, rows, first + 1)
        for i, row in enumerate(rows):
            if not row.startswith(closing):
                raise board.refusal(
                    f"{source} ends in a line of {indent} spaces, which is read as the indentation "
                    f"of the block, but line {first + 1 + i} is not indented so far. Indent all "
                    f"rows alike, or write free cells as '{FREE}'",
                    (i, 0),
                )
        return _Board(source, [row[indent:] for row in rows], first + 1, indent)
    board = _Board(source, lines[first:], first + 1)
    if margin := min(len(row) - len(row.lstrip(" ")) for row in board.rows):
        raise board.refusal(
            f"Every row of {source} begins with {counted(margin, 'space')}, which could be free "
            f"cells or an indentation. Write free cells as '{FREE}', or remove the indentation "
            "(textwrap.dedent does)",
            (0, 0),
        )
    return board


def _refuse_unknown_characters(board: _Board) -> None:
    for i, row in enumerate(board.rows):
        for k, character in enumerate(row):
            if character not in _CHARACTERS:
                name = "a tab" if character == "\t" else repr(character)
                raise board.refusal(
                    f"{board.source} has an unknown character, {name}, at {board.place((i, k))}. A "
                    f"maze is made of '{WALL}' wall, '{START}' start, '{GOAL}' goal, and '{FREE}' "
                    "or a space for a free cell",
                    (i, k),
                )


def _refuse_ragged_rows(board: _Board) -> None:
    usual = Counter(map(len, board.rows)).most_common(1)[0][0]
    for i, row in enumerate(board.rows):
        if len(row) != usual:
            raise board.refusal(
                f"{board.source} is ragged: line {board.line + i} has {len(row)} cells where the "
                f"maze is {usual} wide. Rows must be equally long, trailing spaces included (an "
                f"editor may remove them: '{FREE}' is safer)",
                (i, min(len(row), usual)),
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
