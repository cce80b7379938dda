"""Let a step-by-step agent live in a Gymnasium environment with numbered states and actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import FloatArray, IntArray
from needreplay.tabular.agents import TabularAgent


class Environment(Protocol):
    """The part of Gymnasium's interface that is used."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        ...


@dataclass(frozen=True)
class Played:
    """What was lived through: one entry for each episode."""

    steps: IntArray
    returns: FloatArray


def play(agent: TabularAgent, env: Environment, episodes: int, *, seed: int = 0) -> Played:
    """Live through ``episodes`` episodes, learning from each step.

    An episode ends where the environment terminates it or cuts it short (truncates it); only a
    termination is told to the agent. The first reset is seeded, those after it follow from it.

    Args:
        agent: any agent of ``tabular.agents``.
        env: an environment whose observations and actions are whole numbers from 0
            (``worlds.as_discrete`` makes sure of that, or says why it cannot be).
        episodes: how many.
        seed: of the environment.
    """
    if episodes < 1:
        raise NeedReplayError(f"episodes is {episodes}; it must be at least 1.")
    steps, returns = np.zeros(episodes, np.int64), np.zeros(episodes)
    for episode in range(episodes):
        state, _ = env.reset(seed=seed) if episode == 0 else env.reset()
        agent.begin(state)
        terminated = truncated = False
        while not (terminated or truncated):
            action = agent.act(state)
            next_state, reward, terminated, truncated, _ = env.step(action)
            agent.learn(state, action, reward, next_state, terminated)
            state = next_state
            steps[episode] += 1
            returns[episode] += reward
    return Played(steps, returns)
