"""The Blind Cliffwalk by hand, in each of its four forms."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlab.worlds import shortest_path_length
from needlab.worlds.cliffwalk import Fall, RightActions, cliffwalk_world
from needlab.worlds.env import BlindCliffwalkEnv
from needlab.worlds.picture import AGENT_COLOR, FREE_COLOR, GOAL_COLOR, START_COLOR
from needlab.worlds.tabular import TabularWorld
from needreplay._core.errors import NeedReplayError

FALLS: list[Fall] = ["ends", "teleports"]
RULES: list[RightActions] = ["alternate", "first"]


def test_the_printed_walk_of_three_states() -> None:
    table = cliffwalk_world(3)
    np.testing.assert_array_equal(table.next_state, [[1, 0], [0, 2], [3, 0], [3, 3]])
    np.testing.assert_array_equal(table.reward_mean, [[0, 0], [0, 0], [1, 0], [0, 0]])
    np.testing.assert_array_equal(
        table.ends, [[False, True], [True, False], [True, True], [False, False]]
    )
    assert table.start == 0


def test_the_released_walk_of_three_states() -> None:
    table = cliffwalk_world(3, fall="teleports", right_actions="first")
    np.testing.assert_array_equal(table.next_state, [[1, 0], [2, 0], [3, 0], [3, 3]])
    np.testing.assert_array_equal(table.reward_mean, [[0, 0], [0, 0], [1, 0], [0, 0]])
    np.testing.assert_array_equal(
        table.ends, [[False, False], [False, False], [True, False], [False, False]]
    )


@given(st.integers(2, 40), st.sampled_from(FALLS), st.sampled_from(RULES))
def test_what_holds_for_every_walk(n: int, fall: Fall, right_actions: RightActions) -> None:
    table = cliffwalk_world(n, fall, right_actions)
    assert (table.n_states, table.n_actions) == (n + 1, 2)
    assert table.next_state.dtype == np.int64
    assert not table.spreads.any()
    assert shortest_path_length(table) == n
    assert table.reward_mean.sum() == 1.0
    assert table.ends.sum() == (n + 1 if fall == "ends" else 1)
    assert never_left(table) == [n]


def never_left(table: TabularWorld) -> list[int]:
    """The states where an ending step arrives and every action stays: what has no successor."""
    stays = (table.next_state == np.arange(table.n_states)[:, np.newaxis]).all(axis=1)
    return [int(state) for state in np.unique(table.next_state[table.ends]) if stays[state]]


@pytest.mark.parametrize("n", [2, 5])
def test_action_strings_until_they_terminate(n: int) -> None:
    """2^(n+1) − 2 transitions, one of them rewarded: the printed buffer, walked in the table."""
    table = cliffwalk_world(n)
    steps, rewards = 0, 0.0
    for code in range(2**n):
        state = table.start
        for position in range(n):
            at = (state, code >> position & 1)
            steps, rewards = steps + 1, rewards + table.reward_mean[at]
            state = int(table.next_state[at])
            if table.ends[at]:
                break
    assert (steps, rewards) == (2 ** (n + 1) - 2, 1.0)


@pytest.mark.parametrize("n", [1, 0, -3, 2.0, "4", True, None])
def test_a_walk_needs_two_states(n: object) -> None:
    with pytest.raises(NeedReplayError, match=r"^n is .*; it must be a whole number, 2 or more"):
        cliffwalk_world(n)  # type: ignore[arg-type]


def test_options_that_do_not_exist() -> None:
    with pytest.raises(NeedReplayError, match="no kind of fall 'hurts'; choose from: ends, tele"):
        cliffwalk_world(3, fall="hurts")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="no rule of right actions 'last'"):
        cliffwalk_world(3, right_actions="last")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="no render mode 'human'"):
        BlindCliffwalkEnv(3, render_mode="human")


def test_walked_as_an_environment() -> None:
    env = gymnasium.make("needreplay/BlindCliffwalk-v1", n=3)
    assert env.reset(seed=0) == (0, {})
    assert env.step(0) == (1, 0.0, False, False, {})
    assert env.step(1) == (2, 0.0, False, False, {})
    assert env.step(0) == (3, 1.0, True, False, {})
    env.reset()
    assert env.step(1) == (0, 0.0, True, False, {})
    env = gymnasium.make("needreplay/BlindCliffwalk-v1", n=3, fall="teleports")
    env.reset()
    env.step(0)
    assert env.step(0) == (0, 0.0, False, False, {})
    assert env.step(0) == (1, 0.0, False, False, {})


def test_its_text() -> None:
    env = BlindCliffwalkEnv(5, render_mode="ansi")
    env.reset()
    assert env.render() == "state  A....G\nright  01010"
    env.step(0)
    assert env.render() == "state  SA...G\nright  01010"


def test_its_picture() -> None:
    env = BlindCliffwalkEnv(5, render_mode="rgb_array")
    env.reset()
    env.step(0)
    picture = env.render()
    assert picture.shape == (3 * 48, 6 * 48, 3)
    assert picture.dtype == np.uint8
    middle = picture[24::48, 24::48]
    assert [tuple(map(int, color)) for color in middle[0]] == [
        START_COLOR,
        AGENT_COLOR,
        *[FREE_COLOR] * 3,
        GOAL_COLOR,
    ]
    leads_on = (middle[1:, :5] == FREE_COLOR).all(axis=-1)
    np.testing.assert_array_equal(
        leads_on, [[True, False, True, False, True], [False, True] * 2 + [False]]
    )
