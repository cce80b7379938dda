"""Features of states and observations, for linear agents: one-hot, tile, coarse and radial codes.

Every feature vector has length 1, so an update of step size α moves the value of its own state by
α δ, as in a table, and need is the inner product of successor features and features. What else it
moves, and how far, is what the codes differ in: another state's value moves by φ(s) · φ(s') times
as much.

A board is measured in cells; a Box is cut into cells first (``Grid``). Widths are in cells, too.

>>> from needlab.worlds import tabular_world
>>> world = tabular_world("dyna-maze")
>>> encode_world("tile", world, width=2, tilings=4).n_features
96
>>> feature_matrix(encode_world("one-hot", world), world.n_states).shape
(54, 54)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from needlab.worlds import TabularWorld
from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import AnyArray, FloatArray, IntArray

Code = Literal["one-hot", "tile", "coarse", "radial"]
"""Codes of boards and boxes by name."""
STATE: tuple[type, tuple[int, ...]] = (np.int64, ())
SMALLEST = 1e-9
"""A feature below this share of the largest is left out."""


class Encoding(Protocol):
    """Turns points into feature vectors of length 1."""

    n_features: int
    obs: tuple[type, tuple[int, ...]]
    """the dtype and the shape of a point"""

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """The features of ``points`` that are not 0: their numbers and values, [point, place].

        Rows with fewer such features end in number 0 with value 0.
        """
        ...


def feature_matrix(encoding: Encoding, points: AnyArray | int) -> FloatArray:
    """[point, feature]: the features of ``points``, or of the states 0 to ``points`` - 1."""
    points = np.arange(points) if isinstance(points, int) else np.asarray(points)
    numbers, values = encoding.active(points)
    matrix = np.zeros((len(numbers), encoding.n_features))
    np.add.at(matrix, (np.arange(len(numbers))[:, np.newaxis], numbers), values)
    return matrix


class OneHot:
    """One feature for each state: a table."""

    obs = STATE

    def __init__(self, n_states: int) -> None:
        self.n_features = check_number("n_states", n_states, int, AT_LEAST_ONE)

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """Numbers and values of the features that are not 0; points are states."""
        states = np.asarray(points)
        inside = states.dtype.kind in "iu" and np.all((states >= 0) & (states < self.n_features))
        if not inside:
            raise NeedReplayError(
                f"States must be whole numbers from 0 to {self.n_features - 1}; they were "
                f"{states.dtype} from {states.min()} to {states.max()}."
            )
        numbers = states.astype(np.int64).reshape(-1, 1)
        return numbers, np.ones(numbers.shape)


class FeatureTable:
    """The rows of a matrix, [state, feature], as features of states, each scaled to length 1."""

    obs = STATE

    def __init__(self, rows: npt.ArrayLike) -> None:
        matrix = np.array(rows, np.float64)
        if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
            raise NeedReplayError(
                "rows must be a matrix of finite numbers, [state, feature]; its shape was "
                f"{matrix.shape}."
            )
        self.n_features = matrix.shape[1]
        self._numbers, self._values = _sparse(matrix)
        self._states = OneHot(len(matrix))

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """Numbers and values of the features that are not 0; points are states."""
        states = self._states.active(points)[0][:, 0]
        return self._numbers[states], self._values[states]


class Grid:
    """Cuts the box from ``low`` to ``high`` into cells and measures points in cells.

    >>> Grid([-1.2, -0.07], [0.6, 0.07], cells=8).measured([[-1.2, 0.07]]).tolist()
    [[0.0, 8.0]]

    Args:
        low: the smallest value of each dimension; points below count as on the border.
        high: the largest.
        cells: how many cells, for all dimensions or for each.
    """

    def __init__(
        self, low: Sequence[float] | AnyArray, high: Sequence[float] | AnyArray,
        cells: int | Sequence[int],
    ) -> None:  # fmt: skip
        self.low, self.high = (np.array(end, np.float64).reshape(-1) for end in (low, high))
        if len(self.low) != len(self.high) or not np.all(self.high > self.low):
            raise NeedReplayError(
                f"high must be above low in each dimension; low is {self.low.tolist()} and high "
                f"{self.high.tolist()}."
            )
        if not np.isfinite([self.low, self.high]).all():
            raise NeedReplayError(
                f"low is {self.low.tolist()} and high {self.high.tolist()}; a grid needs finite "
                "ends. Pass low and high that the observations rarely leave."
            )
        each = [cells] * len(self.low) if isinstance(cells, int | np.integer) else list(cells)
        if len(each) != len(self.low):
            raise NeedReplayError(
                f"cells is {cells}; it must be one number, or {len(self.low)}, one a dimension."
            )
        self.cells = tuple(check_number("cells", n, int, AT_LEAST_ONE) for n in each)

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.cells)

    @property
    def centers(self) -> FloatArray:
        """[cell, dimension]: the middle of every cell, in cells."""
        found = np.indices(self.cells).reshape(len(self.cells), -1).T + 0.5
        return np.ascontiguousarray(found)

    def measured(self, points: Sequence[Sequence[float]] | AnyArray) -> FloatArray:
        """``points``, [point, dimension], in cells from ``low``."""
        found = np.asarray(points, np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.low):
            raise NeedReplayError(
                f"points must have the shape (n, {len(self.low)}); it was {found.shape}."
            )
        if not np.isfinite(found).all():
            raise NeedReplayError("An observation is not finite; features need finite numbers.")
        inside = np.minimum(np.maximum(found, self.low), self.high)
        measured: FloatArray = (inside - self.low) * (self.cells / (self.high - self.low))
        return measured


class _OfGrid:
    """Features of points of a box."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.n_features = grid.n_cells
        self.obs: tuple[type, tuple[int, ...]] = (np.float64, (len(grid.cells),))


