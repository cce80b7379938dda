"""TD(λ) learning of the successor matrix, on the rows whose trace is alive.

The rule is ``rules.successor.td_lambda``; a trace that has decayed below ``ALIVE`` is dropped, so
that a step costs (live rows) x (states), not states squared.
"""

from __future__ import annotations

from needreplay.core.jit import compiled_in_place
from needreplay.tabular.layout import LIVE, Knowledge
from needreplay.tabular.model import never_left

ALIVE = 1e-17
"""Smaller traces are dropped: what they would still add stays below 1e-12 (held by a test)."""


@compiled_in_place
def forget_trace(agent: Knowledge) -> None:
    """e ← 0, at an episode's start. Writes the traces."""
    states = agent.states
    for index in range(agent.counts[LIVE]):
        states[states[index]["live"]]["trace"] = 0.0
    agent.counts[LIVE] = 0


@compiled_in_place
def advance_trace(agent: Knowledge, state: int, decay: float) -> None:
    """e ← γλ e + φ(s), where ``decay`` = γλ. Writes the traces."""
    states = agent.states
    count = agent.counts[LIVE]
    index = 0
    while index < count:
        row = states[index]["live"]
        left = states[row]["trace"] * decay
        if left < ALIVE:
            states[row]["trace"] = 0.0
            count -= 1
            states[index]["live"] = states[count]["live"]
        else:
            states[row]["trace"] = left
            index += 1
    if states[state]["trace"] == 0.0:
        states[count]["live"] = state
        count += 1
    states[state]["trace"] += 1.0
    agent.counts[LIVE] = count


@compiled_in_place
def learn_successor(
    agent: Knowledge, state: int, next_state: int, ends: bool, discount: float, step_size: float
) -> None:
    """M ← M + α eᵀ [φ(s) + γ φ(s') M − φ(s) M].

    Where the step ends the episode, γ φ(s') alone at a final state, and nothing at any other. The
    trace must have been advanced. Writes ``agent.M`` and ``agent.error``.
    """
    M, error, states = agent.M, agent.error, agent.states
    n_states = M.shape[0]
    if ends:
        for column in range(n_states):
            error[column] = -M[state, column]
        if never_left(agent, next_state):
            error[next_state] += discount
    else:
        for column in range(n_states):
            error[column] = discount * M[next_state, column] - M[state, column]
    error[state] += 1.0
    for index in range(agent.counts[LIVE]):
        row = states[index]["live"]
        size = step_size * states[row]["trace"]
        for column in range(n_states):
            M[row, column] += size * error[column]
