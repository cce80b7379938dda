"""Evaluation: play episodes with an agent that stays as it is, during a run or after it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from needlab.core.types import Env
from needlab.runs.config import RunConfig, make_agent, make_env
from needlab.runs.run_folder import checked_digests, config_of, newest_checkpoint, steps_of
from needlab.runs.train_loop import Played, reset_seed
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

if TYPE_CHECKING:
    from needlab.deep import DeepAgent
    from needreplay.need import NeedQuality
    from needreplay.replay import ReplayBuffer


def play_episode(
    env: Env,
    agent: DeepAgent,
    seed: int,
    *names: str | int,
    store: ReplayBuffer | None = None,
    most_steps: float = float("inf"),
    on_step: Callable[[], None] = lambda: None,
) -> Played:
    """Play one episode; it depends on the agent, ``seed`` and ``names`` alone.

    Its steps are added to ``store``.
    """
    rng = np.random.default_rng(reset_seed(seed, *names, "actions"))
    obs, _ = env.reset(seed=reset_seed(seed, *names))
    total, length, ended = 0.0, 0, False
    while not ended and length < most_steps:
        action = agent.act_in_evaluation(obs, rng)
        before = obs
        obs, reward, terminated, truncated, _ = env.step(action)
        ended = bool(terminated or truncated)
        if store is not None:
            store.add(
                obs=before,
                action=action,
                reward=float(reward),
                next_obs=obs,
                terminated=bool(terminated),
                truncated=not terminated and (ended or length + 1 >= most_steps),
            )
        total, length = total + float(reward), length + 1
        on_step()
    return Played(total, length)


def evaluate(
    env: Env,
    agent: DeepAgent,
    *,
    seed: int,
    iteration: int,
    steps: int,
    on_step: Callable[[int], None],
) -> list[float]:
    """Play complete episodes until ``steps`` are done; return their returns.

    ``on_step`` is called with the steps done so far.
    """
    returns: list[float] = []
    done = 0

    def stepped() -> None:
        nonlocal done
        done += 1
        on_step(done)

    while done < steps:
        played = play_episode(env, agent, seed, "eval", iteration, len(returns), on_step=stepped)
        returns.append(played.total)
    return returns


class Player(NamedTuple):
    """The agent of a checkpoint."""

    config: RunConfig
    agent: DeepAgent
    steps: int
    """of training before the checkpoint"""

    def play(
        self,
        episodes: int,
        seed: int,
        *,
        store: ReplayBuffer | None = None,
        most_steps: float = float("inf"),
    ) -> list[Played]:
        """Play episodes of at most ``most_steps``, each seeded from ``seed`` and its number."""
        with closing(make_env(self.config)) as env:
            return [
                play_episode(env, self.agent, seed, "play", i, store=store, most_steps=most_steps)
                for i in range(episodes)
            ]

    def empty_store(self, capacity: int = 20_000) -> ReplayBuffer:
        """A buffer for the steps of played episodes."""
        from needreplay.replay import ReplayBuffer, UniformSampler

        with closing(make_env(self.config)) as env:
            space = env.observation_space
        return ReplayBuffer.for_spaces(space, np.int64, capacity=capacity, sampler=UniformSampler())

    def need_quality(self, store: ReplayBuffer, seed: int) -> NeedQuality | None:
        """How accurate the agent's need is on new episodes in ``store``; None without need."""
        return self.agent.need_quality(stream(seed, "need quality"), store)


def load_player(
    folder: str | Path,
    *,
    epsilon: float | None = None,
    with_buffer: bool = False,
    allow_code: Collection[str] = (),
) -> Player:
    """Load the agent of a run's newest checkpoint, on the CPU.

    Args:
        folder: the run's.
        epsilon: probability of random actions; the run's own unless given.
        with_buffer: load the replay buffer, too; without it the agent can only play.
        allow_code: modules that the run may import for its world, agent, sampler or network.
    """
    from needlab.deep.checkpoint import NETWORKS, load_agent, load_networks

    path = Path(folder)
    config = replace(config_of(path, allow_code), device="cpu")
    if epsilon is not None:
        config = replace(config, overrides={**config.overrides, "eval_epsilon": epsilon})
    if newest_checkpoint(path) is None:
        raise NeedReplayError(
            f"The run in {str(path)!r} has no checkpoint yet; train on: the first comes after "
            f"{config.resolved().protocol.checkpoint_steps:,} steps, or some minutes, or at Ctrl-C."
        )
    with closing(make_env(config)) as env:
        agent = make_agent(config, env, capacity=None if with_buffer else 64)
    while True:
        found = newest_checkpoint(path)
        assert found is not None
        try:
            if with_buffer:
                checked_digests(found)
                load_agent(agent, found)
            else:
                checked_digests(found, NETWORKS)
                load_networks(agent, found)
        except NeedReplayError:
            # A run under way may have replaced it in the meantime.
            if newest_checkpoint(path) != found:
                continue
            raise
        return Player(config, agent, steps_of(found))
