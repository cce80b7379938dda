"""Trials: a fresh agent learns for some episodes of a table, all in compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from needlab.core.jit import compiled_in_place, jit
from needlab.tabular.arrays import EVENTS, N_ACTIONS, STEPS, AgentArrays, new_arrays
from needlab.tabular.dyna import dyna_step, epsilon_greedy
from needlab.tabular.settings import (
    LearningSettings,
    Parameters,
    SweepingSettings,
    agent_settings,
    parameters_of,
)
from needlab.tabular.successor import random_policy_matrix
from needlab.tabular.sweeping import EVENT, clear_trace, sweeping_step
from needlab.worlds import tabular as _worlds
from needlab.worlds.tabular import Schedule, TabularWorld, check_schedule, steps_to_end
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import closed_form

sampled_reward = jit(_worlds.sampled_reward)
slipped = jit(_worlds.slipped)
start_after = jit(_worlds.start_after)

NO_LIMIT = 2**62
EPISODE = np.dtype([("steps", np.int64), ("return", np.float64), ("terminated", np.bool_)])
"""One episode: its steps, its sum of rewards, and whether it ended before it was cut."""


def run_trials(
    settings: LearningSettings | str,
    world: TabularWorld | Schedule,
    episodes: int,
    trials: int,
    seed: int = 0,
    *,
    first_trial: int = 0,
    key: tuple[str | int, ...] = ("maze",),
    max_episode_steps: int = 1_000_000,
) -> dict[str, AnyArray]:
    """Run any tabular agent in any tabular world: one row per trial and episode, as columns.

    >>> from needlab.tabular.settings import agent_settings
    >>> from needlab.worlds import tabular_world
    >>> columns = run_trials(agent_settings("ps-sr"), tabular_world("S.G"), episodes=5, trials=2)
    >>> columns["steps"].reshape(2, 5)[:, -1].tolist()
    [2, 2]

    Args:
        settings: of the agent (see ``settings.agent_settings``), or its name.
        world: where they learn (``worlds.tabular_world`` makes one), or a list of (first episode,
            world) for a world that changes: the agent keeps what it knows.
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
        rng = stream(seed, *key, number)
        agent = new_agent(check_schedule(world)[0][1], settings)
        _run_schedule(agent, world, settings, own, rng, episode_steps=max_episode_steps)
    return {
        "trial": np.repeat(numbers, episodes),
        "episode": np.tile(np.arange(episodes), trials),
        **{name: rows[name].copy() for name in EPISODE.names or ()},
    }


def random_policy_successor(world: TabularWorld, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹ of the policy that takes every action equally often."""
    return closed_form(random_policy_matrix(world.next_state, world.ends), discount)


def initial_successor(world: TabularWorld, settings: LearningSettings) -> FloatArray | None:
    """M before the first step, the random policy's; None for an agent that has no M."""
    if isinstance(settings, SweepingSettings) and settings.uses_successor:
        return random_policy_successor(world, settings.horizon)
    return None


def new_agent(world: TabularWorld, settings: LearningSettings) -> AgentArrays:
    """An agent that has seen nothing of ``world``; M, if it has one, is the random policy's."""
    return new_arrays(world.n_states, world.n_actions, initial_successor(world, settings))


def run_episodes(
    agent: AgentArrays,
    world: TabularWorld | Schedule,
    settings: LearningSettings,
    episodes: int,
    rng: np.random.Generator,
    *,
    first_episode: int = 0,
    episode_steps: int = NO_LIMIT,
    log: AnyArray | None = None,
) -> IntArray:
    """Let an agent learn for some more episodes; returns the steps of each. Changes ``agent``."""
    rows = np.zeros(episodes, EPISODE)
    _run_schedule(
        agent, world, settings, rows, rng,
        first_episode=first_episode, episode_steps=episode_steps, log=log,
    )  # fmt: skip
    steps: IntArray = rows["steps"].copy()
    return steps


class TrialResult(NamedTuple):
    """The steps of each episode, and the agent at the end."""

    lengths: IntArray
    agent: AgentArrays


def run_trial(
    world: TabularWorld | Schedule,
    settings: LearningSettings,
    episodes: int,
    rng: np.random.Generator,
) -> TrialResult:
    """The first episodes of a fresh agent."""
    agent = new_agent(check_schedule(world)[0][1], settings)
    return TrialResult(run_episodes(agent, world, settings, episodes, rng), agent)


def logged_trial(
    world: TabularWorld | Schedule,
    settings: SweepingSettings,
    episodes: int,
    rng: np.random.Generator,
) -> tuple[TrialResult, AnyArray]:
    """The same trial with every replayed pair (``sweeping.EVENT``), in order.

    Their number is not known beforehand: a trial that overflows its log runs again, from the same
    random state, with a log that is long enough.
    """
    start = rng.bit_generator.state
    log = np.zeros(1 << 14, EVENT)
    while True:
        rng.bit_generator.state = start
        agent = new_agent(check_schedule(world)[0][1], settings)
        lengths = run_episodes(agent, world, settings, episodes, rng, log=log)
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
    world: TabularWorld,
    settings: LearningSettings,
    shortest: int,
    steps: int,
    rng: np.random.Generator,
) -> SearchResult:
    """Let a fresh agent learn until its greedy path has ``shortest`` steps, or ``steps`` passed."""
    agent, nothing = new_agent(world, settings), np.zeros(0, EVENT)
    limits = Limits(steps=steps, shortest=shortest)
    found = _run_kernel(
        agent, parameters_of(settings), world, limits, np.zeros(0, EPISODE), rng, 0,
        np.array([start_after(world, -1, 0, rng)]), nothing,
    )  # fmt: skip
    return SearchResult(bool(found), agent.updates, int(agent.counts[STEPS]), agent)


