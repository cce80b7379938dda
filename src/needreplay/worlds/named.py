"""Worlds by name: ``minatar/<game>``, ``atari/<Game>``, or any id that Gymnasium knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit

from needreplay.errors import NeedReplayError

Kind = Literal["nature", "minatar", "vector"]


@dataclass(frozen=True)
class WorldSettings:
    """How a world is made; what does not concern a kind of world is left aside there."""

    sticky: float = 0.25
    """the probability that the last action is repeated (Atari, MinAtar)"""
    life_loss_ends: bool = False
    """whether a lost life ends the episode for the learner (Atari)"""
    noops: int = 0
    """up to so many idle steps at an episode's start (Atari)"""
    episode_cap: int = 27_000
    """steps after which an episode is truncated; 0: never"""
    action_set: Literal["full", "minimal"] = "minimal"
    """all actions, or those that do something in the game (Atari, MinAtar)"""
    ramping: bool = True
    """whether the game grows harder (MinAtar)"""


def kind_of(world: str) -> Kind:
    """Which network suits a world, by its name alone."""
    family = world.split("/", 1)[0]
    return {"minatar": "minatar", "atari": "nature"}.get(family, "vector")  # type: ignore[return-value]


def make_world(
    world: str, settings: WorldSettings, *, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """The environment that ``world`` names; one that a deep agent cannot play is refused."""
    env = _made(world, settings, render_mode)
    if not isinstance(env.action_space, Discrete) or env.action_space.start != 0:
        raise NeedReplayError(
            f"{world} has actions {env.action_space}; a DQN needs Discrete actions from 0."
        )
    if not isinstance(env.observation_space, Box):
        raise NeedReplayError(
            f"{world} has observations {env.observation_space}; a Box is needed. "
            "gymnasium.wrappers.FlattenObservation may make one."
        )
    return TimeLimit(env, settings.episode_cap) if settings.episode_cap else env


def _made(world: str, settings: WorldSettings, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    family, _, name = world.partition("/")
    if family == "minatar":
        from needreplay.worlds.minatar import MinAtarEnv

        return MinAtarEnv(
            name,
            actions=settings.action_set,
            sticky=settings.sticky,
            ramping=settings.ramping,
            render_mode=render_mode,
        )
    if family == "atari":
        from needreplay.worlds.atari import make_atari

        return make_atari(name, settings, render_mode=render_mode)
    try:
        return gymnasium.make(world, render_mode=render_mode)
    except gymnasium.error.Error as error:
        raise NeedReplayError(
            f"There is no world {world!r} ({error}); say minatar/<game>, atari/<Game>, or an id "
            "that Gymnasium knows, such as CartPole-v1."
        ) from error
