"""Dyna-Q as compiled kernels; without planning it is Q-learning (Sutton & Barto, section 8.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import IntArray, TransitionTable
from needreplay.tabular.backup import update
from needreplay.tabular.choose import uniform_index
from needreplay.tabular.layout import N_ACTIONS, SEEN, STEPS, Knowledge
from needreplay.tabular.model import record
from needreplay.tabular.settings import DynaSettings, LearningSettings
from needreplay.tabular.walk import Until, greedy_path_is, take_step


class Rule(NamedTuple):
    """``DynaSettings`` as numbers, for kernels."""

    discount: float
    step_size: float
    epsilon: float
    planning_updates: int


def rule_of(settings: LearningSettings) -> Rule:
    """The numbers that kernels read; settings that say nothing of planning have none."""
    planning = settings.planning_updates if isinstance(settings, DynaSettings) else 0
    return Rule(
        discount=float(settings.discount),
        step_size=float(settings.step_size),
        epsilon=float(settings.epsilon),
        planning_updates=int(planning),
    )


@compiled_in_place
def learn_from_step(
    agent: Knowledge,
    rule: Rule,
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
    record(agent, pair, reward, next_state, 0.0 if ends else rule.discount)
    update(agent, rule.step_size, pair)
    for _ in range(rule.planning_updates):
        drawn = uniform_index(rng.random(), agent.counts[SEEN])
        update(agent, rule.step_size, agent.pairs[drawn]["seen"])


@compiled_in_place
def run_episodes(
    agent: Knowledge,
    rule: Rule,
    table: TransitionTable,
    until: Until,
    lengths: IntArray,
    rng: np.random.Generator,
) -> bool:
    """Live through episodes; true where ``until`` asked for a shortest path and it was found.

    Writes ``agent``, and as many episodes' steps as there is room for in ``lengths``.
    """
    for index in range(until.episodes):
        state, step, ends = table.start, 0, False
        while not ends:
            if agent.counts[STEPS] >= until.steps:
                return False
            action, reward, next_state, ends = take_step(agent, table, state, rule.epsilon, rng)
            learn_from_step(agent, rule, state, action, reward, next_state, ends, rng)
            if until.shortest > 0 and greedy_path_is(agent, table, until.shortest):
                return True
            state = next_state
            step += 1
        if index < lengths.shape[0]:
            lengths[index] = step
    return False
