"""Worlds by name: CartPole as it is, and a clear error for what cannot be played."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from needlab.worlds.named import WorldSettings, kind_of, make_world, observation_shape
from needreplay._core.errors import NeedReplayError


class Odd(gymnasium.Env[Any, Any]):
    """A world that only has spaces; it shows samples of them, or always ``obs``."""

    def __init__(self, observation_space: Any, action_space: Any, obs: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.obs = obs
        self.taken = -1

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample() if self.obs is None else self.obs, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken = int(action)
        return self.reset()[0], 0.0, False, False, {}


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Registers a world of given spaces as Odd-v0."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def registered(observation_space: Any, action_space: Any, obs: Any = None) -> str:
        gymnasium.register(
            "Odd-v0",
            lambda **_: Odd(observation_space, action_space, obs),
            disable_env_checker=True,
            order_enforce=False,
        )
        return "Odd-v0"

    return registered


ROW = spaces.Box(-1, 1, (3,), np.float32)


def test_cartpole_works_out_of_the_box() -> None:
    env = make_world("CartPole-v1", WorldSettings(episode_cap=0))
    assert env.action_space == spaces.Discrete(2)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (4,)


def test_the_cap_truncates() -> None:
    env = make_world("CartPole-v1", WorldSettings(episode_cap=3))
    env.reset(seed=0)
    ends = [env.step(step % 2)[2:4] for step in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


PIXELS = spaces.Box(0, 255, (7, 8, 3), np.uint8)
LARGE = spaces.Box(0, 255, (40, 44, 3), np.uint8)
TWO = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "said"),
    [
        (ROW, ROW, "'Odd-v0' has the action space Box.* but a DQN needs Discrete actions; map a"),
        (ROW, spaces.MultiDiscrete([2, 2]), "MultiDiscrete.* but a DQN needs Discrete actions"),
        (spaces.Text(3), TWO, "observation space Text.* Supported are Box"),
        (spaces.Dict({"a": spaces.Text(3)}), TWO, "Text.* Supported are Box"),
        (spaces.Tuple((ROW, spaces.Text(3))), TWO, "Text.* Supported are Box"),
        (spaces.Dict({"a": ROW, "b": LARGE}), TWO, "with images below 36 x 36"),
        (spaces.Sequence(ROW), TWO, "observation space Sequence.* Supported"),
        (spaces.Box(0, 1, (2, 2, 2, 2)), TWO, "Supported are Box"),
        (spaces.Box(0, 1, (0,)), TWO, "Supported are Box"),
        (spaces.Box(0, 255, (2, 9, 1), np.uint8), TWO, "images of 2 x 9 pixels; .*at least 3 x 3"),
    ],
)
def test_worlds_that_cannot_be_played_raise(
    odd: Any, observation_space: Any, action_space: Any, said: str
) -> None:
    with pytest.raises(NeedReplayError, match=said):
        make_world(odd(observation_space, action_space), WorldSettings())


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (ROW, (3,), np.float32),
        (spaces.Box(0, 1, ()), (1,), np.float32),
        (spaces.Box(0, 1, (4, 5)), (20,), np.float32),
        (spaces.Discrete(5), (5,), np.int64),
        (spaces.MultiDiscrete([2, 3]), (5,), np.int64),
        (spaces.MultiBinary(4), (4,), np.int8),
        (spaces.Tuple((ROW, spaces.Discrete(2))), (5,), np.float64),
        (spaces.Dict(a=spaces.Dict(b=ROW), c=spaces.MultiBinary(2)), (5,), np.float32),
        # As in MiniGrid: a small image and a direction are numbers, text is left out.
        (spaces.Dict(a=PIXELS, b=spaces.Discrete(4), c=spaces.Text(3)), (172,), np.float32),
        (PIXELS, (3, 7, 8), np.float32),
        (spaces.Box(0, 1, (3, 7, 8)), (3, 7, 8), np.float32),
        (spaces.Box(0, 255, (7, 8), np.uint8), (1, 7, 8), np.float32),
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), (3, 84, 84), np.uint8),
        (spaces.Box(0, 1, (84, 84, 3), np.uint8), (3, 84, 84), np.float32),
    ],
)
def test_observations_become_rows_or_images(
    odd: Any, space: Any, shape: tuple[int, ...], dtype: Any
) -> None:
    space.seed(0)
    env = make_world(odd(space, TWO), WorldSettings())
    assert isinstance(env.observation_space, spaces.Box)
    assert env.observation_space.shape == shape
    assert env.observation_space.dtype == dtype
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    next_obs, *_ = env.step(1)
    assert env.observation_space.contains(next_obs)
    if len(shape) == 3:
        assert obs.max() <= (255 if dtype == np.uint8 else 1)
        assert obs.max() > (150 if dtype == np.uint8 else 0.5)


def test_channels_and_actions_are_those_of_the_world(odd: Any) -> None:
    image = np.arange(7 * 8 * 3, dtype=np.uint8).reshape(7, 8, 3)
    world = odd(PIXELS, spaces.Discrete(2, start=3), image)
    env = make_world(world, WorldSettings())
    assert env.action_space == spaces.Discrete(2)
    obs, _ = env.reset()
    assert obs[2, 1, 4] == np.float32(image[1, 4, 2]) / np.float32(255)
    env.step(1)
    assert env.unwrapped.taken == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("world", ["CartPole-v99", "x y", "no.such.module:Env-v0", ""])
def test_unknown_worlds_raise(world: str) -> None:
    with pytest.raises(NeedReplayError, match=f"There is no world '{world}' .*minatar/<game>"):
        make_world(world, WorldSettings())


def test_the_kind_of_a_world(odd: Any) -> None:
    names = ("minatar/asterix", "atari/Pong", "CartPole-v1", odd(PIXELS, TWO))
    observation_shape.cache_clear()
    assert [kind_of(name) for name in names] == ["minatar", "atari", "vector", "image"]
    observation_shape.cache_clear()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sticky": 1.5}, "sticky is 1.5; it must be a number from 0.0 to 1.0"),
        ({"sticky": "often"}, "sticky is 'often'; it must be a number from 0.0 to 1.0"),
        ({"sticky": float("nan")}, "sticky is nan"),
        ({"life_loss_ends": 1}, "life_loss_ends is 1; it must be True or False"),
        ({"noops": -1}, "noops is -1; it must be a whole number, 0 or more"),
        ({"episode_cap": 2.5}, "episode_cap is 2.5; it must be a whole number"),
        ({"action_set": "all"}, "no action_set 'all'; choose from: full, minimal"),
    ],
)
def test_settings_that_mean_nothing_raise(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        WorldSettings(**changed)
