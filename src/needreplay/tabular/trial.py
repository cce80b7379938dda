"""One trial: a fresh agent lives through episodes of a table, all in compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from needreplay.core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay.core.rng import stream
from needreplay.core.types import AnyArray, FloatArray, IntArray, TransitionTable
from needreplay.rules.successor import closed_form, transition_matrix
from needreplay.tabular import dyna, sweeping
from needreplay.tabular.layout import (
    EVENTS,
    STEPS,
    UPDATES,
    Knowledge,
    Records,
    new_knowledge,
    q_values,
)
from needreplay.tabular.log import new_log
from needreplay.tabular.settings import LearningSettings, SweepingSettings, agent_settings
from needreplay.tabular.walk import Until


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
    _run(knowledge, table, settings, Until(episodes), lengths, rng, first_episode, log)
    return lengths


def _run(
    knowledge: Knowledge,
    table: TransitionTable,
    settings: LearningSettings,
    until: Until,
    lengths: IntArray,
    rng: np.random.Generator,
    first_episode: int = 0,
    log: Records | None = None,
) -> bool:
    if isinstance(settings, SweepingSettings):
        rule, log = sweeping.rule_of(settings), new_log(0) if log is None else log
        return bool(
            sweeping.run_episodes(knowledge, rule, table, first_episode, until, lengths, rng, log)
        )
    return bool(dyna.run_episodes(knowledge, dyna.rule_of(settings), table, until, lengths, rng))


def run_trial(
    table: TransitionTable, settings: LearningSettings, episodes: int, rng: np.random.Generator
) -> Trial:
    """A fresh agent's first episodes."""
    knowledge = new_agent(table, settings)
    return Trial(live(knowledge, table, settings, episodes, rng), knowledge)


def run_trials(
    settings: LearningSettings | str,
    table: TransitionTable,
    episodes: int,
    trials: int,
    seed: int = 0,
    *,
    first_trial: int = 0,
    key: tuple[str | int, ...] = ("maze",),
) -> dict[str, AnyArray]:
    """Run any tabular agent on any table: one row per trial and episode, as columns.

    >>> import numpy as np
    >>> from needreplay.tabular.settings import agent_settings
    >>> table = TransitionTable(
    ...     next_state=np.array([[1, 0], [2, 0], [2, 2]]),
    ...     reward_mean=np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
    ...     reward_std=np.zeros((3, 2)),
    ...     ends=np.array([[False, False], [True, False], [False, False]]),
    ...     start=0,
    ... )
    >>> columns = run_trials(agent_settings("ps-sr"), table, episodes=5, trials=2)
    >>> columns["steps"].reshape(2, 5)[:, -1].tolist()
    [2, 2]

    ``worlds.make_table`` makes the table of any tabular world from its name.

    Args:
        settings: of the agent (see ``settings.agent_settings``), or its name.
        table: the world.
        episodes: of each trial.
        trials: how many; each begins with a fresh agent.
        seed: trial i depends on the seed, ``key`` and i alone, whatever else runs.
        first_trial: the number of the first one, so that a part of the trials can be run.
        key: names of the random stream; the same for all agents, so that trials are paired.

    Returns:
        ``trial``, ``episode`` and ``steps``, each [trials * episodes].
    """
    if isinstance(settings, str):
        settings = agent_settings(settings)
    for name, value, bounds in (
        ("episodes", episodes, AT_LEAST_ONE), ("trials", trials, AT_LEAST_ONE),
        ("first_trial", first_trial, COUNT), ("seed", seed, COUNT),
    ):  # fmt: skip
        check_number(name, value, int, bounds)
    numbers = np.arange(first_trial, first_trial + trials)
    steps = [
        run_trial(table, settings, episodes, stream(seed, *key, int(number))).lengths
        for number in numbers
    ]
    return {
        "trial": np.repeat(numbers, episodes),
        "episode": np.tile(np.arange(episodes), trials),
        "steps": np.concatenate(steps),
    }


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


@dataclass(frozen=True)
class Search:
    """How long an agent took until its greedy path was a shortest one."""

    found: bool
    """whether it was, within its steps"""
    updates: int
    """Q-updates until then"""
    steps: int
    """steps in the world until then"""
    knowledge: Knowledge


def search_until_optimal(
    table: TransitionTable,
    settings: LearningSettings,
    shortest: int,
    steps: int,
    rng: np.random.Generator,
) -> Search:
    """Let a fresh agent live until its greedy path has ``shortest`` steps, at most ``steps``."""
    knowledge = new_agent(table, settings)
    until = Until(steps=steps, shortest=shortest)
    found = _run(knowledge, table, settings, until, np.zeros(0, np.int64), rng)
    counts = knowledge.counts
    return Search(found, int(counts[UPDATES]), int(counts[STEPS]), knowledge)


def model_holds_path(search: Search, table: TransitionTable, length: int) -> bool:
    """Whether the pairs that the agent has experienced hold a path to the goal so short.

    Where they do and its greedy path is longer, it is not exploration that lacks, but updates.
    """
    pairs = search.knowledge.pairs
    known = (pairs["next_state"] >= 0).reshape(table.next_state.shape)
    distance = np.full(table.n_states, np.inf)
    for _ in range(length):
        after = np.where(table.ends, 0.0, distance[table.next_state])
        distance = np.where(known, 1.0 + after, np.inf).min(axis=1)
    return bool(distance[table.start] <= length)
