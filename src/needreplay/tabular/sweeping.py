"""Prioritized sweeping, with and without need: the paper's Algorithm 1 as compiled kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.rules.gain import absolute_gain as _absolute_gain
from needreplay.rules.td import moved_towards as _moved_towards
from needreplay.rules.td import td_error as _td_error
from needreplay.tabular.choose import epsilon_greedy, row_maximum
from needreplay.tabular.log import ReplayLog, write_event
from needreplay.tabular.model import Model, empty_model, record
from needreplay.tabular.queue import (
    PairQueue,
    empty_queue,
    insert,
    largest_gain,
    largest_product,
    largest_product_of_any_sign,
    remove,
)
from needreplay.tabular.settings import SweepingSettings
from needreplay.tabular.trace import Successor, forget_trace, learn_successor, new_successor
from needreplay.types import FloatArray, IntArray, TransitionTable

absolute_gain = compiled(_absolute_gain)
moved_towards = compiled(_moved_towards)
td_error = compiled(_td_error)

NO_NEED, FORWARD, BACKWARD = 0, 1, 2
CURRENT, NEXT, POPPED = 0, 1, 2


class Rule(NamedTuple):
    """``SweepingSettings`` as numbers, for kernels."""

    discount: float
    step_size: float
    epsilon: float
    sweeps: int
    threshold: float
    need: int
    need_from: int
    pop_without_need: bool
    learn_successor: bool
    successor_step_size: float
    trace_decay: float
    reset_trace: bool


class Sweeper(NamedTuple):
    """All that a sweeping agent knows; kernels write it in place."""

    Q: FloatArray
    """[state, action]"""
    value: FloatArray
    """[state]: max_a Q(s, a), kept beside Q"""
    model: Model
    queue: PairQueue
    successor: Successor
    column: FloatArray
    """room for one column of M"""
    updates: IntArray
    """one number: Q-updates so far"""


def rule_of(settings: SweepingSettings) -> Rule:
    """The numbers that kernels read."""
    return Rule(
        discount=float(settings.discount),
        step_size=float(settings.step_size),
        epsilon=float(settings.epsilon),
        sweeps=int(settings.sweeps),
        threshold=float(settings.threshold),
        need={"none": NO_NEED, "forward": FORWARD, "backward": BACKWARD}[settings.need],
        need_from={"current": CURRENT, "next": NEXT, "popped": POPPED}[settings.need_from],
        pop_without_need=bool(settings.pop_without_need),
        learn_successor=bool(settings.learn_successor),
        successor_step_size=float(settings.successor_step_size),
        trace_decay=float(settings.trace_decay),
        reset_trace=bool(settings.reset_trace),
    )


def new_sweeper(n_states: int, n_actions: int, M: FloatArray) -> Sweeper:
    """An agent with Q = 0 that has seen nothing; ``M`` is the matrix that need begins from."""
    return Sweeper(
        Q=np.zeros((n_states, n_actions)),
        value=np.zeros(n_states),
        model=empty_model(n_states, n_actions),
        queue=empty_queue(n_states, n_actions),
        successor=new_successor(M),
        column=np.zeros(n_states),
        updates=np.zeros(1, np.int64),
    )


@compiled
def _need_row(agent: Sweeper, direction: int, state: int) -> FloatArray:
    """Need(s, ·): M's row of ``state``, or its column, copied so that it is contiguous."""
    M = agent.successor.M
    if direction == BACKWARD:
        for other in range(M.shape[0]):
            agent.column[other] = M[other, state]
        return agent.column
    return M[state]


@compiled
def _pick(agent: Sweeper, rule: Rule, need: FloatArray) -> tuple[int, int]:
    """i ← argmax_i P_i · M[S, S_i], the paper's equation 7, as a pair; (−1, −1) for none."""
    queue = agent.queue
    if rule.need == NO_NEED:
        state = largest_gain(queue)
    else:
        state = largest_product(queue, need)
        if state < 0 and rule.pop_without_need:
            return largest_product_of_any_sign(queue, need)
    if state < 0:
        return -1, -1
    return state, queue.best_action[state]


