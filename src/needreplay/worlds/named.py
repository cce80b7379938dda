"""Worlds by name: ``minatar/<game>``, ``atari/<Game>``, or any id that Gymnasium knows."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit

from needreplay.core.errors import NeedReplayError
from needreplay.worlds.settings import WorldSettings

__all__ = ["Kind", "WorldSettings", "kind_of", "make_world"]

Kind = Literal["nature", "minatar", "vector"]


def kind_of(world: str) -> Kind:
    """Which network suits a world, by its name alone."""
    family = world.split("/", 1)[0]
    return {"minatar": "minatar", "atari": "nature"}.get(family, "vector")  # type: ignore[return-value]


def make_world(
    world: str, settings: WorldSettings, *, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """The environment that ``world`` names; one that a deep agent cannot play is refused."""
    env = _made(world, settings, render_mode)
    try:
        _check_actions(world, env.action_space)
        _check_observations(world, env.observation_space)
    except NeedReplayError:
        env.close()
        raise
    return TimeLimit(env, settings.episode_cap) if settings.episode_cap else env


def _check_actions(world: str, space: gymnasium.Space[Any]) -> None:
    if isinstance(space, Discrete) and space.start == 0:
        return
    advice = (
        "map a choice of them to numbers with gymnasium.wrappers.TransformAction"
        if isinstance(space, Box)
        else "number them from 0 with gymnasium.wrappers.TransformAction"
    )
    raise NeedReplayError(
        f"{world} has the actions {space}, but a DQN needs Discrete ones from 0; {advice} and "
        "register the result."
    )


def _check_observations(world: str, space: gymnasium.Space[Any]) -> None:
    if not isinstance(space, Box):
        raise NeedReplayError(
            f"{world} has the observations {space}, but a network needs a Box of numbers; "
            "gymnasium.wrappers.FlattenObservation makes one, register the result."
        )
    if len(space.shape) not in (1, 3) or 0 in space.shape:
        raise NeedReplayError(
            f"{world} has observations of shape {space.shape}, but networks take a row of numbers "
            "or images (channels, rows, columns)."
        )
    if len(space.shape) == 3 and kind_of(world) == "vector":
        game = world.removeprefix("ALE/").rsplit("-", 1)[0]
        raise NeedReplayError(
            f"{world} has images of shape {space.shape}, and of images only MinAtar's and Atari's "
            + (f"can be played: say atari/{game}." if world.startswith("ALE/") else "are known.")
        )


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
    if family == "ALE":
        from needreplay.worlds.atari import register_games

        register_games()
    try:
        return gymnasium.make(world, render_mode=render_mode)
    except (gymnasium.error.Error, ImportError) as error:
        raise NeedReplayError(
            f"There is no world {world!r} ({str(error).rstrip('.')}); say minatar/<game>, "
            "atari/<Game>, or an id that Gymnasium knows, such as CartPole-v1."
        ) from error
