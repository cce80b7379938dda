"""Prioritized sweeping, with and without need: the paper's Algorithm 1 as compiled kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import compiled_in_place, jit
from needreplay.core.types import IntArray, TransitionTable
from needreplay.rules.gain import absolute_gain as _absolute_gain
from needreplay.rules.need import backward_need as _backward_need
from needreplay.rules.need import forward_need as _forward_need
from needreplay.tabular.backup import td_error_of, update
from needreplay.tabular.layout import N_ACTIONS, STEPS, WAITING, Knowledge, Records
from needreplay.tabular.log import write_event
from needreplay.tabular.model import record
from needreplay.tabular.queue import (
    insert,
    largest_product,
    largest_product_of_any_sign,
    refresh_keys,
    remove,
)
from needreplay.tabular.settings import SweepingSettings
from needreplay.tabular.trace import advance_trace, forget_trace, learn_successor
from needreplay.tabular.walk import Until, greedy_path_is, take_step

absolute_gain = jit(_absolute_gain)
backward_need = compiled_in_place(_backward_need)
forward_need = compiled_in_place(_forward_need)

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


@compiled_in_place
def _read_need(agent: Knowledge, direction: int, state: int) -> None:
    """Need(s, ·): M's row of ``state``, or its column. Writes ``agent.need`` and the keys."""
    M, need = agent.M, agent.need
    if direction == BACKWARD:
        for other in range(M.shape[0]):
            need[other] = backward_need(M, state, other)
    else:
        for other in range(M.shape[0]):
            need[other] = forward_need(M, state, other)
    refresh_keys(agent)


@compiled_in_place
def _queue_if_large(agent: Knowledge, rule: Rule, pair: int) -> None:
    """P ← |R + γ max_a Q(S', a) − Q(S, A)|; queue the pair if P > θ. Writes the queue."""
    gain = absolute_gain(td_error_of(agent, pair))
    if gain > rule.threshold:
        insert(agent, pair, gain)


@compiled_in_place
def _sweep(
    agent: Knowledge, rule: Rule, current: int, here: int, episode: int, step: int, log: Records
) -> None:
    """Up to n times: pop the pair of highest priority, update it, queue its predecessors.

    ``current`` is the state that need is read from, ``here`` where the agent stands (for the log).
    Writes ``agent`` and ``log``.
    """
    pairs = agent.pairs
    if rule.need != NO_NEED:
        _read_need(agent, rule.need, current)
    for _ in range(rule.sweeps):
        pair = largest_product(agent)
        if pair < 0 and rule.pop_without_need and agent.counts[WAITING] > 0:
            pair = largest_product_of_any_sign(agent)
        if pair < 0:
            return
        gain, q_before = pairs[pair]["gain"], pairs[pair]["q"]
        remove(agent, pair)
        update(agent, rule.step_size, pair)
        state = pairs[pair]["state"]
        if log.shape[0] > 0:
            action = pair - state * agent.counts[N_ACTIONS]
            write_event(
                log, agent.counts, episode, step, here, state, action,
                gain, agent.need[state], q_before, pairs[pair]["q"],
            )  # fmt: skip
        predecessor = agent.states[state]["first"]
        while predecessor >= 0:
            _queue_if_large(agent, rule, predecessor)
            predecessor = pairs[predecessor]["after"]
        if rule.need_from == POPPED and rule.need != NO_NEED:
            _read_need(agent, rule.need, state)


@compiled_in_place
def learn_from_step(
    agent: Knowledge,
    rule: Rule,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    ends: bool,
    arrival: int,
    episode: int,
    step: int,
    log: Records,
) -> None:
    """All that Algorithm 1 does after a step in the world. Writes ``agent`` and ``log``.

    ``arrival`` is where the agent stands next: ``next_state``, or the start of the next episode
    where this one ended.
    """
    pair = state * agent.counts[N_ACTIONS] + action
    record(agent, pair, reward, next_state, 0.0 if ends else rule.discount)
    if rule.learn_successor:
        advance_trace(agent, state, rule.discount * rule.trace_decay)
        learn_successor(agent, state, next_state, ends, rule.discount, rule.successor_step_size)
    _queue_if_large(agent, rule, pair)
    current = arrival if rule.need_from == NEXT else state
    _sweep(agent, rule, current, next_state, episode, step, log)


@compiled_in_place
def run_episodes(
    agent: Knowledge,
    rule: Rule,
    table: TransitionTable,
    first_episode: int,
    until: Until,
    lengths: IntArray,
    rng: np.random.Generator,
    log: Records,
) -> bool:
    """Live through episodes; true where ``until`` asked for a shortest path and it was found.

    Writes ``agent``, ``log``, and as many episodes' steps as there is room for in ``lengths``.
    """
    for index in range(until.episodes):
        if rule.reset_trace:
            forget_trace(agent)
        state, step, ends = table.start, 0, False
        while not ends:
            if agent.counts[STEPS] >= until.steps:
                return False
            action, reward, next_state, ends = take_step(agent, table, state, rule.epsilon, rng)
            arrival = table.start if ends else next_state
            learn_from_step(
                agent, rule, state, action, reward, next_state, ends, arrival,
                first_episode + index, step, log,
            )  # fmt: skip
            if until.shortest > 0 and greedy_path_is(agent, table, until.shortest):
                return True
            state = next_state
            step += 1
        if index < lengths.shape[0]:
            lengths[index] = step
    return False
