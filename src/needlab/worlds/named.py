"""Worlds by name: ``minatar/<game>``, ``atari/<Game>``, or any Gymnasium id.

An id may name the module that registers it, ``my_module:MyEnv-v0``; the module may stand in the
current folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import gymnasium
from gymnasium.wrappers import TimeLimit

from needlab.core.imports import find_module
from needlab.core.types import Env
from needlab.worlds.adapt import adapted
from needreplay._core.checks import COUNT, SHARE, check_fields
from needreplay._core.errors import NeedReplayError

Kind = Literal["atari", "minatar", "image", "vector"]
"""The family of a world, which decides its network, settings and protocol."""


@dataclass(frozen=True)
class WorldSettings:
    """How a world is made; each kind of world uses the fields that concern it."""

    sticky: float = 0.25
    """the probability that the last action is repeated (Atari, MinAtar)"""
    life_loss_ends: bool = False
    """whether a lost life ends the episode for the learner, while the game continues (Atari)"""
    noops: int = 0
    """the largest number of idle frames at the start of a game, at least one; 0: none (Atari)"""
    episode_cap: int = 27_000
    """steps after which an episode is truncated; 0: never"""
    action_set: Literal["full", "minimal"] = "minimal"
    """all actions, or those that do something in the game (Atari, MinAtar)"""
    ramping: bool = True
    """whether the game becomes harder with time (MinAtar)"""

    def __post_init__(self) -> None:
        """Raise for values that mean nothing."""
        check_fields(self, {"sticky": SHARE, "noops": COUNT, "episode_cap": COUNT})


def kind_of(world: str) -> Kind:
    """The family of a world; a Gymnasium id is made once to see its observations."""
    if world.startswith("atari/"):
        return "atari"
    if world.startswith("minatar/"):
        return "minatar"
    return "image" if len(observation_shape(world)) == 3 else "vector"


@cache
def observation_shape(world: str) -> tuple[int, ...]:
    """The shape of the observations that an agent gets: (channels, rows, columns) or (n,)."""
    env = make_world(world, WorldSettings())
    env.close()
    shape = env.observation_space.shape
    assert shape is not None
    return shape


def make_world(world: str, settings: WorldSettings) -> Env:
    """Make the environment that ``world`` names; raise for one that a deep agent cannot play."""
    env = _made(world, settings)
    return TimeLimit(env, settings.episode_cap) if settings.episode_cap else env


def _made(world: str, settings: WorldSettings) -> Env:
    family, _, name = world.partition("/")
    if family == "minatar":
        from needlab.worlds.minatar import MinAtarEnv

        return MinAtarEnv(
            name,
            actions=settings.action_set,
            sticky=settings.sticky,
            ramping=settings.ramping,
        )
    if family == "atari":
        from needlab.worlds.atari import make_atari

        return make_atari(name, settings)
    if family == "ALE":
        game = name.rsplit("-", 1)[0]
        raise NeedReplayError(
            f"The world {world!r} is an Atari game without preprocessing; use atari/{game} instead."
        )
    if ":" in world:
        find_module(world)
    try:
        env = gymnasium.make(world)
    except Exception as error:
        # The traceback of a user's own code is what the user needs.
        if ":" in world and not isinstance(error, gymnasium.error.Error | ImportError):
            raise
        raise NeedReplayError(
            f"There is no world {world!r} ({str(error).rstrip('.')}); use minatar/<game>, "
            "atari/<Game>, a Gymnasium id such as CartPole-v1, or my_module:MyEnv-v0."
        ) from error
    return adapted(env, world)
