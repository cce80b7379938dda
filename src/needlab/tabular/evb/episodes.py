"""Episodes of the EVB agent: act, learn, replay, in the order of the published code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.core.jit import jit
from needlab.tabular.evb.backups import (
    AFTER_FIRST_STEP,
    AT_GOAL,
    BEFORE_FIRST_STEP,
    EPSILON_GREEDY,
    NOT_AT_END,
    Agent,
    Records,
    Rng,
    Rule,
    greedy_action,
    largest,
    replay,
    softmax,
)
from needlab.tabular.evb.need import need_of
from needlab.tabular.trial import sampled_reward, start_after
from needlab.worlds.tabular import TabularWorld
from needreplay._core.types import FloatArray, IntArray

PAUSE = np.dtype(
    [
        ("episode", np.int64),
        ("step", np.int64),
        ("kind", np.int64),
        ("state", np.int64),
        ("first", np.int64),
        ("count", np.int64),
        ("last_reward", np.float64),
    ]
)
"""A replay: in which episode (from 0), before or after which step of the simulation (from 0), at
the start or end of the episode (``START``, ``END``, ``MIDDLE``), from which state, its first backup
and their number, and the last reward that was received at a goal (not a number before the first).
"""

START, END, MIDDLE = range(3)
STEP = np.dtype(
    [
        ("episode", np.int64),
        ("state", np.int64),
        ("action", np.int64),
        ("next_state", np.int64),
        ("reward", np.float64),
    ]
)
"""A step: the state that the agent left, how, and what followed."""


class History(NamedTuple):
    """What happened. Lists that are full are doubled."""

    backups: Records
    pauses: Records
    steps: Records


class Present(NamedTuple):
    """Where the agent is now; arrays of one number, since kernels write them."""

    state: IntArray
    episode: IntArray
    last_reward: FloatArray
    counts: IntArray
    """how many backups, pauses and steps were written"""


@jit
def doubled(records: Records, used: int, more: int) -> Records:
    """``records``, or a copy twice as long if ``more`` do not fit behind ``used``."""
    if used + more <= records.size:
        return records
    longer = np.empty(2 * (used + more), records.dtype)
    longer[:used] = records[:used]
    return longer


@jit
def choose(agent: Agent, rule: Rule, state: int, rng: Rng) -> int:
    """An action: softmax, or epsilon-greedy with ties at random."""
    values = agent.Q[state]
    if rule.behavior == EPSILON_GREEDY:
        if rule.epsilon > 0.0 and rng.random() < rule.epsilon:
            return int(rng.random() * values.size)
        return greedy_action(values, rng)
    chances = np.empty(values.size)
    softmax(values, rule.inverse_temperature, chances)
    left = rng.random()
    for action in range(values.size - 1):
        left -= chances[action]
        if left < 0.0:
            return action
    return int(values.size) - 1


@jit
def move_row(T: FloatArray, state: int, after: int, rate: float) -> None:
    """Move a row of T towards what happened."""
    for j in range(T.shape[1]):
        T[state, j] *= 1.0 - rate
    T[state, after] += rate


@jit
def learn(agent: Agent, rule: Rule, s: int, a: int, reward: float, after: int) -> None:
    """T, memory, then Q, from one real step."""
    move_row(agent.T, s, after, rule.transition_rate)
    agent.reward[s, a], agent.outcome[s, a] = reward, after
    target = reward + rule.discount * largest(agent.Q[after])
    agent.Q[s, a] += rule.step_size * (target - agent.Q[s, a])


@jit
def pause(
    agent: Agent,
    rule: Rule,
    world: TabularWorld,
    present: Present,
    past: History,
    kind: int,
    state: int,
    rng: Rng,
) -> History:
    """Replay, with ``state`` as the current state."""
    backups, pauses = present.counts[0], present.counts[1]
    past = History(
        doubled(past.backups, backups, rule.backups),
        doubled(past.pauses, pauses, 1),
        past.steps,
    )
    need = need_of(agent, rule, state)
    ran = replay(agent, rule, world.goal, need, pauses, past.backups[backups:], rng)
    entry = past.pauses[pauses]
    entry["episode"], entry["step"], entry["kind"] = present.episode[0], present.counts[2], kind
    entry["state"], entry["first"], entry["count"] = state, backups, ran
    entry["last_reward"] = present.last_reward[0]
    present.counts[0], present.counts[1] = backups + ran, pauses + 1
    return past


@jit
def run_episode(
    agent: Agent,
    rule: Rule,
    world: TabularWorld,
    present: Present,
    past: History,
    cap: int,
    rng: Rng,
) -> tuple[History, int]:
    """One episode; the steps that it took, or -1 if ``cap`` steps did not end it."""
    s, later = present.state[0], present.episode[0] > 0
    if rule.start_replay == BEFORE_FIRST_STEP and later and rule.backups > 0:
        past = pause(agent, rule, world, present, past, START, s, rng)
    for step in range(cap):
        a = choose(agent, rule, s, rng)
        after = world.next_state[s, a]
        reward = sampled_reward(world, s, a, rng)
        goal = world.goal[after]
        learn(agent, rule, s, a, reward, after)
        if goal >= 0:
            present.last_reward[0] = reward
        past = History(past.backups, past.pauses, doubled(past.steps, present.counts[2], 1))
        entry = past.steps[present.counts[2]]
        entry["episode"], entry["state"], entry["action"] = present.episode[0], s, a
        entry["next_state"], entry["reward"] = after, reward
        at_end = rule.end_replay != NOT_AT_END and goal >= 0
        at_start = rule.start_replay == AFTER_FIRST_STEP and later and step == 0
        known = later or reward != 0.0
        if (at_end or at_start or rule.replay_every_step) and known and rule.backups > 0:
            kind = END if goal >= 0 else START if step == 0 and later else MIDDLE
            current = after if goal >= 0 and rule.end_replay == AT_GOAL else s
            past = pause(agent, rule, world, present, past, kind, current, rng)
        present.counts[2] += 1
        s = after
        if goal >= 0:
            s = start_after(world, goal, present.episode[0] + 1, rng)
            move_row(agent.T, after, s, rule.transition_rate)
            present.state[0] = s
            present.episode[0] += 1
            return past, step + 1
    return past, -1


@jit
def run_episodes(
    agent: Agent,
    rule: Rule,
    world: TabularWorld,
    present: Present,
    past: History,
    lengths: IntArray,
    cap: int,
    rng: Rng,
) -> History:
    """As many episodes as ``lengths`` has entries, which become their steps (-1: never ended)."""
    for i in range(lengths.size):
        past, lengths[i] = run_episode(agent, rule, world, present, past, cap, rng)
        if lengths[i] < 0:
            break
    return past
