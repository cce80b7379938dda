"""Any tabular world by name, from text, files and environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from needlab.worlds import DYNA_MAZE, MazeEnv, cliffwalk_world, tabular_world, world_of_text
from needreplay._core.errors import NeedReplayError


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_every_kind_of_name(tmp_path: Path) -> None:
    dyna = world_of_text(DYNA_MAZE, reward_std=0.0)
    file = tmp_path / "maze.txt"
    file.write_text(DYNA_MAZE, encoding="utf-8")
    worlds: list[Any] = ["dyna-maze", DYNA_MAZE, str(file), file]
    for world in worlds:
        assert same(tabular_world(world, reward_std=0.0), dyna)
    assert same(tabular_world(dyna), dyna)
    assert same(tabular_world(MazeEnv(reward_std=0.0)), dyna)
    assert same(tabular_world("needreplay/DynaMaze-v1", reward_std=0.0), dyna)
    assert tabular_world("dyna-maze", resolution=3).n_states == 9 * 54
    assert same(tabular_world("cliffwalk"), cliffwalk_world(10))
    assert same(tabular_world("cliffwalk", n=4, fall="teleports"), cliffwalk_world(4, "teleports"))


def test_the_table_of_a_toy_text_environment_walks_like_it() -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table = tabular_world("FrozenLake-v1", is_slippery=False)
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
        ("Blackjack-v1", {}, "observation space of Blackjack-v1 is Tuple"),
        ("Nothing-v0", {}, "world is 'Nothing-v0', which is not one of linear-track, open-field"),
        ("no_such_maze.txt", {}, "no_such_maze.txt' cannot be read"),
        ("cliffwalk", {"m": 3}, "'cliffwalk' cannot be made with the options"),
        ("dyna-maze", {"n": 3}, "'dyna-maze' cannot be made with the options"),
        (cliffwalk_world(3), {"n": 3}, "cannot be made with the options"),
        (cliffwalk_world(3)._replace(starts=np.array([9])), {}, "A state of starts is 9"),
        (3, {}, "it was of type int"),
    ],
)
def test_what_is_no_table_raises(world: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        tabular_world(world, **options)


def test_an_environment_without_a_table_raises() -> None:
    class Bare(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

    with pytest.raises(NeedReplayError, match="Bare has no table of transitions"):
        tabular_world(Bare())


def test_taxi_begins_anywhere() -> None:
    world = tabular_world(max(name for name in gymnasium.registry if name.startswith("Taxi-v")))
    assert (world.n_states, world.starts.size, world.random_start) == (500, 300, True)
    assert world.reward_mean.max() == 20.0
    assert world.ends.sum() == 4  # dropped at each of the four places, where the taxi stands
    assert world.goals.size == 0 or world.ends[world.next_state == world.goals[0]].all()


def test_the_goals_of_an_environment() -> None:
    """A state is a goal if every arrival there ends the episode: holes are; the cliff is not."""
    lake = tabular_world("FrozenLake-v1", is_slippery=False)
    assert (lake.goals.tolist(), lake.columns) == ([5, 7, 11, 12, 15], 4)
    cliff = tabular_world(max(n for n in gymnasium.registry if n.startswith("CliffWalking-v")))
    assert (cliff.goals.tolist(), cliff.start, cliff.columns) == ([47], 36, 12)
    assert cliff.reward_mean[36].tolist() == [-1.0, -100.0, -1.0, -1.0]


def test_a_text_wins_over_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.G").write_text("SG")
    assert tabular_world("S.G").n_states == 3
    assert tabular_world(Path("S.G")).n_states == 2
