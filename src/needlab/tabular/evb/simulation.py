"""Simulations of the EVB agent on a world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from needlab.core.tables import Table
from needlab.tabular.evb import backups as _backups
from needlab.tabular.evb import episodes as _episodes
from needlab.tabular.evb.backups import BACKUP, Agent, Records, rule_of
from needlab.tabular.evb.need import need_of
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.replay_events import PERMUTATIONS, SHORTEST, WHENS, Count, replay_table
from needlab.worlds.tabular import (
    IN_TURN,
    Schedule,
    TabularWorld,
    check_schedule,
    only_rewards_change,
)
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


def new_agent(
    world: TabularWorld, settings: EVBSettings, successor: FloatArray | None = None
) -> Agent:
    """An agent that has tried every action of every state once, without reward.

    Args:
        world: where it lives. Its episodes end at goals, and its moves do not slip, since the agent
            remembers one outcome per action.
        settings: of the agent.
        successor: [state, state], the matrix of need "given".
    """
    _check_world(world)
    states = world.n_states
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
    outcome = np.where(world.acts[:, np.newaxis], world.next_state, -1)
    T, returns = np.zeros((states, states)), np.zeros((states, states))
    for s in np.flatnonzero(world.acts):
        for after in outcome[s]:
            T[s, after] += 1.0 / world.n_actions
    for number, goal in enumerate(world.goals):
        ahead = world.starts
        if world.start_rule == IN_TURN:
            ahead = world.starts[[(number + 1) % world.starts.size]]
        returns[goal, ahead] = 1.0 / ahead.size
    return Agent(
        Q=np.zeros(world.next_state.shape),
        reward=np.zeros(world.next_state.shape),
        outcome=np.ascontiguousarray(outcome),
        T=T + returns,
        given=given,
        returns=returns,
    )


def simulate(
    world: TabularWorld | Schedule,
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
        world: where it lives, or a list of (first episode, world) for a world that changes: the
            agent keeps what it knows. States, actions, goals and starts must stay the same.
        settings: of the agent.
        episodes: how many.
        seed: of all simulations.
        simulation: its number.
        successor: [state, state], the matrix of need "given".
    """
    check_number("episodes", episodes, int, (1, float("inf")))
    schedule = check_schedule(world)
    for begin, changed in schedule[1:]:
        _check_world(changed)
        if not np.array_equal(changed.goal, schedule[0][1].goal):
            raise NeedReplayError(
                f"The world of episode {begin} must have the goals of the first: the EVB agent has "
                "learned where they lead."
            )
    rng = stream(seed, "evb", simulation)
    first = schedule[0][1]
    agent, rule = new_agent(first, settings, successor), rule_of(settings)
    start = int(rng.integers(first.starts.size)) if first.random_start else 0
    present = _episodes.Present(
        state=np.array([int(first.starts[start])]),
        episode=np.zeros(1, np.int64),
        last_reward=np.full(1, np.nan),
        counts=np.zeros(3, np.int64),
    )
    past = _episodes.History(
        np.empty((2 * episodes + 1) * settings.backups, BACKUP),
        np.empty(2 * episodes, _episodes.PAUSE),
        np.empty(32 * episodes, _episodes.STEP),
    )
    lengths = np.zeros(episodes, np.int64)
    ends = [when for when, _ in schedule[1:]] + [episodes]
    for (begin, now), end in zip(schedule, ends, strict=True):
        part = lengths[begin : min(end, episodes)]
        past = _episodes.run_episodes(agent, rule, now, present, past, part, STEP_CAP, rng)
        if np.any(part < 0):
            raise NeedReplayError(
                f"An episode did not end within {STEP_CAP:,} steps; check the world and the policy."
            )
    written = present.counts
    return Simulation(
        lengths,
        past.backups[: written[0]].copy(),
        past.pauses[: written[1]].copy(),
        past.steps[: written[2]].copy(),
        agent,
    )


def simulation_table(
    found: Simulation,
    world: TabularWorld | Schedule,
    *,
    count: Count = "states",
    shortest: int = SHORTEST,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Table:
    """The tidy table of a simulation's replay: one row per backup, with its event.

    Args:
        found: the simulation.
        world: where it lived: the world, or the list of them if its rewards changed.
        count: what makes an event long enough; see ``replay_events``.
        shortest: the fewest of these.
        permutations: of the test; 0 calls every event significant, and takes half of the time.
        seed: of the test.
    """
    backups = found.backups
    pauses = found.pauses[backups["pause"]]
    next_state = only_rewards_change(world).next_state
    return replay_table(
        pauses["episode"],
        backups["pause"],
        backups["state"],
        backups["action"],
        next_state,
        when=np.array(WHENS)[pauses["kind"]],
        agent_state=pauses["state"],
        reward=pauses["last_reward"],
        gain=backups["gain"],
        need=backups["need"],
        chain_length=backups["length"],
        count=count,
        shortest=shortest,
        permutations=permutations,
        rng=stream(seed, "evb", "permutations"),
    )


def replay_once(
    agent: Agent, world: TabularWorld, settings: EVBSettings, state: int, rng: np.random.Generator
) -> Records:
    """Let ``agent`` replay in ``state``, without behavior; the backups. Writes ``agent``."""
    check_number("state", state, int, (0, world.n_states - 1))
    rule, log = rule_of(settings), np.empty(settings.backups, BACKUP)
    ran = _backups.replay(agent, rule, world.goal, need_of(agent, rule, state), 0, log, rng)
    found: Records = log[:ran]
    return found


def _check_world(world: TabularWorld) -> None:
    if world.slip:
        raise NeedReplayError(
            f"The EVB agent remembers one outcome per action, so it needs moves without slip; this "
            f"world has slip {world.slip}. Set slip to 0, or run another agent."
        )
    acts = world.acts
    if not np.array_equal(world.ends[acts], world.goal[world.next_state[acts]] >= 0):
        raise NeedReplayError(
            "The EVB agent needs a world whose episodes end at goals only; in this one another "
            "step ends an episode, or a goal is a start. Run another agent."
        )
