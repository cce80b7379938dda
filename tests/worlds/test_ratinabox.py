"""RatInABox's environments as text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from needlab.worlds import tabular_world
from needlab.worlds.ratinabox import maze_text, states_of
from needreplay._core.errors import NeedReplayError

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
HOLE = [[0.6, 0.6], [0.8, 0.6], [0.8, 0.8], [0.6, 0.8]]
PARAMETERS: dict[str, Any] = {
    "boundary": SQUARE, "walls": [[[0.4, 0.0], [0.4, 0.6]]], "holes": [HOLE],
}  # fmt: skip
PLACES: Any = {"starts": [(0.1, 0.1)], "goals": {"G": (0.9, 0.1)}}


def edges(polygon: Any) -> list[Any]:
    return [[a, b] for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True)]


def box(**changes: Any) -> Any:
    """The attributes of a ratinabox.Environment that are read; inside is a square with a hole."""

    def inside(position: Any) -> bool:
        in_hole = all(0.6 <= x <= 0.8 for x in position)
        return all(0 <= x <= 1 for x in position) and not in_hole

    known = {
        "extent": np.array([0, 1, 0, 1]),
        "boundary_conditions": "solid",
        "boundary": SQUARE,
        "holes": [HOLE],
        "walls": np.array([*edges(SQUARE), *PARAMETERS["walls"], *edges(HOLE)], np.float64),
        "check_if_position_is_in_environment": inside,
    }
    return SimpleNamespace(**{**known, **changes})


def real_box() -> Any:
    ratinabox = pytest.importorskip("ratinabox")
    return ratinabox.Environment(params=PARAMETERS)


@pytest.mark.parametrize("environment", [box, real_box])
def test_walls_and_holes_become_cells(environment: Any) -> None:
    # The wall is between columns 2 and 3, and ends below the fourth row from below.
    text = maze_text(environment(), 0.2, **PLACES)
    assert text.splitlines() == [".....", "...#.", "..#..", "..#..", "S.#.G"]
    assert tabular_world(text).n_states == 25


def test_a_wall_in_any_direction_takes_the_cells_it_runs_through() -> None:
    diagonal = np.array([*edges(SQUARE), [[0.0, 0.5], [0.5, 1.0]]], np.float64)
    found = maze_text(box(holes=[], walls=diagonal), 0.25, **PLACES)
    assert found.splitlines() == [".#..", "#.#.", "....", "S..G"], "the third # is in the hole"


def test_a_track_is_one_row() -> None:
    track = box(extent=np.array([0, 2]), walls=np.zeros((0, 2, 2)))
    text = maze_text(track, 0.5, starts=[[0.1]], goals={"A": [2.0]})
    assert text == "S..A\n"
    assert states_of(track, 0.5, [[0.0], [0.49], [0.5], [2.0]]).tolist() == [0, 0, 1, 3]


def test_states_are_numbered_from_the_top_left() -> None:
    positions = [(0.0, 1.0), (0.95, 0.95), (0.0, 0.0), (0.3, 0.1), (1.0, 0.0)]
    assert states_of(box(), 0.2, positions).tolist() == [0, 4, 20, 21, 24]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: maze_text(box(boundary_conditions="periodic"), 0.2, **PLACES), "is periodic"),
        (lambda: maze_text(box(), 0.3, **PLACES), "cell is 0.3; it must divide"),
        (lambda: maze_text(box(), 0.0, **PLACES), "it must divide"),
        (lambda: maze_text(box(), float("nan"), **PLACES), "cell"),
        (lambda: maze_text(box(), 0.2, starts=[(0.7, 0.7)], goals={}), "is in a wall"),
        (
            lambda: maze_text(box(), 0.2, starts=[(0.1, 0.1)], goals={"G": (0.15, 0.1)}),
            "in the cell of 'S'",
        ),
        (lambda: states_of(box(), 0.2, [(0.5, 1.2)]), r"\[0.5, 1.2\] is outside"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        call()
