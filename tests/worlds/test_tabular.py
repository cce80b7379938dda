"""Worlds from arrays: what is checked, distances, and worlds that change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import (
    check_schedule,
    check_world,
    shortest_path_length,
    steps_to_end,
    world_of_arrays,
)
from needlab.worlds.text import world_of_text
from needreplay._core.errors import NeedReplayError


def test_the_arrays_are_what_kernels_take() -> None:
    world = tabular_world("dyna-maze")
    for name in ("next_state", "choices", "starts", "goal"):
        assert getattr(world, name).dtype == np.int64
    assert world.magnitudes.dtype == world.spreads.dtype == np.float64
    assert world.ends.dtype == world.free.dtype == np.bool_
    assert all(part.flags.c_contiguous for part in world if isinstance(part, np.ndarray))
    assert type(world.start) is int


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_state": [0, 1]}, "must be a matrix"),
        ({"next_state": [[0.0, 1.0]]}, "must be a matrix"),
        ({"next_state": np.zeros((0, 2), int)}, "must be a matrix"),
        ({"next_state": [[0, 3], [0, 1], [2, 2]]}, "0 to 2, but action 1 in state 0 leads to 3"),
        ({"next_state": [[0, 1], [-1, 2], [2, 2]]}, "action 0 in state 1 leads to -1"),
        ({"starts": []}, "starts is empty"),
        ({"starts": [5]}, "A state of starts is 5"),
        ({"starts": [-1]}, "A state of starts is -1"),
        ({"goals": [2, 2]}, "goals lists a state twice"),
        ({"goals": []}, "neither was given"),
        ({"ends": np.zeros((3, 2), bool)}, "both were given"),
        ({"starts": [2]}, "A start cannot be a goal"),
        ({"rewards": {2: [(float("nan"), 0.0)]}}, "finite mean"),
        ({"rewards": {2: [(1.0, -1.0)]}}, "finite mean"),
        ({"start_rule": "x"}, "There is no start_rule"),
        ({"free": [True, False, True]}, "is a wall"),
        ({"free": [True, True]}, r"free must have the shape \(3,\)"),
        ({"slip": 0.5}, "slip is for boards"),
        ({"slip": float("nan")}, "slip is nan"),
    ],
)
def test_worlds_of_goals_that_cannot_be_walked(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "next_state": [[0, 1], [0, 2], [2, 2]],
        "starts": [0],
        "goals": [2],
        "rewards": {2: [(1.0, 0.0)]},
    }
    with pytest.raises(NeedReplayError, match=message):
        world_of_arrays(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_state": [[1, 2], [0, 0]]}, "action 1 in state 0 leads to 2"),
        ({"starts": [2]}, "A state of starts is 2"),
        ({"ends": np.zeros((2, 3), bool)}, r"ends must have the shape .* it was \(2, 3\)"),
        ({"reward_std": np.zeros(2)}, "reward_std must have the shape"),
        ({"reward_std": -1.0}, "must not be negative"),
        ({"reward_mean": np.full((2, 2), np.nan)}, "must be finite"),
    ],
)
def test_worlds_of_steps_that_cannot_be_walked(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "next_state": [[1, 0], [1, 0]],
        "starts": [0],
        "ends": [[False, False], [False, True]],
    }
    with pytest.raises(NeedReplayError, match=message):
        world_of_arrays(**{**parts, **changes})


def test_a_world_that_was_changed_is_checked() -> None:
    world = tabular_world("dyna-maze")
    for changes, message in (
        ({"goal": np.zeros(3, np.int64)}, "goal must have the shape"),
        ({"spreads": world.spreads[:, :, :0]}, "spreads must have the shape"),
        ({"starts": np.array([20])}, "State 20 is a wall"),
    ):
        with pytest.raises(NeedReplayError, match=message):
            check_world(world._replace(**changes))


def test_shortest_paths_by_hand() -> None:
    assert shortest_path_length(tabular_world("dyna-maze")) == 14
    assert shortest_path_length(world_of_text("SG")) == 1
    assert shortest_path_length(world_of_text("S.#G\n#...\nG###")) == 5
    stuck = tabular_world("dyna-maze")._replace(starts=np.array([20]))
    with pytest.raises(NeedReplayError, match="can be reached"):
        shortest_path_length(stuck)


def test_an_end_without_reward_is_no_path_and_nothing_follows_it() -> None:
    """0 falls onto 1, one step from the reward; the way that does not end is 0, 2, 3, 4."""
    ends, reward = np.zeros((5, 2), bool), np.zeros((5, 2))
    ends[0, 0] = ends[1, 0] = ends[3, 0] = True
    reward[1, 0] = reward[3, 0] = 1.0
    moves = [[1, 2], [4, 1], [2, 3], [4, 3], [4, 4]]
    world = world_of_arrays(moves, [0], ends=ends, reward_mean=reward)
    assert shortest_path_length(world) == 3
    assert steps_to_end(world, world.ends).tolist() == [1.0, 1.0, 2.0, 1.0, np.inf]
    known = np.ones((5, 2), bool)
    known[0, 0] = False
    assert steps_to_end(world, world.ends, known)[0] == 3.0


def test_ends_become_goals_where_every_arrival_ends() -> None:
    moves, ends = [[1, 0], [2, 0], [2, 2]], np.array([[0, 0], [1, 0], [0, 0]], bool)
    assert world_of_arrays(moves, [0], ends=ends).goals.tolist() == [2]
    moves[0][1] = 2  # a way to 2 that does not end the episode
    assert world_of_arrays(moves, [0], ends=ends).goals.size == 0
    ends[0, 1] = True
    assert world_of_arrays(moves, [0], ends=ends).goals.tolist() == [2]
    ends[1, 1] = True  # an end in the start
    assert world_of_arrays(moves, [0], ends=ends).goals.size == 0


def test_schedules() -> None:
    world = world_of_text("S..G")
    assert [begin for begin, _ in check_schedule([(0, world), (3, world)])] == [0, 3]
    for schedule, message in (
        ([], "from 0 on"),
        ([(1, world)], "from 0 on"),
        ([(0, world), (0, world)], "episode 0 follows 0"),
        ([(0, world), (2, world_of_text(".S.G"))], "states, actions and starts"),
        ([(0, world), (2, world_of_text("S...G"))], "states, actions and starts"),
    ):
        with pytest.raises(NeedReplayError, match=message):
            check_schedule(schedule)
