"""TD(λ) learning of the successor matrix, on the rows whose trace is alive.

The rule is ``rules.successor.td_lambda``; a trace that has decayed below ``ALIVE`` is dropped, so
that a step costs (live rows) x (states), not states squared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.types import FloatArray, IntArray

ALIVE = 1e-17
"""A smaller trace moves M by less than float64 can hold beside it (a test holds the sum of all that
is left out below 1e-12)."""


class Successor(NamedTuple):
    """A successor matrix that is being learned."""

    M: FloatArray
    """[state, state]: expected discounted visits to the second from the first"""
    trace: FloatArray
    """[state]: the eligibility e, 0 where it is not alive"""
    live: IntArray
    """the states with a trace, in no order, in the first ``live_count[0]`` places"""
    live_count: IntArray
    error: FloatArray
    """room for one row of TD-errors"""


def new_successor(M: FloatArray) -> Successor:
    """Learning that begins at ``M`` (copied), with no trace."""
    n_states = M.shape[0]
    return Successor(
        M=np.array(M, dtype=np.float64, order="C"),
        trace=np.zeros(n_states),
        live=np.zeros(n_states, np.int64),
        live_count=np.zeros(1, np.int64),
        error=np.zeros(n_states),
    )


@compiled
def forget_trace(successor: Successor) -> None:
    """e ← 0, at an episode's start. Writes ``successor``."""
    for index in range(successor.live_count[0]):
        successor.trace[successor.live[index]] = 0.0
    successor.live_count[0] = 0


@compiled
def _advance_trace(successor: Successor, state: int, decay: float) -> None:
    """e ← γλ e + φ(s); traces below ``ALIVE`` are dropped. Writes ``successor``."""
    trace, live = successor.trace, successor.live
    count = successor.live_count[0]
    index = 0
    while index < count:
        row = live[index]
        trace[row] *= decay
        if trace[row] < ALIVE:
            trace[row] = 0.0
            count -= 1
            live[index] = live[count]
        else:
            index += 1
    if trace[state] == 0.0:
        live[count] = state
        count += 1
    trace[state] += 1.0
    successor.live_count[0] = count


@compiled
def learn_successor(
    successor: Successor,
    state: int,
    next_state: int,
    ends: bool,
    discount: float,
    trace_decay: float,
    step_size: float,
) -> None:
    """M ← M + α eᵀ [φ(s) + γ φ(s') M − φ(s) M]; γ φ(s') where the step ends. Writes ``successor``."""
    _advance_trace(successor, state, discount * trace_decay)
    M, error = successor.M, successor.error
    n_states = error.shape[0]
    if ends:
        for column in range(n_states):
            error[column] = -M[state, column]
        error[next_state] += discount
    else:
        for column in range(n_states):
            error[column] = discount * M[next_state, column] - M[state, column]
    error[state] += 1.0
    for index in range(successor.live_count[0]):
        row = successor.live[index]
        size = step_size * successor.trace[row]
        for column in range(n_states):
            M[row, column] += size * error[column]
