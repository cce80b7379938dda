"""One trial: a fresh agent lives through episodes of a table, all in compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from needreplay.rules.successor import closed_form, transition_matrix
from needreplay.tabular import dyna, sweeping
from needreplay.tabular.layout import EVENTS, UPDATES, Knowledge, Records, new_knowledge, q_values
from needreplay.tabular.log import new_log
from needreplay.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
from needreplay.types import FloatArray, IntArray, TransitionTable


@dataclass(frozen=True)
class Trial:
    """What a trial left behind."""

    lengths: IntArray
    """steps of each episode"""
    knowledge: Knowledge

    @property
    def Q(self) -> FloatArray:
        """[state, action]."""
        return q_values(self.knowledge)

    @property
    def M(self) -> FloatArray:
        """[state, state]; empty for an agent without need."""
        return self.knowledge.M

    @property
    def updates(self) -> int:
        """How many Q-updates were made."""
        return int(self.knowledge.counts[UPDATES])


def random_policy_successor(table: TransitionTable, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹ of the policy that takes every action equally often."""
    policy = np.full(table.next_state.shape, 1.0 / table.n_actions)
    return closed_form(transition_matrix(table.next_state, table.ends, policy), discount)


def new_agent(table: TransitionTable, settings: LearningSettings) -> Knowledge:
    """An agent that has seen nothing of ``table``; need begins at the random policy's M."""
    M = None
    if isinstance(settings, SweepingSettings) and settings.uses_successor:
        M = random_policy_successor(table, settings.discount)
    return new_knowledge(table.n_states, table.n_actions, M)


def live(
    knowledge: Knowledge,
    table: TransitionTable,
    settings: LearningSettings,
    episodes: int,
    rng: np.random.Generator,
    *,
    first_episode: int = 0,
    log: Records | None = None,
) -> IntArray:
    """Let an agent live on for some episodes; the steps of each. Writes ``knowledge``."""
    lengths = np.zeros(episodes, np.int64)
    if isinstance(settings, SweepingSettings):
        log = new_log(0) if log is None else log
        rule = sweeping.rule_of(settings)
        sweeping.run_episodes(knowledge, rule, table, first_episode, lengths, rng, log)
    else:
        dyna.run_episodes(knowledge, *_dyna_numbers(settings), table, lengths, rng)
    return lengths


def run_trial(
    table: TransitionTable, settings: LearningSettings, episodes: int, rng: np.random.Generator
) -> Trial:
    """A fresh agent's first episodes."""
    knowledge = new_agent(table, settings)
    return Trial(live(knowledge, table, settings, episodes, rng), knowledge)


def logged_trial(
    table: TransitionTable, settings: SweepingSettings, episodes: int, rng: np.random.Generator
) -> tuple[Trial, Records]:
    """The same trial with every replay event (``log.EVENT``), in order.

    How many there will be is not known beforehand: a trial that overflows its log is run again,
    from the same random state, with room for all.
    """
    start = rng.bit_generator.state
    log = new_log(1 << 14)
    while True:
        rng.bit_generator.state = start
        knowledge = new_agent(table, settings)
        lengths = live(knowledge, table, settings, episodes, rng, log=log)
        events = int(knowledge.counts[EVENTS])
        if events <= len(log):
            return Trial(lengths, knowledge), log[:events]
        log = new_log(events)


def updates_until_optimal(
    table: TransitionTable,
    settings: LearningSettings,
    shortest: int,
    budget: int,
    rng: np.random.Generator,
) -> tuple[int, bool]:
    """Q-updates until the greedy path has ``shortest`` steps, and whether it was found in time."""
    agent = new_agent(table, settings)
    if isinstance(settings, SweepingSettings):
        rule, log = sweeping.rule_of(settings), new_log(0)
        found = sweeping.run_until_optimal(agent, rule, table, shortest, budget, rng, log)
    else:
        numbers = _dyna_numbers(settings)
        found = dyna.run_until_optimal(agent, *numbers, table, shortest, budget, rng)
    return int(agent.counts[UPDATES]), bool(found)


def _dyna_numbers(settings: LearningSettings) -> tuple[float, float, float, int]:
    planning = settings.planning_updates if isinstance(settings, DynaSettings) else 0
    return (
        float(settings.discount),
        float(settings.step_size),
        float(settings.epsilon),
        int(planning),
    )
