"""The model against plain dictionaries, in a world whose outcomes change."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.tabular.arrays import SEEN, AgentArrays, new_arrays
from needlab.tabular.dyna import update_model


def chain(agent: AgentArrays, state: int) -> list[int]:
    """The pairs that lead to a state, walked forwards; walked backwards they must be the same."""
    forwards, pair = [], int(agent.states["first"][state])
    while pair >= 0:
        forwards.append(pair)
        pair = int(agent.pairs["after"][pair])
    backwards, pair = [], int(agent.states["last"][state])
    while pair >= 0:
        backwards.append(pair)
        pair = int(agent.pairs["before"][pair])
    assert forwards == backwards[::-1]
    return forwards


@st.composite
def experiences(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int, float, bool]]]:
    n_states, n_actions = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    step = st.tuples(
        st.integers(0, n_states * n_actions - 1),
        st.integers(0, n_states - 1),
        st.floats(-1, 1),
        st.booleans(),
    )
    return n_states, n_actions, draw(st.lists(step, max_size=40))


@given(experiences())
@settings(max_examples=60, deadline=None)
def test_chains_and_outcomes(
    lived: tuple[int, int, list[tuple[int, int, float, bool]]],
) -> None:
    n_states, n_actions, steps = lived
    agent = new_arrays(n_states, n_actions)
    model: dict[int, tuple[float, int, float]] = {}
    leading_to: dict[int, list[int]] = {state: [] for state in range(n_states)}
    for pair, next_state, reward, ends in steps:
        if pair in model and model[pair][1] != next_state:
            leading_to[model[pair][1]].remove(pair)
        if pair not in leading_to[next_state]:
            leading_to[next_state].append(pair)
        model[pair] = reward, next_state, 0.0 if ends else 0.9
        update_model(agent, pair, reward, next_state, 0.0 if ends else 0.9)
        assert [chain(agent, state) for state in range(n_states)] == list(leading_to.values())
    assert agent.counts[SEEN] == len(model)
    assert agent.pairs["seen"][: len(model)].tolist() == list(model)
    for pair, outcome in model.items():
        known = agent.pairs[pair]
        assert (known["reward"], known["next_state"], known["discount"]) == outcome
    unknown = np.setdiff1d(np.arange(n_states * n_actions), list(model))
    assert (agent.pairs["next_state"][unknown] == -1).all()
