"""Environments of RatInABox as text mazes: a grid of cells over a continuous space.

RatInABox simulates movement and cells in continuous space. What can be drawn in cells becomes a
maze for every agent and command here; its own movement and neurons do not. RatInABox need not be
installed: an environment is read by its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray

_TINY = 1e-9


def maze_text(
    environment: Any,
    cell: float,
    *,
    starts: Sequence[Sequence[float]],
    goals: Mapping[str, Sequence[float]],
) -> str:
    """The environment as a maze, which ``tabular_world`` and every command read.

    A cell is free if its center is in the environment, and no inner wall runs through it. A wall
    between two cells takes the cell to its right or above, since a maze has no thin walls: with
    small cells it matters little. Rows are from the top, states are cells row by row from 0.

    Periodic environments have no edge and cannot be drawn.

    Args:
        environment: a ``ratinabox.Environment``, of one or two dimensions.
        cell: the size of a cell, in the environment's unit.
        starts: positions where episodes begin.
        goals: positions by capital letter.
    """
    free = _free_cells(environment, cell)
    marks = np.where(free, ".", "#").ravel()
    named = [*(("S", start) for start in starts), *goals.items()]
    for letter, position in named:
        state = int(states_of(environment, cell, [position])[0])
        if marks[state] != ".":
            why = "in a wall" if marks[state] == "#" else f"in the cell of {str(marks[state])!r}"
            raise NeedReplayError(
                f"{letter!r} at {tuple(position)} is {why}; move it, or take smaller cells."
            )
        marks[state] = letter
    return "\n".join("".join(row) for row in marks.reshape(free.shape)) + "\n"


def states_of(environment: Any, cell: float, positions: npt.ArrayLike) -> IntArray:
    """The cell of each position: the state of a maze of ``maze_text`` with the same ``cell``.

    Args:
        environment: a ``ratinabox.Environment``.
        cell: the size of a cell.
        positions: [position, dimension], such as ``agent.history["pos"]``.
    """
    low, size, shape = _grid(environment, cell)
    where = np.asarray(positions, np.float64).reshape(-1, len(low))
    inside = (where >= low - _TINY) & (where <= low + size + _TINY)
    if not np.all(inside):
        at = where[~inside.all(axis=1)][0].tolist()
        raise NeedReplayError(f"The position {at} is outside of the environment.")
    column, *row = np.minimum(np.floor((where - low) / cell + _TINY).astype(int).T,
                              np.array([shape[::-1]]).T[: len(low)] - 1)  # fmt: skip
    found: IntArray = column + (shape[0] - 1 - row[0]) * shape[1] if row else column
    return found


def _grid(environment: Any, cell: float) -> tuple[FloatArray, FloatArray, tuple[int, int]]:
    """Lower ends, sizes, and the number of rows and columns."""
    check_number("cell", cell, float, (0.0, float("inf")))
    if getattr(environment, "boundary_conditions", "solid") != "solid":
        raise NeedReplayError(
            "The environment is periodic; a maze has edges, so it cannot be drawn as text. Take "
            "boundary_conditions='solid', or write the moves as arrays (world_of_arrays)."
        )
    extent = np.asarray(environment.extent, np.float64)
    low, size = extent[::2], extent[1::2] - extent[::2]
    counts = size / cell if cell > 0.0 else np.full(len(size), np.inf)
    if np.any(counts > 1000.0) or np.any(np.abs(counts - np.round(counts)) > 1e-6):
        raise NeedReplayError(
            f"cell is {cell}; it must divide the size of the environment, "
            f"{' x '.join(f'{length:g}' for length in size)}, into at most 1,000 cells on a side."
        )
    columns, *rows = np.round(counts).astype(int).tolist()
    return low, size, (rows[0] if rows else 1, columns)


def _free_cells(environment: Any, cell: float) -> BoolArray:
    """[row, column], rows from the top."""
    low, _, (rows, columns) = _grid(environment, cell)
    free = np.ones((rows, columns), np.bool_)
    if len(low) == 1:
        return free
    walls = _inner_walls(environment)
    for row, column in product(range(rows), range(columns)):
        corner = low + cell * np.array([column, rows - 1 - row])
        center = corner + 0.5 * cell
        free[row, column] = bool(environment.check_if_position_is_in_environment(center)) and not (
            any(_crosses(wall, corner, cell) for wall in walls)
        )
    return free


def _inner_walls(environment: Any) -> list[AnyArray]:
    """The walls that are no edge of the boundary or of a hole: what these enclose is known."""
    edges = set()
    for polygon in (environment.boundary, *environment.holes):
        corners = [tuple(map(float, corner)) for corner in polygon]
        edges |= {frozenset(edge) for edge in zip(corners, corners[1:] + corners[:1], strict=True)}
    walls = np.asarray(environment.walls, np.float64).reshape(-1, 2, 2)
    return [wall for wall in walls if frozenset(map(tuple, wall.tolist())) not in edges]


def _crosses(wall: AnyArray, corner: AnyArray, cell: float) -> bool:
    """Whether more than a point of the wall is in the cell, with its left and lower edges."""
    begin, way = wall[0], wall[1] - wall[0]
    first, last = 0.0, 1.0
    for at, step, low in zip(begin, way, corner, strict=True):
        if abs(step) < _TINY:
            if not low - _TINY <= at < low + cell - _TINY:
                return False
            continue
        enters, leaves = sorted(((low - at) / step, (low + cell - at) / step))
        first, last = max(first, enters), min(last, leaves)
    return bool(last - first > _TINY)
