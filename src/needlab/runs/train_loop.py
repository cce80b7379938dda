"""The training loop: an agent acts, stores the step and learns; yields at the end of each episode.

Every reset is seeded from the run's seed and the episode's number, so a run can resume between two
episodes without the state of the environment. An episode is a complete game: a lost life
(``info["life_lost"]``) may end it for the learner, but the game continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from needlab.core.types import Env
from needreplay._core.rng import stream

if TYPE_CHECKING:
    from needlab.deep import DeepAgent, UpdateStats


class Played(NamedTuple):
    """One episode."""

    total: float
    """the sum of its rewards, unclipped"""
    length: int


def reset_seed(seed: int, *names: str | int) -> int:
    """The seed of one reset of the environment."""
    return int(stream(seed, "reset", *names).integers(2**31))


def train(
    env: Env,
    agent: DeepAgent,
    *,
    seed: int,
    first_episode: int,
    on_update: Callable[[UpdateStats], None],
    on_step: Callable[[], None],
    names: tuple[str | int, ...] = ("train",),
    learns: bool = True,
) -> Iterator[Played]:
    """Play and learn without end; yield each episode.

    Args:
        env: the world.
        agent: who plays.
        seed: of the run.
        first_episode: its number.
        on_update: called with each update.
        on_step: called after each step.
        names: of the random stream of resets.
        learns: whether the agent learns here, or only plays.
    """
    episode = first_episode
    obs, _ = env.reset(seed=reset_seed(seed, *names, episode))
    while True:
        total, length, ended = 0.0, 0, False
        action: int | None = None
        while not ended:
            if action is None:
                action = agent.act(obs)
            next_obs, reward, terminated, truncated, info = env.step(action)
            ended = bool(terminated or truncated)
            # Where the next action is stored with the step, it is chosen before the step is stored.
            next_action = agent.act(next_obs) if agent.stores_next_action else None
            agent.observe(
                obs,
                action,
                float(reward),
                next_obs,
                bool(terminated or info.get("life_lost", False)),
                bool(truncated),
                next_action or 0,
            )
            total, length = total + float(reward), length + 1
            action = None if ended else next_action
            if ended:
                next_obs, _ = env.reset(seed=reset_seed(seed, *names, episode + 1))
            obs = next_obs
            learned = agent.learn(obs) if learns else None
            if learned is not None:
                on_update(learned)
            on_step()
        yield Played(total, length)
        episode += 1
