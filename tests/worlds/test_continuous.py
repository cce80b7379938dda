"""The continuous maze: moves and walls by hand, and what Gymnasium asks of an environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import needlab.worlds  # noqa: F401
from needlab.worlds.continuous import ContinuousMazeEnv
from needreplay import NeedReplayError

TEXT = "S.G\n.#."


def steps(actions: str, **options: Any) -> list[Any]:
    """What each of the moves u, d, l, r gives, from the middle of the start's cell."""
    env = ContinuousMazeEnv(TEXT, **options)
    env.reset(seed=0)
    env._at = np.array([0.5, 0.5])
    return [env.step("udlr".index(action)) for action in actions]


def test_moves_walls_and_the_goal_by_hand() -> None:
    """Half a cell a move; right of the lower left cell is a wall, above the board nothing."""
    found = steps("udrrrlr", stride=0.5, noise=0.0)[:5]
    assert [obs.tolist() for obs, *_ in found] == [
        [0.0, 0.5], [0.5, 0.5], [0.5, 1.0], [0.5, 1.5], [0.5, 2.0],
    ]  # fmt: skip
    assert [reward for _, reward, *_ in found] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert [ended for *_, ended, _, _ in found] == [False] * 4 + [True]
    below = steps("drrd", stride=0.5, noise=0.0)
    assert [obs.tolist() for obs, *_ in below] == [[1.0, 0.5], [1.0, 0.5], [1.0, 0.5], [1.5, 0.5]]
    assert steps("uu", stride=0.5, noise=0.0)[1][0].tolist() == [0.0, 0.5]


def test_noise_has_the_standard_deviation_that_is_named() -> None:
    env = ContinuousMazeEnv("S....\n.....\n....G", stride=0.5, noise=0.2)
    env.reset(seed=0)
    moved = []
    for _ in range(2_000):
        env._at = np.array([1.5, 2.5])
        moved.append(env.step(0)[0] - [1.5, 2.5])
    np.testing.assert_allclose(np.mean(moved, axis=0), [-0.5, 0.0], atol=0.01)
    np.testing.assert_allclose(np.std(moved, axis=0), 0.1, rtol=0.1)


def test_gymnasium_finds_no_fault() -> None:
    check_env(gymnasium.make("needreplay/ContinuousMaze-v1").unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maze": "cliffwalk"}, "no board"),
        ({"stride": 1.0}, "stride is 1.0"),
        ({"noise": -0.1}, "noise -0.1"),
    ],
)
def test_what_raises(options: Any, words: str) -> None:
    with pytest.raises(NeedReplayError, match=words):
        ContinuousMazeEnv(**options)
    with pytest.raises(NeedReplayError, match="action must be"):
        ContinuousMazeEnv().step(4)
