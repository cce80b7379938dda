"""Any tabular world by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from needlab.worlds import DYNA_MAZE, MazeEnv, cliffwalk_table, make_table, maze_table, parse_layout
from needreplay._core.errors import NeedReplayError


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_every_kind_of_name(tmp_path: Path) -> None:
    dyna = maze_table(parse_layout(DYNA_MAZE), 0.0)
    file = tmp_path / "maze.txt"
    file.write_text(DYNA_MAZE, encoding="utf-8")
    worlds: list[Any] = ["dyna-maze", DYNA_MAZE, str(file), file, parse_layout(DYNA_MAZE)]
    for world in worlds:
        assert same(make_table(world, reward_std=0.0), dyna)
    assert same(make_table(dyna), dyna)
    assert same(make_table(MazeEnv(reward_std=0.0)), dyna)
    assert same(make_table("needreplay/DynaMaze-v1", reward_std=0.0), dyna)
    assert make_table("dyna-maze", resolution=3).n_states == 9 * 54
    assert same(make_table("cliffwalk"), cliffwalk_table(10))
    assert same(make_table("cliffwalk", n=4, fall="teleports"), cliffwalk_table(4, "teleports"))


def test_the_table_of_a_toy_text_environment_walks_like_it() -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table = make_table("FrozenLake-v1", is_slippery=False)
    rng = np.random.default_rng(0)
    for episode in range(20):
        state, _ = env.reset(seed=episode)
        assert state == table.start
        terminated = truncated = False
        while not (terminated or truncated):
            action = int(rng.integers(4))
            arrival, reward, terminated, truncated, _ = env.step(action)
            assert arrival == table.next_state[state, action]
            assert reward == table.reward_mean[state, action]
            assert terminated == table.ends[state, action]
            state = arrival
    env.close()


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        ("FrozenLake-v1", {"is_slippery": True}, "is not deterministic: action 0 in state 0 has"),
        (
            max(name for name in gymnasium.registry if name.startswith("Taxi-v")),
            {},
            r"Taxi-v\d begins in different states",
        ),
        ("Blackjack-v1", {}, "observation space of Blackjack-v1 is Tuple"),
        ("Nothing-v0", {}, "world is 'Nothing-v0', which is not dyna-maze, cliffwalk or a maze"),
        ("no_such_maze.txt", {}, "no_such_maze.txt cannot be read"),
        ("cliffwalk", {"m": 3}, "'cliffwalk' cannot be made with the options"),
        ("dyna-maze", {"n": 3}, "'dyna-maze' cannot be made with the options"),
        (cliffwalk_table(3), {"n": 3}, "cannot be made with the options"),
        (cliffwalk_table(3)._replace(start=9), {}, "start must be a state"),
    ],
)
def test_what_is_no_table_is_refused(world: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        make_table(world, **options)


def test_an_environment_without_a_table_is_refused() -> None:
    class Bare(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

    with pytest.raises(NeedReplayError, match="Bare has no table of transitions"):
        make_table(Bare())
