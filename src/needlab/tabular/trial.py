"""Trials: a fresh agent learns for some episodes of a table, all in compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from needlab.core.jit import compiled_in_place
from needlab.tabular.arrays import EVENTS, N_ACTIONS, STEPS, AgentArrays, new_arrays
from needlab.tabular.dyna import dyna_step, epsilon_greedy
from needlab.tabular.settings import (
    LearningSettings,
    Parameters,
    SweepingSettings,
    agent_settings,
    parameters_of,
)
from needlab.tabular.successor import transition_matrix
from needlab.tabular.sweeping import EVENT, clear_trace, sweeping_step
from needlab.worlds.task import TransitionTable
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import closed_form

NO_LIMIT = 2**62
EPISODE = np.dtype([("steps", np.int64), ("return", np.float64), ("terminated", np.bool_)])
"""One episode: its steps, its sum of rewards, and whether it ended before it was cut."""


def run_trials(
    settings: LearningSettings | str,
    table: TransitionTable,
    episodes: int,
    trials: int,
    seed: int = 0,
    *,
    first_trial: int = 0,
    key: tuple[str | int, ...] = ("maze",),
    max_episode_steps: int = 1_000_000,
) -> dict[str, AnyArray]:
    """Run any tabular agent on any table: one row per trial and episode, as columns.

    >>> from needlab.tabular.settings import agent_settings
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
        max_episode_steps: an episode is cut after so many steps.

    Returns:
        ``trial``, ``episode``, ``steps``, ``return`` (the sum of rewards) and ``terminated`` (false
        where the episode was cut), each [trials * episodes].
    """
    if isinstance(settings, str):
        settings = agent_settings(settings)
    for name, value, bounds in (
        ("episodes", episodes, AT_LEAST_ONE),
        ("trials", trials, AT_LEAST_ONE),
        ("seed", seed, COUNT),
        ("first_trial", first_trial, COUNT),
        ("max_episode_steps", max_episode_steps, AT_LEAST_ONE),
    ):
        check_number(name, value, int, bounds)
    numbers = np.arange(first_trial, first_trial + trials)
    rows = np.zeros(trials * episodes, EPISODE)
    for place, number in enumerate(numbers.tolist()):
        own = rows[place * episodes : (place + 1) * episodes]
        limits = Limits(episodes, episode_steps=max_episode_steps)
        rng = stream(seed, *key, number)
        _run(new_agent(table, settings), table, settings, limits, own, rng)
    return {
        "trial": np.repeat(numbers, episodes),
        "episode": np.tile(np.arange(episodes), trials),
        **{name: rows[name].copy() for name in EPISODE.names or ()},
    }


def random_policy_successor(table: TransitionTable, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹ of the policy that takes every action equally often."""
    policy = np.full(table.next_state.shape, 1.0 / table.n_actions)
    return closed_form(transition_matrix(table.next_state, table.ends, policy), discount)


def initial_successor(table: TransitionTable, settings: LearningSettings) -> FloatArray | None:
    """M before the first step, the random policy's; None for an agent that has no M."""
    if isinstance(settings, SweepingSettings) and settings.uses_successor:
        return random_policy_successor(table, settings.horizon)
    return None


def new_agent(table: TransitionTable, settings: LearningSettings) -> AgentArrays:
    """An agent that has seen nothing of ``table``; M, if it has one, is the random policy's."""
    return new_arrays(table.n_states, table.n_actions, initial_successor(table, settings))


def run_episodes(
    agent: AgentArrays,
    table: TransitionTable,
    settings: LearningSettings,
    episodes: int,
    rng: np.random.Generator,
    *,
    first_episode: int = 0,
    log: AnyArray | None = None,
) -> IntArray:
    """Let an agent learn for some more episodes; returns the steps of each. Changes ``agent``."""
    rows = np.zeros(episodes, EPISODE)
    _run(agent, table, settings, Limits(episodes), rows, rng, first_episode, log)
    steps: IntArray = rows["steps"].copy()
    return steps


class TrialResult(NamedTuple):
    """The steps of each episode, and the agent at the end."""

    lengths: IntArray
    agent: AgentArrays


def run_trial(
    table: TransitionTable, settings: LearningSettings, episodes: int, rng: np.random.Generator
) -> TrialResult:
    """The first episodes of a fresh agent."""
    agent = new_agent(table, settings)
    return TrialResult(run_episodes(agent, table, settings, episodes, rng), agent)


def logged_trial(
    table: TransitionTable, settings: SweepingSettings, episodes: int, rng: np.random.Generator
) -> tuple[TrialResult, AnyArray]:
    """The same trial with every replayed pair (``sweeping.EVENT``), in order.

    Their number is not known beforehand: a trial that overflows its log runs again, from the same
    random state, with a log that is long enough.
    """
    start = rng.bit_generator.state
    log = np.zeros(1 << 14, EVENT)
    while True:
        rng.bit_generator.state = start
        agent = new_agent(table, settings)
        lengths = run_episodes(agent, table, settings, episodes, rng, log=log)
        events = int(agent.counts[EVENTS])
        if events <= len(log):
            return TrialResult(lengths, agent), log[:events]
        log = np.zeros(events, EVENT)