def model_holds_path(agent: AgentArrays, world: TabularWorld, length: int) -> bool:
    """Whether the pairs that the agent has experienced hold a path to the goal so short.

    Where they do and its greedy path is longer, exploration is not what is missing, but updates.
    """
    known = (agent.pairs["next_state"] >= 0).reshape(world.next_state.shape)
    return bool(steps_to_end(world, world.ends, known)[world.start] <= length)


class Limits(NamedTuple):
    """When to stop: whichever comes first."""

    episodes: int = NO_LIMIT
    steps: int = NO_LIMIT
    """in the world, of all episodes"""
    episode_steps: int = NO_LIMIT
    """an episode is cut after so many"""
    shortest: int = 0
    """steps of the greedy path, tested after every step; 0: not tested"""


def _run_schedule(
    agent: AgentArrays,
    world: TabularWorld | Schedule,
    settings: LearningSettings,
    rows: AnyArray,
    rng: np.random.Generator,
    *,
    first_episode: int = 0,
    episode_steps: int = NO_LIMIT,
    log: AnyArray | None = None,
) -> None:
    """As many episodes as there are ``rows``, each in the world of its time."""
    schedule, parameters = check_schedule(world), parameters_of(settings)
    log = np.zeros(0, EVENT) if log is None else log
    place = np.array([start_after(schedule[0][1], -1, first_episode, rng)])
    changes = [begin for begin, _ in schedule[1:]]
    for (begin, now), end in zip(schedule, [*changes, len(rows)], strict=True):
        part = rows[begin : min(end, len(rows))]
        limits = Limits(len(part), episode_steps=episode_steps)
        _run_kernel(agent, parameters, now, limits, part, rng, first_episode + begin, place, log)


@compiled_in_place
def _run_kernel(
    agent: AgentArrays,
    parameters: Parameters,
    world: TabularWorld,
    limits: Limits,
    rows: AnyArray,
    rng: np.random.Generator,
    first_episode: int,
    place: IntArray,
    log: AnyArray,
) -> bool:
    """Act and learn; true where ``limits`` asked for a shortest path and it was found.

    Changes ``agent``, ``log``, ``place`` (the start of the next episode), and as many ``rows``
    (``EPISODE``) as there are.
    """
    for index in range(limits.episodes):
        if parameters.reset_trace:
            clear_trace(agent.trace, agent.active)
        state, step, ends, total = place[0], 0, False, 0.0
        while not ends and step < limits.episode_steps:
            if agent.counts[STEPS] >= limits.steps:
                return False
            action = epsilon_greedy(
                agent.pairs, agent.counts[N_ACTIONS], state, agent.states[state]["value"],
                parameters.epsilon, rng.random(),
            )  # fmt: skip
            made = slipped(world, action, rng)
            reward = sampled_reward(world, state, made, rng)
            next_state, ends = world.next_state[state, made], world.ends[state, made]
            agent.counts[STEPS] += 1
            step += 1
            if ends or step == limits.episode_steps:
                goal = world.goal[next_state] if ends else -1
                place[0] = start_after(world, goal, first_episode + index + 1, rng)
            if parameters.by_priority:
                sweeping_step(
                    agent, parameters, state, action, reward, next_state, ends,
                    place[0] if ends else next_state, first_episode + index, step - 1, log,
                )  # fmt: skip
            else:
                dyna_step(agent, parameters, state, action, reward, next_state, ends, rng)
            if limits.shortest > 0 and greedy_path_is(agent, world, limits.shortest):
                return True
            state = next_state
            total += reward
        if index < rows.shape[0]:
            rows[index]["steps"] = step
            rows[index]["return"] = total
            rows[index]["terminated"] = ends
    return False


@compiled_in_place
def greedy_path_is(agent: AgentArrays, world: TabularWorld, length: int) -> bool:
    """Whether the greedy path ends after exactly ``length`` steps; of equal actions, the first."""
    pairs, n_actions = agent.pairs, agent.counts[N_ACTIONS]
    state = world.starts[0]
    for step in range(1, length + 1):
        value = agent.states[state]["value"]
        action = 0
        while pairs[state * n_actions + action]["q"] != value:
            action += 1
        if world.ends[state, action]:
            return step == length
        state = world.next_state[state, action]
    return False