@compiled
def _update(agent: Sweeper, rule: Rule, state: int, action: int) -> None:
    """Q(S, A) ← Q(S, A) + α [R + γ max_a Q(S', a) − Q(S, A)], from the model. Writes ``agent``."""
    pair = state * agent.Q.shape[1] + action
    model = agent.model
    next_value = agent.value[model.next_state[pair]]
    q = agent.Q[state, action]
    error = td_error(model.reward[pair], model.discount[pair], next_value, q)
    agent.Q[state, action] = moved_towards(q, rule.step_size, error)
    agent.value[state] = row_maximum(agent.Q, state)
    agent.updates[0] += 1


@compiled
def _queue_if_large(agent: Sweeper, rule: Rule, pair: int) -> None:
    """P ← |R + γ max_a Q(S', a) − Q(S, A)|; queue the pair if P > θ. Writes ``agent``."""
    n_actions = agent.Q.shape[1]
    state = pair // n_actions
    action = pair - state * n_actions
    model = agent.model
    next_value = agent.value[model.next_state[pair]]
    q = agent.Q[state, action]
    error = td_error(model.reward[pair], model.discount[pair], next_value, q)
    gain = absolute_gain(error)
    if gain > rule.threshold:
        insert(agent.queue, state, action, gain)


@compiled
def _sweep(
    agent: Sweeper, rule: Rule, current: int, here: int, episode: int, step: int, log: ReplayLog
) -> None:
    """Up to n times: pop the pair of highest priority, update it, queue its predecessors.

    ``current`` is the state that need is read from, ``here`` where the agent is (for the log).
    Writes ``agent`` and ``log``.
    """
    need = agent.column
    if rule.need != NO_NEED:
        need = _need_row(agent, rule.need, current)
    for _ in range(rule.sweeps):
        state, action = _pick(agent, rule, need)
        if state < 0:
            return
        gain = agent.queue.gain[state, action]
        q_before = agent.Q[state, action]
        remove(agent.queue, state, action)
        _update(agent, rule, state, action)
        if log.integers.shape[0] > 0:
            seen_need = need[state] if rule.need != NO_NEED else 1.0
            q_after = agent.Q[state, action]
            write_event(
                log, episode, step, here, state, action, gain, seen_need, q_before, q_after
            )
        pair = agent.model.first[state]
        while pair >= 0:
            _queue_if_large(agent, rule, pair)
            pair = agent.model.after[pair]
        if rule.need_from == POPPED and rule.need != NO_NEED:
            need = _need_row(agent, rule.need, state)


@compiled
def learn_from_step(
    agent: Sweeper,
    rule: Rule,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    ends: bool,
    arrival: int,
    episode: int,
    step: int,
    log: ReplayLog,
) -> None:
    """All that Algorithm 1 does after a step in the world. Writes ``agent`` and ``log``.

    ``arrival`` is where the agent stands when it replays: ``next_state``, or the start of the next
    episode where this one ended.
    """
    if rule.learn_successor:
        learn_successor(
            agent.successor,
            state,
            next_state,
            ends,
            rule.discount,
            rule.trace_decay,
            rule.successor_step_size,
        )
    pair = state * agent.Q.shape[1] + action
    discount = 0.0 if ends else rule.discount
    record(agent.model, pair, reward, next_state, discount)
    _queue_if_large(agent, rule, pair)
    current = arrival if rule.need_from == NEXT else state
    _sweep(agent, rule, current, next_state, episode, step, log)


@compiled
def run_episodes(
    agent: Sweeper,
    rule: Rule,
    table: TransitionTable,
    first_episode: int,
    episodes: int,
    rng: np.random.Generator,
    log: ReplayLog,
) -> IntArray:
    """Live through whole episodes; the number of steps of each. Writes ``agent`` and ``log``."""
    lengths = np.zeros(episodes, np.int64)
    for index in range(episodes):
        if rule.reset_trace:
            forget_trace(agent.successor)
        state = table.start
        step = 0
        ends = False
        while not ends:
            action = epsilon_greedy(agent.Q, agent.value, state, rule.epsilon, rng)
            next_state = table.next_state[state, action]
            reward = table.reward_mean[state, action]
            spread = table.reward_std[state, action]
            if spread > 0.0:
                reward += spread * rng.standard_normal()
            ends = table.ends[state, action]
            arrival = table.start if ends else next_state
            learn_from_step(
                agent,
                rule,
                state,
                action,
                reward,
                next_state,
                ends,
                arrival,
                first_episode + index,
                step,
                log,
            )
            state = next_state
            step += 1
        lengths[index] = step
    return lengths
