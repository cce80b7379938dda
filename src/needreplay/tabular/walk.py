"""Walking a table: the reward of a step, and the path that Q now prefers."""

from __future__ import annotations

import numpy as np

from needreplay.compiled import compiled_in_place
from needreplay.tabular.layout import N_ACTIONS, Knowledge
from needreplay.types import TransitionTable


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