@dataclass(frozen=True)
class SearchResult:
    """How long an agent took until its greedy path was a shortest one."""

    found: bool
    """whether it was, within its steps"""
    updates: int
    """Q-updates until then"""
    steps: int
    """steps in the world until then"""
    agent: AgentArrays


def search_until_optimal(
    table: TransitionTable,
    settings: LearningSettings,
    shortest: int,
    steps: int,
    rng: np.random.Generator,
) -> SearchResult:
    """Let a fresh agent learn until its greedy path has ``shortest`` steps, or ``steps`` passed."""
    agent = new_agent(table, settings)
    limits = Limits(steps=steps, shortest=shortest)
    found = _run(agent, table, settings, limits, np.zeros(0, EPISODE), rng)
    return SearchResult(found, agent.updates, int(agent.counts[STEPS]), agent)


def model_holds_path(agent: AgentArrays, table: TransitionTable, length: int) -> bool:
    """Whether the pairs that the agent has experienced hold a path to the goal so short.

    Where they do and its greedy path is longer, exploration is not what is missing, but updates.
    """
    known = (agent.pairs["next_state"] >= 0).reshape(table.next_state.shape)
    distance = np.full(table.n_states, np.inf)
    for _ in range(length):
        after = np.where(table.ends, 0.0, distance[table.next_state])
        distance = np.where(known, 1.0 + after, np.inf).min(axis=1)
    return bool(distance[table.start] <= length)


class Limits(NamedTuple):
    """When to stop: whichever comes first."""

    episodes: int = NO_LIMIT
    steps: int = NO_LIMIT
    """in the world, of all episodes"""
    episode_steps: int = NO_LIMIT
    """an episode is cut after so many"""
    shortest: int = 0
    """steps of the greedy path, tested after every step; 0: not tested"""


def _run(
    agent: AgentArrays,
    table: TransitionTable,
    settings: LearningSettings,
    limits: Limits,
    rows: AnyArray,
    rng: np.random.Generator,
    first_episode: int = 0,
    log: AnyArray | None = None,
) -> bool:
    log = np.zeros(0, EVENT) if log is None else log
    parameters = parameters_of(settings)
    return bool(_run_kernel(agent, parameters, table, limits, rows, rng, first_episode, log))


@compiled_in_place
def _run_kernel(
    agent: AgentArrays,
    parameters: Parameters,
    table: TransitionTable,
    limits: Limits,
    rows: AnyArray,
    rng: np.random.Generator,
    first_episode: int,
    log: AnyArray,
) -> bool:
    """Act and learn; true where ``limits`` asked for a shortest path and it was found.

    Changes ``agent``, ``log``, and as many ``rows`` (``EPISODE``) as there are.
    """
    for index in range(limits.episodes):
        if parameters.reset_trace:
            clear_trace(agent.trace, agent.active)
        state, step, ends, total = table.start, 0, False, 0.0
        while not ends and step < limits.episode_steps:
            if agent.counts[STEPS] >= limits.steps:
                return False
            action = epsilon_greedy(
                agent.pairs, agent.counts[N_ACTIONS], state, agent.states[state]["value"],
                parameters.epsilon, rng.random(),
            )  # fmt: skip
            reward = _sampled_reward(table, state, action, rng)
            next_state, ends = table.next_state[state, action], table.ends[state, action]
            agent.counts[STEPS] += 1
            if parameters.by_priority:
                sweeping_step(
                    agent, parameters, state, action, reward, next_state, ends,
                    table.start if ends else next_state, first_episode + index, step, log,
                )  # fmt: skip
            else:
                dyna_step(agent, parameters, state, action, reward, next_state, ends, rng)
            if limits.shortest > 0 and greedy_path_is(agent, table, limits.shortest):
                return True
            state = next_state
            step += 1
            total += reward
        if index < rows.shape[0]:
            rows[index]["steps"] = step
            rows[index]["return"] = total
            rows[index]["terminated"] = ends
    return False


@compiled_in_place
def _sampled_reward(
    table: TransitionTable, state: int, action: int, rng: np.random.Generator
) -> float:
    """r ~ N(mean, std) of this pair; takes no random number where std is 0."""
    reward: float = table.reward_mean[state, action]
    spread = table.reward_std[state, action]
    if spread > 0.0:
        reward += spread * rng.standard_normal()
    return reward


@compiled_in_place
def greedy_path_is(agent: AgentArrays, table: TransitionTable, length: int) -> bool:
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
