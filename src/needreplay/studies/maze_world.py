"""The Dyna maze as the studies use it: its table and its streams."""

from __future__ import annotations

from functools import cache

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.types import TransitionTable
from needreplay.rules.policy import epsilon_greedy_policy, expected_steps
from needreplay.rules.successor import transition_matrix
from needreplay.worlds import DYNA_MAZE, Layout, maze_table, parse_layout


@cache
def dyna_layout() -> Layout:
    """The paper's board, 6 x 9."""
    return parse_layout(DYNA_MAZE)


@cache
def dyna_table(reward_std: float = 0.1) -> TransitionTable:
    """The paper's maze as a table."""
    return maze_table(dyna_layout(), reward_std)


def best_mean_steps(table: TransitionTable, epsilon: float) -> float:
    """The mean length of an episode that follows shortest paths, random actions included."""
    distance = np.where(table.ends, 0.0, np.inf).min(axis=1)
    while True:
        following = np.where(table.ends, 0.0, distance[table.next_state])
        nearer = 1.0 + following.min(axis=1)
        if (nearer == distance).all():
            break
        distance = nearer
    policy = epsilon_greedy_policy(-following, epsilon)
    T = transition_matrix(table.next_state, table.ends, policy)
    return expected_steps(T, table.start)


def trial_stream(seed: int, trial: int) -> np.random.Generator:
    """The random numbers of one trial, the same for every preset and agent.

    So agents are compared on the same luck: until one of them has learned something, they walk the
    very same steps.
    """
    return stream(seed, "maze", trial)
