"""Prioritized sweeping, with need (PS-SR) and without (PS): the paper's Algorithm 1."""

from __future__ import annotations

import numpy as np

from needlab.core.equations import absolute_gain, backward_need, combine, forward_need
from needlab.core.jit import compiled_in_place
from needlab.tabular import successor
from needlab.tabular.arrays import EVENTS, N_ACTIONS, QUEUED, AgentArrays
from needlab.tabular.dyna import td_error_of, update_model, update_q
from needlab.tabular.queue import (
    insert,
    largest_product,
    largest_product_of_any_sign,
    refresh_keys,
    remove,
)
from needlab.tabular.settings import BACKWARD, NEXT, NO_NEED, POPPED, Parameters
from needreplay._core.types import AnyArray, FloatArray

td_lambda = compiled_in_place(successor.td_lambda)
clear_trace = compiled_in_place(successor.clear_trace)

SMALLEST_TRACE = 1e-17
"""Smaller traces become 0: what they would still add to M stays below 1e-12 (a test holds it)."""

EVENT = np.dtype(
    [
        ("episode", np.int64),
        ("step", np.int64),
        ("agent_state", np.int64),  # where the agent is while it replays
        ("state", np.int64),  # the pair that was replayed
        ("action", np.int64),
        ("gain", np.float64),  # its gain when it was popped
        ("need", np.float64),  # the need of its state; 1 without need
        ("q_before", np.float64),
        ("q_after", np.float64),
    ]
)
"""One replayed pair in a log."""


@compiled_in_place
def sweeping_step(
    agent: AgentArrays,
    parameters: Parameters,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    ends: bool,
    arrival: int,
    episode: int,
    step: int,
    log: AnyArray,
) -> None:
    """Learn from one step in the world: Algorithm 1. Changes ``agent`` and ``log``.

    ``arrival`` is where the agent is next: ``next_state``, or the start of the next episode where
    this one ended.
    """
    pair = state * agent.counts[N_ACTIONS] + action
    update_model(agent, pair, reward, next_state, 0.0 if ends else parameters.discount)
    if parameters.learn_successor:
        td_lambda(
            agent.M, agent.trace, agent.active, agent.error,
            state, next_state, ends, ends and _never_left(agent, next_state),
            parameters.successor_discount, parameters.trace_decay, parameters.successor_step_size,
            SMALLEST_TRACE,
        )  # fmt: skip
    _queue_if_large(agent, parameters, pair)
    current = arrival if parameters.need_from == NEXT else state
    _plan(agent, parameters, current, next_state, episode, step, log)


@compiled_in_place
def _never_left(agent: AgentArrays, state: int) -> bool:
    """Whether no action was ever taken in ``state``: an episode that ends there makes it final."""
    n_actions = agent.counts[N_ACTIONS]
    for pair in range(state * n_actions, (state + 1) * n_actions):
        if agent.pairs[pair]["next_state"] >= 0:
            return False
    return True


@compiled_in_place
def _queue_if_large(agent: AgentArrays, parameters: Parameters, pair: int) -> None:
    """P ← |R + γ max_a Q(S', a) − Q(S, A)|; queue the pair if P > θ. Changes the queue."""
    gain = absolute_gain(td_error_of(agent, pair))
    if gain > parameters.threshold:
        insert(agent, pair, gain)


@compiled_in_place
def _plan(
    agent: AgentArrays,
    parameters: Parameters,
    current: int,
    agent_state: int,
    episode: int,
    step: int,
    log: AnyArray,
) -> None:
    """Up to n times: pop the pair with the largest P_i · M[S, S_i], update it, queue predecessors.

    ``current`` is S, the state whose row of M is need. Changes ``agent`` and ``log``.
    """
    pairs = agent.pairs
    if parameters.need != NO_NEED:
        _read_need(agent, parameters.need, current)
    for _ in range(parameters.planning_updates):
        pair = largest_product(agent)
        if pair < 0 and agent.counts[QUEUED] > 0:
            pair = largest_product_of_any_sign(agent)
            product = combine(pairs[pair]["gain"], agent.need[pairs[pair]["state"]])
            if not parameters.pop_without_need and (product == 0.0 or product <= -1.0):
                pair = -1
        if pair < 0:
            return
        gain, q_before = pairs[pair]["gain"], pairs[pair]["q"]
        remove(agent, pair)
        update_q(agent, parameters.step_size, pair)
        state = pairs[pair]["state"]
        if log.shape[0] > 0:
            _write_event(agent, pair, gain, q_before, agent_state, episode, step, log)
        predecessor = agent.states[state]["first"]
        while predecessor >= 0:
            _queue_if_large(agent, parameters, predecessor)
            predecessor = pairs[predecessor]["after"]
        if parameters.need_from == POPPED and parameters.need != NO_NEED:
            _read_need(agent, parameters.need, state)


@compiled_in_place
def _read_need(agent: AgentArrays, direction: int, state: int) -> None:
    """Need(s, ·): the row of ``state`` in M, or its column. Changes the queue."""
    copy_need(agent.M, state, direction == BACKWARD, agent.need)
    refresh_keys(agent)


@compiled_in_place
def copy_need(M: FloatArray, state: int, backward: bool, need: FloatArray) -> None:
    """Need(s, ·) into ``need``: the row of ``state`` in M, or its column."""
    for other in range(M.shape[0]):
        need[other] = backward_need(M, state, other) if backward else forward_need(M, state, other)


@compiled_in_place
def _write_event(
    agent: AgentArrays,
    pair: int,
    gain: float,
    q_before: float,
    agent_state: int,
    episode: int,
    step: int,
    log: AnyArray,
) -> None:
    """Count an event, and write it where the log is long enough. Changes ``log`` and counts."""
    event = agent.counts[EVENTS]
    agent.counts[EVENTS] = event + 1
    if event < log.shape[0]:
        state = agent.pairs[pair]["state"]
        log[event]["episode"] = episode
        log[event]["step"] = step
        log[event]["agent_state"] = agent_state
        log[event]["state"] = state
        log[event]["action"] = pair - state * agent.counts[N_ACTIONS]
        log[event]["gain"] = gain
        log[event]["need"] = agent.need[state]
        log[event]["q_before"] = q_before
        log[event]["q_after"] = agent.pairs[pair]["q"]
