"""Features of states and observations: by hand, and what every code promises."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from importlib import import_module

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from needlab.linear import (
    FeatureTable,
    Grid,
    OneHot,
    RadialCodes,
    TileCodes,
    board_grid,
    encode_space,
    encode_world,
    feature_matrix,
)
from needlab.linear.encodings import Code
from needlab.worlds import cliffwalk_world, tabular_world
from needreplay import NeedReplayError

BOX = spaces.Box(np.array([-1.2, -0.07]), np.array([0.6, 0.07]), dtype=np.float64)


@pytest.mark.parametrize("module", ["encodings", "agent", "settings"])
def test_examples_in_docstrings(module: str) -> None:
    found = doctest.testmod(import_module(f"needlab.linear.{module}"))
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize("code", ["one-hot", "tile", "coarse", "radial"])
def test_every_feature_vector_has_length_1(code: Code) -> None:
    world = tabular_world("dyna-maze")
    of_states = feature_matrix(encode_world(code, world, width=1.5), world.n_states)
    points = np.random.default_rng(0).uniform(BOX.low - 0.1, BOX.high + 0.1, (200, 2))
    of_points = feature_matrix(encode_space(code, BOX, width=1.5), points)
    for matrix in (of_states, of_points):
        np.testing.assert_allclose((matrix * matrix).sum(axis=1), 1.0, rtol=1e-12)


def test_one_hot_is_the_identity() -> None:
    assert (feature_matrix(OneHot(5), 5) == np.eye(5)).all()
    assert (feature_matrix(encode_world("one-hot", cliffwalk_world(4)), 5) == np.eye(5)).all()


def test_cells_of_a_box_by_hand() -> None:
    """4 x 4 cells of the unit square; borders and points outside belong to the outer cells."""
    code = encode_space("one-hot", spaces.Box(0.0, 1.0, (2,)), cells=4)
    points = [[0.0, 0.0], [0.3, 0.99], [1.0, 1.0], [-5.0, 7.0]]
    assert code.active(np.array(points))[0].tolist() == [[0], [7], [15], [3]]


def test_tiles_by_hand() -> None:
    """One dimension, 2 cells, 2 tilings: the second is displaced by half a tile."""
    code = TileCodes(Grid([0.0], [2.0], 2), tilings=2)
    assert code.n_features == 6
    numbers, values = code.active(np.array([[0.2], [0.7], [1.2], [2.0]]))
    assert numbers.tolist() == [[0, 3], [0, 4], [1, 4], [2, 5]]
    np.testing.assert_allclose(values, math.sqrt(0.5))


def test_tilings_are_displaced_differently_in_each_dimension() -> None:
    """4 tilings by (0, 0), (1, 3), (2, 2), (3, 1) quarters: 4 borders at different places."""
    code = TileCodes(Grid([0.0, 0.0], [3.0, 3.0], 3), tilings=4)
    at = code.active(np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 0.3]]))[0]
    assert (at[0] == at[1]).tolist() == [True, True, True, False]
    assert (at[0] == at[2]).tolist() == [True, False, True, True]


def test_shared_tiles_are_the_inner_product() -> None:
    code = encode_space("tile", BOX)
    assert code.n_features == 8 * 9 * 9
    step = 1.8 / 8 / 8  # an eighth of a tile
    rows = feature_matrix(code, np.array([[-0.5 + k * step, 0.0] for k in range(10)]))
    np.testing.assert_allclose(rows[0] @ rows.T, np.maximum(0, 1 - np.arange(10) / 8), atol=1e-12)


def test_radial_features_by_hand() -> None:
    """Three cells, width 1: exp(-1/2), exp(-2) at distances 1 and 2 of the middle of the first."""
    near, far = math.exp(-0.5), math.exp(-2.0)
    row = feature_matrix(RadialCodes(Grid([0.0], [3.0], 3)), np.array([[0.5]]))[0]
    np.testing.assert_allclose(row, np.array([1, near, far]) / math.sqrt(1 + near**2 + far**2))


def test_wider_features_spread_an_update_further() -> None:
    """The share of what an update moves that falls on its own state, in the Dyna maze."""
    world = tabular_world("dyna-maze")
    own = []
    for width in (0.2, 0.7, 1.5, 3.0, 6.0):
        phi = feature_matrix(encode_world("radial", world, width=width), world.n_states)
        own.append(1.0 / np.abs(phi @ phi[world.start]).sum())
    assert own == sorted(own, reverse=True)
    assert own[0] > 0.99
    assert own[-1] < 0.05


def test_coarse_codes_are_on_inside_the_discs() -> None:
    """Radius 1 in a board of 3 x 3: the middle has 5 features, a corner 3, an edge 4."""
    world = tabular_world("S..\n...\n..G")
    numbers, values = encode_world("coarse", world, width=1.0).active(np.arange(9))
    assert (values > 0).sum(axis=1).tolist() == [3, 4, 3, 4, 5, 4, 3, 4, 3]
    assert sorted(numbers[4].tolist()) == [1, 3, 4, 5, 7]


def test_a_point_far_from_all_centers_has_features() -> None:
    code = RadialCodes(Grid([0.0], [2.0], 2), width=1e-3)
    np.testing.assert_allclose(feature_matrix(code, np.array([[0.1]])), [[1.0, 0.0]])


def test_a_matrix_of_ones_own() -> None:
    table = FeatureTable([[3.0, -4.0], [0.0, 0.0]])
    np.testing.assert_allclose(feature_matrix(table, 2), [[0.6, -0.8], [0.0, 0.0]])


def test_board_coordinates() -> None:
    grid, middles = board_grid(tabular_world("dyna-maze"))
    assert grid.cells == (6, 9)
    assert middles[10].tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: encode_world("tile", cliffwalk_world(4)), "no board"),
        (lambda: encode_world("tiles", tabular_world("dyna-maze")), "tiles"),  # type: ignore[arg-type]
        (lambda: encode_world("coarse", tabular_world("dyna-maze"), width=0.5), "radius is 0.5"),
        (lambda: encode_world("tile", tabular_world("dyna-maze"), width=math.nan), "width is nan"),
        (lambda: encode_world("radial", tabular_world("dyna-maze"), width=0.0), "width is 0"),
        (lambda: encode_space("tile", spaces.Discrete(3)), "no coordinates"),
        (lambda: encode_space("tile", spaces.Box(0, 1, (2, 2))), "one axis"),
        (lambda: encode_space("tile", gymnasium.make("CartPole-v1").observation_space), "finite"),
        (lambda: encode_space("tile", BOX, cells=[3]), "one a dimension"),
        (lambda: encode_space("tile", BOX, cells=0), "cells"),
        (lambda: encode_space("tile", BOX, tilings=0), "tilings"),
        (lambda: encode_space("tile", BOX).active(np.array([[math.nan, 0.0]])), "not finite"),
        (lambda: encode_space("tile", BOX).active(np.array([0.0, 0.0])), "shape"),
        (lambda: OneHot(3).active(np.array([3])), "from 0 to 2"),
        (lambda: OneHot(3).active(np.array([0.5])), "whole numbers"),
        (lambda: FeatureTable([[math.inf]]), "finite"),
    ],
)
def test_what_raises(make: Callable[[], object], words: str) -> None:
    with pytest.raises(NeedReplayError, match=words):
        make()
