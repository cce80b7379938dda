"""Worlds by name: CartPole as it is, and in prose what cannot be played."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from needreplay.core.errors import NeedReplayError
from needreplay.worlds.named import WorldSettings, kind_of, make_world


class Odd(gymnasium.Env[Any, Any]):
    """A world that only has spaces."""

    def __init__(self, observation_space: Any, action_space: Any, **_: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Registers a world of given spaces as Odd-v0."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def registered(observation_space: Any, action_space: Any) -> str:
        gymnasium.register(
            "Odd-v0",
            lambda **options: Odd(observation_space, action_space, **options),
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


@pytest.mark.parametrize(
    ("observation_space", "action_space", "said"),
    [
        (ROW, ROW, "Odd-v0 has the actions Box.* but a DQN needs Discrete ones from 0; map a"),
        (ROW, spaces.Discrete(3, start=1), "Discrete.*start=1.*number them from 0"),
        (ROW, spaces.MultiDiscrete([2, 2]), "MultiDiscrete.*number them from 0"),
        (spaces.Dict({"a": ROW}), spaces.Discrete(2), "a Box of numbers; .*FlattenObservation"),
        (spaces.Discrete(5), spaces.Discrete(2), "a Box of numbers"),
        (spaces.Box(0, 1, (4, 4)), spaces.Discrete(2), r"shape \(4, 4\), but networks take a row"),
        (spaces.Box(0, 1, ()), spaces.Discrete(2), r"shape \(\), but"),
        (spaces.Box(0, 1, (7, 8, 9)), spaces.Discrete(2), r"images of shape \(7, 8, 9\)"),
    ],
)
def test_worlds_that_cannot_be_played_are_refused(
    odd: Any, observation_space: Any, action_space: Any, said: str
) -> None:
    with pytest.raises(NeedReplayError, match=said):
        make_world(odd(observation_space, action_space), WorldSettings())


@pytest.mark.parametrize("world", ["CartPole-v99", "x y", "no.such.module:Env-v0", ""])
def test_unknown_worlds_are_refused(world: str) -> None:
    with pytest.raises(NeedReplayError, match=f"There is no world '{world}' .*minatar/<game>"):
        make_world(world, WorldSettings())


def test_the_network_follows_from_the_name() -> None:
    names = ("minatar/asterix", "atari/Pong", "CartPole-v1", "ALE/Pong-v5")
    assert [kind_of(name) for name in names] == ["minatar", "nature", "vector", "vector"]


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
def test_settings_that_mean_nothing_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        WorldSettings(**changed)