class CellCodes(_OfGrid):
    """One feature for each cell of a grid."""

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """Numbers and values of the features that are not 0."""
        places = self.grid.measured(points).astype(np.int64)
        places = np.minimum(places, np.array(self.grid.cells) - 1)
        numbers = np.ravel_multi_index(tuple(places.T), self.grid.cells)
        return numbers.astype(np.int64).reshape(-1, 1), np.ones((len(numbers), 1))


class TileCodes(_OfGrid):
    """Tile coding: several grids of tiles, each displaced; one feature a tile.

    Tiling i is displaced by i (1, 3, 5, ...) / tilings of a tile, dimension by dimension, which
    spreads its borders more evenly than equal shifts do (Sutton & Barto 2018, section 9.5.4).

    Args:
        grid: what is covered.
        width: of a tile, in cells.
        tilings: how many.
    """

    def __init__(self, grid: Grid, width: float = 1.0, tilings: int = 8) -> None:
        super().__init__(grid)
        self.width = _positive("width", width)
        self.tilings = check_number("tilings", tilings, int, AT_LEAST_ONE)
        shape = [math.ceil(n / self.width) + 1 for n in grid.cells]
        odd = 2 * np.arange(len(shape)) + 1
        self._offsets = np.arange(tilings)[:, np.newaxis] * odd % tilings / tilings
        self._strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
        self._first = np.arange(tilings) * math.prod(shape)
        self.n_features = tilings * math.prod(shape)

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """Numbers and values of the features that are not 0: one tile of each tiling."""
        places = self.grid.measured(points)[:, np.newaxis] / self.width + self._offsets
        numbers = places.astype(np.int64) @ self._strides + self._first
        return numbers, np.full(numbers.shape, 1.0 / math.sqrt(self.tilings))


