"""Simulations of the EVB agent on a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from needlab.core.tables import Table
from needlab.tabular.evb import backups as _backups
from needlab.tabular.evb import episodes as _episodes
from needlab.tabular.evb.backups import BACKUP, Agent, Records, rule_of
from needlab.tabular.evb.need import need_of
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.replay_events import replay_table
from needlab.worlds.task import Task
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

STEP_CAP = 1_000_000


@dataclass(frozen=True, eq=False)
class Simulation:
    """What happened in one simulation."""

    lengths: IntArray
    """steps of each episode"""
    backups: Records
    """every backup (``backups.BACKUP``), in order"""
    pauses: Records
    """every replay (``episodes.PAUSE``), in order"""
    steps: Records
    """every step (``episodes.STEP``), in order"""
    agent: Agent
    """what the agent knows at the end"""


def new_agent(task: Task, settings: EVBSettings, successor: FloatArray | None = None) -> Agent:
    """An agent that has tried every action of every state once, without reward.

    Args:
        task: the world; one with slip is refused, since the agent remembers one outcome per action.
        settings: of the agent.
        successor: [state, state], the matrix of need "given".
    """
    if task.slip:
        raise NeedReplayError(
            f"The EVB agent remembers one outcome per action, so it needs moves without slip; this "
            f"task has slip {task.slip}. Set slip to 0, or run a model-free agent on TaskEnv."
        )
    states = task.n_states
    if (successor is not None) != (settings.need == "given"):
        raise NeedReplayError(
            "successor is the matrix of need 'given': pass both or neither; need is "
            f"{settings.need!r}."
        )
    given = np.zeros((0, 0)) if successor is None else np.array(successor, np.float64)
    if successor is not None and (given.shape != (states, states) or not np.isfinite(given).all()):
        raise NeedReplayError(
            f"successor must be a finite matrix of shape {(states, states)}; its shape was "
            f"{given.shape}."
        )
    outcome = np.where(task.acts[:, np.newaxis], task.next_state, -1)
    T, returns = np.zeros((states, states)), np.zeros((states, states))
    for s in np.flatnonzero(task.acts):
        for after in outcome[s]:
            T[s, after] += 1.0 / task.n_actions
    for number, goal in enumerate(task.goals):
        ahead = task.starts if task.random_start else task.starts[[(number + 1) % task.starts.size]]
        returns[goal, ahead] = 1.0 / ahead.size
    return Agent(
        Q=np.zeros(task.next_state.shape),
        reward=np.zeros(task.next_state.shape),
        outcome=np.ascontiguousarray(outcome),
        T=T + returns,
        given=given,
        returns=returns,
    )


def simulate(
    task: Task | Sequence[tuple[int, Task]],
    settings: EVBSettings,
    *,
    episodes: int = 50,
    seed: int = 0,
    simulation: int = 0,
    successor: FloatArray | None = None,
) -> Simulation:
    """Let a new agent live for some episodes.

    The result follows from the arguments alone: every random number comes from (seed, simulation).

    Args:
        task: the world, or a list of (first episode, world) for a world that changes: the agent
            keeps what it knows. All must have the same states, actions, goals and starts.
        settings: of the agent.
        episodes: how many.
        seed: of all simulations.
        simulation: its number.
        successor: [state, state], the matrix of need "given".
    """
    check_number("episodes", episodes, int, (1, float("inf")))
    schedule = [(0, task)] if isinstance(task, Task) else list(task)
    _check_schedule(schedule)
    rng = stream(seed, "evb", simulation)
    first = schedule[0][1]
    agent, rule = new_agent(first, settings, successor), rule_of(settings)
    start = int(rng.integers(first.starts.size)) if first.random_start else 0
    place = _episodes.Place(
        state=np.array([int(first.starts[start])]),
        episode=np.zeros(1, np.int64),
        last_reward=np.full(1, np.nan),
        counts=np.zeros(3, np.int64),
    )
    life = _episodes.Life(
        np.empty((2 * episodes + 1) * settings.backups, BACKUP),
        np.empty(2 * episodes, _episodes.PAUSE),
        np.empty(32 * episodes, _episodes.STEP),
    )
    lengths = np.zeros(episodes, np.int64)
    ends = [when for when, _ in schedule[1:]] + [episodes]
    for (begin, world), end in zip(schedule, ends, strict=True):
        part = lengths[begin : min(end, episodes)]
        life = _episodes.run_episodes(agent, rule, world, place, life, part, STEP_CAP, rng)
        if np.any(part < 0):
            raise NeedReplayError(
                f"An episode did not end within {STEP_CAP:,} steps; check the world and the policy."
            )
    written = place.counts
    return Simulation(
        lengths,
        life.backups[: written[0]].copy(),
        life.pauses[: written[1]].copy(),
        life.steps[: written[2]].copy(),
        agent,
    )


def simulation_table(found: Simulation, task: Task, *, seed: int = 0) -> Table:
    """The tidy table of a simulation's replay: one row per backup, with its event.

    Args:
        found: the simulation.
        task: its world.
        seed: of the permutation test.
    """
    backups = found.backups
    return replay_table(
        found.pauses["episode"][backups["pause"]],
        backups["pause"],
        backups["state"],
        backups["action"],
        task.next_state,
        gain=backups["gain"],
        need=backups["need"],
        chain_length=backups["length"],
        rng=stream(seed, "evb", "permutations"),
    )


def replay_once(
    agent: Agent, task: Task, settings: EVBSettings, state: int, rng: np.random.Generator
) -> Records:
    """Let ``agent`` replay in ``state``, without behavior; the backups. Writes ``agent``."""
    check_number("state", state, int, (0, task.n_states - 1))
    rule, log = rule_of(settings), np.empty(settings.backups, BACKUP)
    ran = _backups.replay(agent, rule, task.goal, need_of(agent, rule, state), 0, log, rng)
    found: Records = log[:ran]
    return found


def _check_schedule(schedule: Sequence[tuple[int, Task]]) -> None:
    if not schedule or schedule[0][0] != 0:
        raise NeedReplayError("A world that changes is a list of (first episode, task) from 0 on.")
    first = schedule[0][1]
    for (before, _), (begin, task) in pairwise(schedule):
        if begin <= before:
            raise NeedReplayError(
                f"The changes of a world must be in order; episode {begin} follows {before}."
            )
        same = task.next_state.shape == first.next_state.shape and all(
            np.array_equal(getattr(task, name), getattr(first, name))
            for name in ("free", "goal", "starts")
        )
        if not same or task.random_start != first.random_start:
            raise NeedReplayError(
                f"The world of episode {begin} must have the states, actions, goals and starts of "
                "the first; only moves and rewards can change."
            )
