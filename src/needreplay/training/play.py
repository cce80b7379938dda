"""Playing the newest checkpoint of a run: returns of episodes, and one episode as pictures."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.training.config import RunConfig
from needreplay.training.folder import config_of, newest_checkpoint
from needreplay.training.loop import reset_seed
from needreplay.training.make import made_agent, made_world

if TYPE_CHECKING:
    from needreplay.deep import DeepAgent

SMALL_MEMORY = 64
"""Transitions: one who only plays remembers nothing."""
RECENT = 60
"""Steps whose need is shown beside the frame."""


class Player(NamedTuple):
    """An agent as it was at a checkpoint."""

    config: RunConfig
    agent: DeepAgent
    steps: int
    """of training, before the checkpoint"""


class Played(NamedTuple):
    """One episode."""

    total: float
    """the sum of its rewards, unclipped"""
    length: int


@dataclass
class Film:
    """Pictures of an episode, and with each the need of the last steps as seen from there."""

    pictures: list[AnyArray] = field(default_factory=list)
    needs: list[AnyArray] = field(default_factory=list)
    """oldest step first; empty for an agent that has no need"""
    pictures_per_second: float = 15.0


def load_player(folder: str | Path, *, epsilon: float | None = None) -> Player:
    """The agent of the newest checkpoint, on the CPU; in prose where there is none."""
    from needreplay.deep.checkpoint import load_networks

    path = Path(folder)
    config = replace(config_of(path), device="cpu")
    if epsilon is not None:
        overrides = {**config.overrides, "eval_epsilon": epsilon}
        config = replace(config, overrides=overrides)
    if newest_checkpoint(path) is None:
        raise NeedReplayError(
            f"The run in {str(path)!r} has no checkpoint yet; train on, the first one falls after "
            f"{config.resolved().protocol.checkpoint_steps:,} steps."
        )
    with closing(made_world(config)) as env:
        agent = made_agent(config, env, capacity=SMALL_MEMORY)
    while True:
        found = newest_checkpoint(path)
        assert found is not None
        try:
            load_networks(agent, found)
        except NeedReplayError:
            # Training may have put a newer one in its place meanwhile.
            if newest_checkpoint(path) != found:
                continue
            raise
        return Player(config, agent, int(found.name.rpartition("-")[2]))


def play_episodes(player: Player, episodes: int, seed: int) -> list[Played]:
    """Whole episodes, each seeded from ``seed`` and its number."""
    with closing(made_world(player.config)) as env:
        return [_play(env, player.agent, seed, number) for number in range(episodes)]


def film_episode(player: Player, seed: int, *, most_steps: int) -> tuple[Played, Film]:
    """The first episode of ``seed``, or as much of it as ``most_steps``, with its pictures."""
    with closing(made_world(player.config, render_mode="rgb_array")) as env:
        film = Film()
        if player.config.kind in ("vector", "image"):
            # The games' own rate counts frames, not steps.
            film.pictures_per_second = float(env.metadata.get("render_fps", 15))
        played = _play(env, player.agent, seed, 0, film, most_steps)
    return played, film


def _play(
    env: gymnasium.Env[Any, Any],
    agent: DeepAgent,
    seed: int,
    number: int,
    film: Film | None = None,
    most_steps: float = float("inf"),
) -> Played:
    choices = np.random.default_rng(reset_seed(seed, "play", number, "actions"))
    obs, _ = env.reset(seed=reset_seed(seed, "play", number))
    recent: deque[tuple[AnyArray, int]] = deque(maxlen=RECENT)
    total, length, ended = 0.0, 0, False
    while not ended and length < most_steps:
        action = agent.act_in_evaluation(obs, choices)
        if film is not None:
            recent.append((obs, action))
            film.pictures.append(_picture(env))
            film.needs.append(_need(agent, obs, recent))
        obs, reward, terminated, truncated, _ = env.step(action)
        ended = bool(terminated or truncated)
        total, length = total + float(reward), length + 1
    return Played(total, length)


def _picture(env: gymnasium.Env[Any, Any]) -> AnyArray:
    try:
        picture = env.render()
    except gymnasium.error.Error as error:
        said = str(error).rstrip(".")
        raise NeedReplayError(f"This world cannot be drawn: {said}.") from error
    if not isinstance(picture, np.ndarray):
        raise NeedReplayError("This world draws no pictures, so there is nothing to film.")
    return picture


def _need(agent: DeepAgent, obs: AnyArray, recent: deque[tuple[AnyArray, int]]) -> AnyArray:
    if agent.successor is None:
        return np.zeros(0)
    stacked = np.stack([before for before, _ in recent])
    return agent.need_of(obs, stacked, np.array([action for _, action in recent]))
