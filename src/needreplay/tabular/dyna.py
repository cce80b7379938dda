"""Dyna-Q as compiled kernels; without planning it is Q-learning (Sutton & Barto, section 8.2)."""

from __future__ import annotations

import numpy as np

from needreplay.compiled import compiled_in_place
from needreplay.tabular.backup import update
from needreplay.tabular.choose import epsilon_greedy
from needreplay.tabular.layout import N_ACTIONS, SEEN, UPDATES, Knowledge
from needreplay.tabular.model import record
from needreplay.tabular.walk import drawn_reward, greedy_path_is
from needreplay.types import IntArray, TransitionTable


@compiled_in_place
def learn_from_step(
    agent: Knowledge,
    discount: float,
    step_size: float,
    planning_updates: int,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    ends: bool,
    rng: np.random.Generator,
) -> None:
    """One Q-update of the step just taken, then n of pairs drawn from the model.

    Writes ``agent``.
    """
    pair = state * agent.counts[N_ACTIONS] + action
    record(agent, pair, reward, next_state, 0.0 if ends else discount)
    update(agent, step_size, pair)
    for _ in range(planning_updates):
        drawn = int(rng.random() * agent.counts[SEEN])
        update(agent, step_size, agent.pairs[drawn]["seen"])


@compiled_in_place
def _live_one_step(
    agent: Knowledge,
    discount: float,
    step_size: float,
    epsilon: float,
    planning_updates: int,
    table: TransitionTable,
    state: int,
    rng: np.random.Generator,
) -> tuple[int, bool]:
    """Act, see what follows, learn; the next state and whether the episode ended."""
    action = epsilon_greedy(agent, state, epsilon, rng.random())
    reward = drawn_reward(table, state, action, rng)
    next_state, ends = table.next_state[state, action], table.ends[state, action]
    learn_from_step(
        agent, discount, step_size, planning_updates, state, action, reward, next_state, ends, rng
    )
    return next_state, ends


@compiled_in_place
def run_episodes(
    agent: Knowledge,
    discount: float,
    step_size: float,
    epsilon: float,
    planning_updates: int,
    table: TransitionTable,
    lengths: IntArray,
    rng: np.random.Generator,
) -> None:
    """Live through whole episodes. Writes ``agent``, and each one's steps in ``lengths``."""
    for index in range(lengths.shape[0]):
        state, step, ends = table.start, 0, False
        while not ends:
            state, ends = _live_one_step(
                agent, discount, step_size, epsilon, planning_updates, table, state, rng
            )
            step += 1
        lengths[index] = step


@compiled_in_place
def run_until_optimal(
    agent: Knowledge,
    discount: float,
    step_size: float,
    epsilon: float,
    planning_updates: int,
    table: TransitionTable,
    shortest: int,
    budget: int,
    rng: np.random.Generator,
) -> bool:
    """Live until the greedy path has ``shortest`` steps, or ``budget`` updates are spent.

    True where the path was found. Writes ``agent``.
    """
    state = table.start
    while agent.counts[UPDATES] < budget:
        state, ends = _live_one_step(
            agent, discount, step_size, epsilon, planning_updates, table, state, rng
        )
        if greedy_path_is(agent, table, shortest):
            return True
        if ends:
            state = table.start
    return False
