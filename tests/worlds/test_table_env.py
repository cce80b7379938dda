"""Tables and mazes as Gymnasium environments: Gymnasium's checks, steps, seeds, pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.worlds.layout import parse_layout
from needlab.worlds.maze import DOWN, RIGHT, UP, maze_table
from needlab.worlds.picture import (
    AGENT_COLOR,
    FREE_COLOR,
    GOAL_COLOR,
    START_COLOR,
    WALL_COLOR,
    cell_pixels,
)
from needlab.worlds.table_env import MazeEnv, TableEnv
from needlab.worlds.task import TransitionTable
from needreplay._core.errors import NeedReplayError

# Around both walls: the shortest path of the Dyna maze.
PATH = [DOWN, DOWN, RIGHT, RIGHT, RIGHT, UP, *[RIGHT] * 5, UP, UP, UP]


def small_table(**changes: Any) -> TransitionTable:
    table = TransitionTable(
        next_state=np.array([[1, 0], [1, 0]]),
        reward_mean=np.array([[2.0, 0.0], [0.0, -1.0]]),
        reward_std=np.zeros((2, 2)),
        ends=np.array([[False, False], [False, True]]),
        start=0,
    )
    return table._replace(**changes)


@pytest.mark.parametrize(
    ("world", "arguments"),
    [
        ("needreplay/DynaMaze-v1", {}),
        ("needreplay/DynaMaze-v1", {"layout": "S.#\n..G", "resolution": 3, "reward_std": 0.0}),
        ("needreplay/BlindCliffwalk-v1", {}),
        ("needreplay/BlindCliffwalk-v1", {"n": 2, "fall": "teleports", "right_actions": "first"}),
    ],
)
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasium_finds_nothing_wrong(
    world: str, arguments: dict[str, Any], render_mode: str | None
) -> None:
    check_env(gymnasium.make(world, render_mode=render_mode, **arguments).unwrapped)


def test_gymnasium_finds_nothing_wrong_with_a_table_of_one_s_own() -> None:
    check_env(TableEnv(small_table()), skip_render_check=True)


def test_a_walk_by_hand() -> None:
    env = TableEnv(small_table())
    assert env.reset(seed=3) == (0, {})
    assert env.step(1) == (0, 0.0, False, False, {})
    assert env.step(0) == (1, 2.0, False, False, {})
    assert env.step(1) == (0, -1.0, True, False, {})
    assert env.reset() == (0, {})


def test_the_table_is_reached_through_wrappers() -> None:
    env = gymnasium.make("needreplay/DynaMaze-v1", max_episode_steps=5)
    expected = maze_table(env.unwrapped.layout)  # type: ignore[attr-defined]
    for ours, theirs in zip(env.unwrapped.table, expected, strict=True):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(ours, theirs)


def test_the_shortest_path_of_the_dyna_maze() -> None:
    env = MazeEnv()
    env.reset(seed=5)
    steps = [env.step(action) for action in PATH]
    assert [step[0] for step in steps] == [27, 36, 37, 38, 39, 30, 31, 32, 33, 34, 35, 26, 17, 8]
    assert [step[2] for step in steps] == [False] * 13 + [True]
    assert [step[1] for step in steps[:-1]] == [0.0] * 13
    assert steps[-1][1] == np.random.default_rng(5).normal(1.0, 0.1)


def test_rewards_follow_the_seed_and_their_distribution() -> None:
    env = MazeEnv("SG", reward_std=0.1)

    def rewards(seed: int, count: int) -> list[float]:
        drawn = []
        for episode in range(count):
            env.reset(seed=seed if episode == 0 else None)
            drawn.append(float(env.step(RIGHT)[1]))
        return drawn

    assert rewards(1, 5) == rewards(1, 5) != rewards(2, 5)
    many = rewards(0, 4000)
    assert np.mean(many) == pytest.approx(1.0, abs=4 * 0.1 / np.sqrt(4000))
    assert np.std(many) == pytest.approx(0.1, rel=0.05)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 3))
def test_walks_stay_on_free_cells(actions: list[int], resolution: int) -> None:
    env = MazeEnv(resolution=resolution, render_mode="ansi")
    env.reset(seed=0)
    for action in actions:
        state, _, ended, _, _ = env.step(action)
        assert env.layout.cell(state) not in env.layout.walls
        assert env.text().replace("\n", "")[state] == "A"
        if ended:
            assert env.layout.cell(state) in env.layout.goals
            break


def test_steps_outside_an_episode_are_refused() -> None:
    env = MazeEnv("SG")
    with pytest.raises(NeedReplayError, match=r"call reset\(\) before step"):
        env.step(0)
    env.reset()
    env.step(RIGHT)
    with pytest.raises(NeedReplayError, match=r"call reset\(\) before step"):
        env.step(0)


@pytest.mark.parametrize("action", [4, -1, 1.0, "up", None])
def test_actions_that_do_not_exist_are_refused(action: Any) -> None:
    env = MazeEnv()
    env.reset()
    with pytest.raises(NeedReplayError, match="action must be an integer from 0 to 3; it was"):
        env.step(action)
    assert env.step(np.int64(DOWN))[0] == 27


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_state": np.array([[1, 2], [0, 0]])}, "action 1 in state 0 leads to 2"),
        ({"next_state": np.array([[1, -1], [0, 0]])}, "leads to -1"),
        ({"next_state": np.array([[1.0, 0.0], [0.0, 0.0]])}, "must hold integers"),
        ({"next_state": np.array([1, 0])}, "must be a matrix"),
        ({"next_state": np.zeros((0, 2), dtype=int)}, "must be a matrix"),
        ({"start": 2}, "start must be a state, 0 to 1; it was 2"),
        ({"start": -1}, "start must be a state"),
        ({"ends": np.zeros((2, 3), dtype=bool)}, r"ends must have the shape .* it was \(2, 3\)"),
        ({"reward_std": np.zeros(2)}, "reward_std must have the shape"),
        ({"reward_std": np.full((2, 2), -1.0)}, "must not be negative"),
        ({"reward_mean": np.full((2, 2), np.nan)}, "must be finite"),
    ],
)
def test_tables_that_cannot_be_walked_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        TableEnv(small_table(**changes))


def test_render_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(NeedReplayError, match="no render mode 'human'; choose from: ansi, rgb"):
        MazeEnv(render_mode="human")
    with pytest.raises(NeedReplayError, match="no render mode 'ansi'; choose from: None"):
        TableEnv(small_table(), render_mode="ansi")


def test_rendering_without_a_mode_warns() -> None:
    with pytest.warns(UserWarning, match="no render_mode was chosen"):
        assert MazeEnv().render() is None


def test_the_text_of_the_dyna_maze() -> None:
    env = MazeEnv(render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == (".......#G\n..#....#.\nA.#....#.\n..#......\n.....#...\n.........")
    for action in PATH[:3]:
        env.step(action)
    assert env.render() == (".......#G\n..#....#.\nS.#....#.\n..#......\n.A...#...\n.........")
    for action in PATH[3:]:
        env.step(action)
    assert str(env.render()).startswith(".......#A\n")


def test_the_picture_of_the_dyna_maze() -> None:
    env = MazeEnv(render_mode="rgb_array")
    env.reset(seed=0)
    env.step(DOWN)
    picture = env.render()
    assert picture.shape == (6 * 48, 9 * 48, 3)
    assert picture.dtype == np.uint8
    color_of = {".": FREE_COLOR, "#": WALL_COLOR, "S": START_COLOR, "G": GOAL_COLOR}
    rows = [".......#G", "..#....#.", "S.#....#.", "..#......", ".....#...", "........."]
    expected = np.array([[color_of[character] for character in row] for row in rows])
    expected[3, 0] = AGENT_COLOR
    np.testing.assert_array_equal(picture[24::48, 24::48], expected)
    # The agent is a disc: its cell's corner is free, and the line between cells is darker.
    assert tuple(picture[3 * 48 + 4, 4]) == FREE_COLOR
    assert (picture[48, 24] < FREE_COLOR).all()
    assert (picture[24, 48] < FREE_COLOR).all()


def test_a_picture_does_not_change_with_later_steps() -> None:
    env = MazeEnv(render_mode="rgb_array")
    env.reset()
    before = env.render()
    kept = before.copy()
    env.step(DOWN)
    assert (env.render() != before).any()
    np.testing.assert_array_equal(before, kept)


def test_large_boards_have_small_cells() -> None:
    assert [cell_pixels(rows, 10) for rows in (1, 13, 14, 64, 1000)] == [48, 48, 45, 10, 4]
    env = MazeEnv(resolution=10, render_mode="rgb_array")
    env.reset()
    picture = env.render()
    assert picture.shape == (60 * 7, 90 * 7, 3)
    np.testing.assert_array_equal(
        picture[25 * 7 : 26 * 7, 5 * 7 : 6 * 7], np.full((7, 7, 3), AGENT_COLOR)
    )


def test_layouts_and_resolution_reach_the_environment() -> None:
    layout = parse_layout("S.\n#G")
    for named in (layout, "S.\n#G"):
        env = gymnasium.make("needreplay/DynaMaze-v1", layout=named, resolution=2).unwrapped
        assert isinstance(env, MazeEnv)
        assert env.layout == layout.magnified(2)
        assert env.observation_space.n == 16  # type: ignore[attr-defined]
    with pytest.raises(NeedReplayError, match=r"resolution is .* 1 or more"):
        gymnasium.make("needreplay/DynaMaze-v1", resolution=0)
