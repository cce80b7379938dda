"""Walking a table: a step, when to stop, and the path that Q now prefers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import TransitionTable
from needreplay.tabular.choose import epsilon_greedy
from needreplay.tabular.layout import N_ACTIONS, STEPS, Knowledge

NO_LIMIT = 2**62


class Until(NamedTuple):
    """When an agent stops living: whichever comes first."""

    episodes: int = NO_LIMIT
    steps: int = NO_LIMIT
    """in the world; Q-updates are no such limit: where a queue is empty there are none"""
    shortest: int = 0
    """steps of the greedy path, looked at after every step; 0 does not look"""


@compiled_in_place
def drawn_reward(
    table: TransitionTable, state: int, action: int, rng: np.random.Generator
) -> float:
    """r ~ N(mean, std) of this pair; no random number is drawn where std is 0."""
    reward: float = table.reward_mean[state, action]
    spread = table.reward_std[state, action]
    if spread > 0.0:
        reward += spread * rng.standard_normal()
    return reward


@compiled_in_place
def take_step(
    agent: Knowledge, table: TransitionTable, state: int, epsilon: float, rng: np.random.Generator
) -> tuple[int, float, int, bool]:
    """Choose ε-greedily and go: the action, its reward, where it led, whether the episode ended.

    Writes the number of steps.
    """
    action = epsilon_greedy(
        agent.pairs, agent.counts[N_ACTIONS], state, agent.states[state]["value"], epsilon,
        rng.random(),
    )  # fmt: skip
    reward = drawn_reward(table, state, action, rng)
    agent.counts[STEPS] += 1
    return action, reward, table.next_state[state, action], table.ends[state, action]


@compiled_in_place
def greedy_path_is(agent: Knowledge, table: TransitionTable, length: int) -> bool:
    """Whether the greedy path ends after exactly ``length`` steps; of equal actions, the first."""
    pairs, n_actions = agent.pairs, agent.counts[N_ACTIONS]
    state = table.start
    for step in range(1, length + 1):
        value = agent.states[state]["value"]
        action = 0
        while pairs[state * n_actions + action]["q"] != value:
            action += 1
        if table.ends[state, action]:
            return step == length
        state = table.next_state[state, action]
    return False
