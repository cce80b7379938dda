"""Boards as RGB arrays, painted with numpy alone."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

RGB: TypeAlias = tuple[int, int, int]
Picture: TypeAlias = npt.NDArray[np.uint8]

FREE_COLOR: RGB = (250, 248, 243)
WALL_COLOR: RGB = (55, 62, 74)
START_COLOR: RGB = (168, 200, 232)
GOAL_COLOR: RGB = (104, 176, 120)
AGENT_COLOR: RGB = (222, 96, 40)

_LONGER_SIDE = 640
_LARGEST_CELL, _SMALLEST_CELL = 48, 4
_SMALLEST_WITH_DETAIL = 8
_GRID_SHADE = 0.9
_AGENT_RADIUS = 0.32
_SUBPIXELS = 4


def cell_pixels(rows: int, cols: int) -> int:
    """How wide to draw a cell so that the longer side has about 640 pixels: from 4 to 48."""
    return max(_SMALLEST_CELL, min(_LARGEST_CELL, _LONGER_SIDE // max(rows, cols)))


def paint_board(colors: Picture, agent: tuple[int, int]) -> Picture:
    """A picture of a board: one square per entry of ``colors`` (rows, cols, 3), and the agent.

    The agent is a disc with a soft edge; where cells are too small for one, and for the thin lines
    between cells, its cell is filled and there are no lines.
    """
    rows, cols, _ = colors.shape
    size = cell_pixels(rows, cols)
    picture = colors.repeat(size, axis=0).repeat(size, axis=1)
    top, left = agent[0] * size, agent[1] * size
    square = picture[top : top + size, left : left + size]
    if size < _SMALLEST_WITH_DETAIL:
        square[...] = AGENT_COLOR
        return picture
    cover = _disc(size)[..., np.newaxis]
    square[...] = np.rint(square * (1.0 - cover) + np.array(AGENT_COLOR) * cover)
    for lines in (picture[::size], picture[:, ::size]):
        lines[...] = np.rint(lines * _GRID_SHADE)
    return picture


def _disc(size: int) -> npt.NDArray[np.float64]:
    """How much of each pixel of a ``size`` x ``size`` square a centered disc covers, 0 to 1."""
    fine = (np.arange(size * _SUBPIXELS) + 0.5) / (size * _SUBPIXELS) - 0.5
    inside = fine[:, np.newaxis] ** 2 + fine**2 <= _AGENT_RADIUS**2
    cover: npt.NDArray[np.float64] = inside.reshape(size, _SUBPIXELS, size, _SUBPIXELS).mean((1, 3))
    return cover
