"""Walking a world with a deep agent: training that yields at every episode's end, evaluation.

Every reset is seeded from the run's seed and the episode's number, so that between two episodes
nothing of the world has to be remembered. An episode is a whole game: a life that is lost in it
may be an end for the learner (``info["life_lost"]``), and the game goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from needreplay.core.rng import stream

if TYPE_CHECKING:
    import gymnasium

    from needreplay.deep import DeepAgent, Learned


class Episode(NamedTuple):
    """An episode of training that is over."""

    number: int
    length: int
    total: float
    """the sum of its rewards, unclipped"""


def reset_seed(seed: int, *names: str | int) -> int:
    """The seed of one reset."""
    return int(stream(seed, "reset", *names).integers(2**31))


def train(
    env: gymnasium.Env[Any, Any],
    agent: DeepAgent,
    *,
    seed: int,
    first_episode: int,
    on_update: Callable[[Learned], None],
    on_step: Callable[[], None],
) -> Iterator[Episode]:
    """Episodes without end, each yielded when it is over and all that it taught is learned."""
    number = first_episode
    obs, _ = env.reset(seed=reset_seed(seed, "train", number))
    while True:
        length, total, ended = 0, 0.0, False
        action: int | None = None
        while not ended:
            if action is None:
                action = agent.act(obs)
            next_obs, reward, terminated, truncated, info = env.step(action)
            ended = bool(terminated or truncated)
            # The action after the step is chosen before it is stored, where it is stored too.
            following = agent.act(next_obs) if agent.stores_next_action else None
            agent.observe(
                obs,
                action,
                float(reward),
                next_obs,
                bool(terminated or info.get("life_lost", False)),
                bool(truncated),
                following or 0,
            )
            length, total = length + 1, total + float(reward)
            action = None if ended else following
            if ended:
                next_obs, _ = env.reset(seed=reset_seed(seed, "train", number + 1))
            obs = next_obs
            learned = agent.learn(obs)
            if learned is not None:
                on_update(learned)
            on_step()
        yield Episode(number, length, total)
        number += 1


def evaluate(
    env: gymnasium.Env[Any, Any],
    agent: DeepAgent,
    *,
    seed: int,
    iteration: int,
    steps: int,
    on_step: Callable[[int, int], None],
) -> list[float]:
    """Returns of whole episodes, enough to fill ``steps``; the agent stays as it is.

    ``on_step`` is called with the steps done and ``steps``.
    """
    returns: list[float] = []
    walked = 0
    while walked < steps:
        names = ("eval", iteration, len(returns))
        choices = np.random.default_rng(reset_seed(seed, *names, "actions"))
        obs, _ = env.reset(seed=reset_seed(seed, *names))
        total, ended = 0.0, False
        while not ended:
            action = agent.act_in_evaluation(obs, choices)
            obs, reward, terminated, truncated, _ = env.step(action)
            ended = bool(terminated or truncated)
            total += float(reward)
            walked += 1
            on_step(walked, steps)
        returns.append(total)
    return returns
