"""One Q-update from the agent's model: what every tabular agent here is made of."""

from __future__ import annotations

from needreplay.core.jit import compiled_in_place, jit
from needreplay.rules.td import moved_towards as _moved_towards
from needreplay.rules.td import td_error as _td_error
from needreplay.tabular.choose import largest_q
from needreplay.tabular.layout import N_ACTIONS, UPDATES, Knowledge

moved_towards = jit(_moved_towards)
td_error = jit(_td_error)


@compiled_in_place
def td_error_of(agent: Knowledge, pair: int) -> float:
    """R + γ max_a Q(S', a) − Q(S, A), with R and S' from the model."""
    pairs = agent.pairs
    next_value = agent.states[pairs[pair]["next_state"]]["value"]
    return td_error(pairs[pair]["reward"], pairs[pair]["discount"], next_value, pairs[pair]["q"])


@compiled_in_place
def update(agent: Knowledge, step_size: float, pair: int) -> None:
    """Q(S, A) ← Q(S, A) + α [R + γ max_a Q(S', a) − Q(S, A)]. Writes q and its state's value."""
    pairs = agent.pairs
    error = td_error_of(agent, pair)
    pairs[pair]["q"] = moved_towards(pairs[pair]["q"], step_size, error)
    state = pairs[pair]["state"]
    agent.states[state]["value"] = largest_q(pairs, agent.counts[N_ACTIONS], state)
    agent.counts[UPDATES] += 1
