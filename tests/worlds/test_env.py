"""Tables and mazes as Gymnasium environments: Gymnasium's checks, steps, seeds, pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.worlds.boards import linear_track
from needlab.worlds.env import MazeEnv, TabularEnv
from needlab.worlds.make import tabular_world
from needlab.worlds.picture import (
    AGENT_COLOR,
    FREE_COLOR,
    GOAL_COLOR,
    START_COLOR,
    WALL_COLOR,
    cell_pixels,
)
from needlab.worlds.tabular import START_RULES, TabularWorld, sampled_reward, world_of_arrays
from needlab.worlds.text import DOWN, LEFT, RIGHT, UP, world_of_text
from needreplay._core.errors import NeedReplayError

# Around both walls: the shortest path of the Dyna maze.
PATH = [DOWN, DOWN, RIGHT, RIGHT, RIGHT, UP, *[RIGHT] * 5, UP, UP, UP]


def small_world(**changes: Any) -> TabularWorld:
    parts: dict[str, Any] = {
        "next_state": [[1, 0], [1, 0]],
        "reward_mean": [[2.0, 0.0], [0.0, -1.0]],
        "ends": [[False, False], [False, True]],
        "starts": [0],
    }
    return world_of_arrays(**{**parts, **changes})


@pytest.mark.parametrize(
    ("world", "arguments"),
    [
        ("needreplay/DynaMaze-v1", {}),
        ("needreplay/DynaMaze-v1", {"maze": "S.#\n..G", "resolution": 3, "reward_std": 0.0}),
        ("needreplay/BlindCliffwalk-v1", {}),
        ("needreplay/BlindCliffwalk-v1", {"n": 2, "fall": "teleports", "right_actions": "first"}),
    ],
)
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasium_finds_nothing_wrong(
    world: str, arguments: dict[str, Any], render_mode: str | None
) -> None:
    check_env(gymnasium.make(world, render_mode=render_mode, **arguments).unwrapped)


def test_gymnasium_finds_nothing_wrong_with_a_world_of_one_s_own() -> None:
    check_env(TabularEnv(small_world()), skip_render_check=True)


def test_a_walk_by_hand() -> None:
    env = TabularEnv(small_world())
    assert env.reset(seed=3) == (0, {})
    assert env.step(1) == (0, 0.0, False, False, {})
    assert env.step(0) == (1, 2.0, False, False, {})
    assert env.step(1) == (0, -1.0, True, False, {})
    assert env.reset() == (0, {})


def test_the_world_is_reached_through_wrappers() -> None:
    env = gymnasium.make("needreplay/DynaMaze-v1", max_episode_steps=5)
    for ours, theirs in zip(env.unwrapped.world, tabular_world("dyna-maze"), strict=True):  # type: ignore[attr-defined]
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
        assert env.world.free[state]
        assert env.text().replace("\n", "")[state] == "A"
        if ended:
            assert state in env.world.goals
            break


def test_steps_outside_an_episode_raise() -> None:
    env = MazeEnv("SG")
    with pytest.raises(NeedReplayError, match=r"call reset\(\) before step"):
        env.step(0)
    env.reset()
    env.step(RIGHT)
    with pytest.raises(NeedReplayError, match=r"call reset\(\) before step"):
        env.step(0)


@pytest.mark.parametrize("action", [4, -1, 1.0, "up", None])
def test_actions_that_do_not_exist_raise(action: Any) -> None:
    env = MazeEnv()
    env.reset()
    with pytest.raises(NeedReplayError, match="action must be an integer from 0 to 3; it was"):
        env.step(action)
    assert env.step(np.int64(DOWN))[0] == 27


def test_render_modes_that_do_not_exist_raise() -> None:
    with pytest.raises(NeedReplayError, match="no render mode 'human'; choose from: ansi, rgb"):
        MazeEnv(render_mode="human")
    with pytest.raises(NeedReplayError, match="no render mode 'ansi'; choose from: None"):
        TabularEnv(small_world(), render_mode="ansi")


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


def test_mazes_and_resolution_reach_the_environment() -> None:
    env = gymnasium.make("needreplay/DynaMaze-v1", maze="S.\n#G", resolution=2).unwrapped
    assert isinstance(env, MazeEnv)
    assert env.world.marks() == "......S.##GG##GG".replace("......S.", ".....S..")
    assert env.observation_space.n == 16  # type: ignore[attr-defined]
    with pytest.raises(NeedReplayError, match=r"resolution is .* 1 or more"):
        gymnasium.make("needreplay/DynaMaze-v1", resolution=0)


def test_any_agent_can_walk_a_world_with_slip() -> None:
    env = TabularEnv(world_of_text("S....\n.....\n....G\n\nslip: 0.5"))
    check_env(env, skip_render_check=True)
    sideways = 0
    for seed in range(400):
        env.reset(seed=seed)
        state, reward, terminated, truncated, _ = env.step(DOWN)
        assert state in (0, 1, 5)
        assert (reward, terminated, truncated) == (0.0, False, False)
        sideways += state != 5
    assert 140 < sideways < 260


def test_the_environment_takes_starts_in_turn() -> None:
    env = TabularEnv(linear_track())
    state, _ = env.reset(seed=0)
    seen = [state]
    for _ in range(3):
        action = RIGHT if state < 10 else LEFT
        terminated = False
        while not terminated:
            state, reward, terminated, _, _ = env.step(action)
        assert 0.4 < reward < 1.6
        with pytest.raises(NeedReplayError, match="call reset"):
            env.step(0)
        state, _ = env.reset()
        seen.append(state)
    assert seen == [0, 29, 0, 29]


def test_starts_in_order_and_at_random() -> None:
    world = world_of_text("SSSG")

    def starts(rule: str) -> list[int]:
        env = TabularEnv(world._replace(start_rule=START_RULES.index(rule)))
        drawn = [env.reset(seed=0)[0]]
        for _ in range(5):
            while not env.step(RIGHT)[2]:
                pass
            drawn.append(env.reset()[0])
        return drawn

    assert starts("in turn") == [0, 1, 1, 1, 1, 1]
    assert starts("in order") == [0, 1, 2, 0, 1, 2]
    assert set(starts("at random")) == {0, 1, 2}


def test_noise_never_makes_a_reward_of_a_text_negative() -> None:
    cut, free = world_of_text("SG\n\nG: 0 sd 1"), world_of_text("SG\n\nG: -1 sd 1")
    rng = np.random.default_rng(0)
    drawn = np.array([sampled_reward(cut, 0, RIGHT, rng) for _ in range(200)])
    assert drawn.min() == 0.0
    assert 60 < (drawn == 0.0).sum() < 140
    assert max(sampled_reward(free, 0, RIGHT, rng) for _ in range(200)) > 0.0
    uncut = cut._replace(cut=False)
    assert min(sampled_reward(uncut, 0, RIGHT, rng) for _ in range(200)) < 0.0