class _Centered(_OfGrid, ABC):
    """Features that depend on the distances to the centers of all cells."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid)
        self.centers = grid.centers

    def active(self, points: AnyArray) -> tuple[IntArray, FloatArray]:
        """Numbers and values of the features that are not 0."""
        apart = self.grid.measured(points)[:, np.newaxis] - self.centers
        return _sparse(self._value((apart * apart).sum(axis=2)))

    @abstractmethod
    def _value(self, squares: FloatArray) -> FloatArray:
        """The features at these squared distances."""


class CoarseCodes(_Centered):
    """Coarse coding: each cell's center has a disc, and a feature is on where a point is in it.

    Args:
        grid: what is covered.
        radius: of a disc, in cells, large enough that every point is in one.
    """

    def __init__(self, grid: Grid, radius: float = 2.0) -> None:
        super().__init__(grid)
        self.radius = _positive("radius", radius)
        corner = math.sqrt(len(grid.cells)) / 2.0
        if self.radius < corner:
            raise NeedReplayError(
                f"radius is {radius}; it must be at least {corner:.3g}, half the diagonal of a "
                "cell, so that every point is in a disc."
            )

    def _value(self, squares: FloatArray) -> FloatArray:
        return (squares <= self.radius**2 * (1.0 + 1e-12)).astype(np.float64)


class RadialCodes(_Centered):
    """Radial features: exp(-d² / (2 width²)) of the distance d to each cell's center, scaled.

    Args:
        grid: what is covered.
        width: the standard deviation, in cells: how far an update spreads.
    """

    def __init__(self, grid: Grid, width: float = 1.0) -> None:
        super().__init__(grid)
        self.width = _positive("width", width)

    def _value(self, squares: FloatArray) -> FloatArray:
        nearest = squares.min(axis=1, keepdims=True)
        values: FloatArray = np.exp((nearest - squares) / (2.0 * self.width**2))
        return values


def _positive(name: str, value: float) -> float:
    found = check_number(name, value, float, None)
    if not 0.0 < found < math.inf:
        raise NeedReplayError(f"{name} is {value}; it must be a finite number above 0.")
    return found


def _sparse(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """The numbers and values of each row's entries that are not 0, scaled to length 1."""
    size = np.abs(matrix)
    kept = size > SMALLEST * size.max(axis=1, keepdims=True)
    most = max(1, int(kept.sum(axis=1).max()))
    numbers = np.argsort(~kept, axis=1, kind="stable")[:, :most]
    values = np.where(
        np.take_along_axis(kept, numbers, 1), np.take_along_axis(matrix, numbers, 1), 0.0
    )
    length = np.sqrt((values * values).sum(axis=1, keepdims=True))
    values = np.divide(values, length, out=np.zeros_like(values), where=length > 0.0)
    return np.where(values != 0.0, numbers, 0), values


# Worlds ------------------------------------------------------------------------------------------


def board_grid(world: TabularWorld) -> tuple[Grid, FloatArray]:
    """The grid of a board, one cell a state, and the coordinates of all states' middles."""
    if not world.columns or world.n_states % world.columns:
        raise NeedReplayError(
            "This world has no board, so its states have no coordinates; use one-hot features, or "
            "FeatureTable with features of your own."
        )
    shape = world.n_states // world.columns, world.columns
    grid = Grid((0.0, 0.0), shape, shape)
    return grid, grid.centers


def encode_world(
    code: Code, world: TabularWorld, *, width: float = 1.0, tilings: int = 8
) -> Encoding:
    """Features of the states of a tabular world, by the coordinates of their cells.

    Args:
        code: one-hot; tile, coarse or radial for boards.
        world: any for one-hot.
        width: in cells: of a tile, the radius of a disc, or the standard deviation.
        tilings: of tile codes.
    """
    if code == "one-hot":
        return OneHot(world.n_states)
    grid, middles = board_grid(world)
    return FeatureTable(feature_matrix(_coded(code, grid, width, tilings), middles))


def encode_space(
    code: Code,
    space: spaces.Space[object],
    *,
    cells: int | Sequence[int] = 8,
    width: float = 1.0,
    tilings: int = 8,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
) -> Encoding:
    """Features of a Gymnasium observation space: Discrete (one-hot), or a Box with one axis.

    >>> import gymnasium
    >>> encode_space("tile", gymnasium.make("MountainCar-v0").observation_space).n_features
    648

    Args:
        code: one-hot is one feature for each cell of a Box.
        space: the observation space.
        cells: how many cells a Box is cut into, for all dimensions or for each.
        width: in cells: of a tile, the radius of a disc, or the standard deviation.
        tilings: of tile codes.
        low: the smallest value of each dimension of a Box; the space's own if not given.
        high: the largest.
    """
    if isinstance(space, spaces.Discrete):
        if code != "one-hot":
            raise NeedReplayError(
                f"code is {code!r}, but {space} has no coordinates; use 'one-hot', or a world "
                "with a board (encode_world)."
            )
        return OneHot(int(space.n))
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise NeedReplayError(
            f"The observation space is {space}; features need Discrete or a Box with one axis."
        )
    ends = (space.low if low is None else low, space.high if high is None else high)
    return _coded(code, Grid(*ends, cells), width, tilings)


def _coded(code: Code, grid: Grid, width: float, tilings: int) -> Encoding:
    if code == "one-hot":
        return CellCodes(grid)
    if code == "tile":
        return TileCodes(grid, width, tilings)
    if code == "coarse":
        return CoarseCodes(grid, width)
    if code == "radial":
        return RadialCodes(grid, width)
    raise unknown("code", code, get_args(Code))
