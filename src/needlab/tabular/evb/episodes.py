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
from needlab.worlds.task import Task
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


class Life(NamedTuple):
    """What happened. Lists that are full are doubled."""

    backups: Records
    pauses: Records
    steps: Records


class Place(NamedTuple):
    """Where the agent is in its life; arrays of one number, since kernels write them."""

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
def reward_at(task: Task, state: int, rng: Rng) -> float:
    """The reward on entering ``state``: one of its magnitudes, plus noise, not cut below 0."""
    listed = task.choices[state]
    if listed == 0:
        return 0.0
    choice = int(rng.random() * listed) if listed > 1 else 0
    mean, spread = task.magnitudes[state, choice], task.spreads[state, choice]
    if spread == 0.0:
        return float(mean)
    reward = mean + spread * rng.standard_normal()
    return float(max(reward, 0.0) if mean >= 0.0 else reward)


@jit
def next_start(task: Task, goal: int, rng: Rng) -> int:
    """Where the next episode begins, after goal number ``goal``."""
    starts = task.starts.size
    if task.random_start:
        return int(task.starts[int(rng.random() * starts)])
    return int(task.starts[(goal + 1) % starts])


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
    agent: Agent, rule: Rule, task: Task, place: Place, life: Life, kind: int, state: int, rng: Rng
) -> Life:
    """Replay, with ``state`` as the current state."""
    backups, pauses = place.counts[0], place.counts[1]
    life = Life(
        doubled(life.backups, backups, rule.backups), doubled(life.pauses, pauses, 1), life.steps
    )
    need = need_of(agent, rule, state)
    ran = replay(agent, rule, task.goal, need, pauses, life.backups[backups:], rng)
    entry = life.pauses[pauses]
    entry["episode"], entry["step"], entry["kind"] = place.episode[0], place.counts[2], kind
    entry["state"], entry["first"], entry["count"] = state, backups, ran
    entry["last_reward"] = place.last_reward[0]
    place.counts[0], place.counts[1] = backups + ran, pauses + 1
    return life


@jit
def run_episode(
    agent: Agent, rule: Rule, task: Task, place: Place, life: Life, cap: int, rng: Rng
) -> tuple[Life, int]:
    """One episode; the steps that it took, or -1 if ``cap`` steps did not end it."""
    s, later = place.state[0], place.episode[0] > 0
    if rule.start_replay == BEFORE_FIRST_STEP and later and rule.backups > 0:
        life = pause(agent, rule, task, place, life, START, s, rng)
    for step in range(cap):
        a = choose(agent, rule, s, rng)
        after = task.next_state[s, a]
        reward = reward_at(task, after, rng)
        goal = task.goal[after]
        learn(agent, rule, s, a, reward, after)
        if goal >= 0:
            place.last_reward[0] = reward
        life = Life(life.backups, life.pauses, doubled(life.steps, place.counts[2], 1))
        entry = life.steps[place.counts[2]]
        entry["episode"], entry["state"], entry["action"] = place.episode[0], s, a
        entry["next_state"], entry["reward"] = after, reward
        at_end = rule.end_replay != NOT_AT_END and goal >= 0
        at_start = rule.start_replay == AFTER_FIRST_STEP and later and step == 0
        known = later or reward != 0.0
        if (at_end or at_start or rule.replay_every_step) and known and rule.backups > 0:
            kind = END if goal >= 0 else START if step == 0 and later else MIDDLE
            current = after if goal >= 0 and rule.end_replay == AT_GOAL else s
            life = pause(agent, rule, task, place, life, kind, current, rng)
        place.counts[2] += 1
        s = after
        if goal >= 0:
            s = next_start(task, goal, rng)
            move_row(agent.T, after, s, rule.transition_rate)
            place.state[0] = s
            place.episode[0] += 1
            return life, step + 1
    return life, -1


@jit
def run_episodes(
    agent: Agent,
    rule: Rule,
    task: Task,
    place: Place,
    life: Life,
    lengths: IntArray,
    cap: int,
    rng: Rng,
) -> Life:
    """As many episodes as ``lengths`` has entries, which become their steps (-1: never ended)."""
    for i in range(lengths.size):
        life, lengths[i] = run_episode(agent, rule, task, place, life, cap, rng)
        if lengths[i] < 0:
            break
    return life
