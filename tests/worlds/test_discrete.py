"""Tabular agents on any Gymnasium environment that is discrete, and a clear error for others."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from needlab.worlds.discrete import ZeroBased, as_discrete, require_discrete
from needlab.worlds.env import MazeEnv
from needreplay._core.errors import NeedReplayError


class Offset(gymnasium.Env[Any, Any]):
    """States 10 to 12, actions -1 (back) to 1 (on); ends at 12."""

    observation_space = spaces.Discrete(3, start=10)
    action_space = spaces.Discrete(3, start=-1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.int64(10)
        return self.state, {"options": options}

    def step(self, action: int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        self.state = np.int64(np.clip(self.state + action, 10, 12))
        return self.state, float(action), bool(self.state == 12), False, {}


class Spaces(gymnasium.Env[Any, Any]):
    """Whatever spaces are asked for."""

    def __init__(self, states: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = states, actions


@pytest.mark.parametrize(
    ("world", "sizes"),
    [
        ("FrozenLake-v1", (16, 4)),
        ("Taxi-v4", (500, 6)),
        ("CliffWalking-v1", (48, 4)),
        ("needreplay/DynaMaze-v1", (54, 4)),
        ("needreplay/BlindCliffwalk-v1", (11, 2)),
    ],
)
def test_discrete_worlds_are_walked(world: str, sizes: tuple[int, int]) -> None:
    env = as_discrete(gymnasium.make(world))
    assert require_discrete(env) == sizes
    state, _ = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert type(state) is int
        assert 0 <= state < sizes[0]
        state, _, terminated, truncated, _ = env.step(int(rng.integers(sizes[1])))
        if terminated or truncated:
            state, _ = env.reset()


def test_numbers_begin_at_zero() -> None:
    env = as_discrete(Offset())
    assert require_discrete(env.env) == require_discrete(env) == (3, 3)
    assert env.reset(options={"a": 1}) == (0, {"options": {"a": 1}})
    assert env.step(2) == (1, 1.0, False, False, {})
    assert env.step(1) == (1, 0.0, False, False, {})
    assert env.step(0) == (0, -1.0, False, False, {})
    env.step(2)
    assert env.step(2) == (2, 1.0, True, False, {})
    assert env.observation_space == env.action_space == spaces.Discrete(3)


def test_the_table_is_still_in_reach() -> None:
    env = as_discrete(MazeEnv())
    assert isinstance(env, ZeroBased)
    assert isinstance(env.unwrapped, MazeEnv)
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)


def test_cartpole_raises() -> None:
    with pytest.raises(NeedReplayError) as caught:
        as_discrete(gymnasium.make("CartPole-v1"))
    message = str(caught.value)
    assert "the observation space of CartPole-v1 is Box(" in message
    assert "numpy.digitize) in a gymnasium.wrappers.TransformObservation with a Disc" in message


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (
            spaces.Discrete(2),
            spaces.Box(-1, 1),
            r"the action space of Spaces is Box\(.*Transf.*Act",
        ),
        (
            spaces.MultiDiscrete([2, 3]),
            spaces.Discrete(2),
            r"MultiDiscrete\(\[2 3\]\).*ravel_multi",
        ),
        (spaces.MultiBinary(4), spaces.Discrete(2), r"MultiBinary\(4\).*ravel_multi_index"),
        (spaces.Tuple([spaces.Discrete(2)]), spaces.Discrete(2), r"Tuple\(.*number its elements"),
    ],
)
def test_other_spaces_raise_by_name(
    states: spaces.Space[Any], actions: spaces.Space[Any], message: str
) -> None:
    env = Spaces(states, actions)
    for ask in (require_discrete, as_discrete, ZeroBased):
        with pytest.raises(NeedReplayError, match=message):
            ask(env)


def test_what_is_no_environment_raises() -> None:
    vector = gymnasium.make_vec("FrozenLake-v1", num_envs=2)
    with pytest.raises(NeedReplayError, match="not a vector of them; this is a SyncVectorEnv"):
        require_discrete(vector)  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="this is a str"):
        as_discrete("FrozenLake-v1")  # type: ignore[arg-type]
