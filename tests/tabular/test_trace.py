"""Learning on live rows only against the rule on dense arrays."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.core.rng import stream
from needreplay.rules.successor import td_lambda
from needreplay.tabular.layout import LIVE, Knowledge, new_knowledge
from needreplay.tabular.trace import ALIVE, advance_trace, forget_trace, learn_successor


def check_valid(agent: Knowledge) -> None:
    """The live states are those whose trace is not 0, each once."""
    live = agent.states["live"][: agent.counts[LIVE]].tolist()
    assert sorted(live) == np.flatnonzero(agent.states["trace"]).tolist()


@pytest.mark.parametrize("trace_decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("discount", [0.9, 0.95])
@pytest.mark.parametrize("resets", [True, False])
@pytest.mark.parametrize("ends_share", [0.0, 0.05])
def test_live_rows_equal_the_dense_rule(
    uncompiled: bool, trace_decay: float, discount: float, resets: bool, ends_share: float
) -> None:
    # 60 states of which a walk visits 20 at a time, so that traces of the others die out.
    n_states, n_steps, step_size = 60, (150 if uncompiled else 6000), 0.1
    rng = stream(0, "trace")
    M = rng.random((n_states, n_states))
    agent, dense, e = new_knowledge(n_states, 1, M), M.copy(), np.zeros(n_states)
    state, visited = 0, {0}
    for step in range(n_steps):
        region = step * 9 // n_steps * 5
        arrival, ends = region + int(rng.integers(0, 20)), bool(rng.random() < ends_share)
        advance_trace(agent, state, discount * trace_decay)
        learn_successor(agent, state, arrival, ends, discount, step_size)
        td_lambda(
            dense, e, state, arrival, ends=ends, discount=discount, trace_decay=trace_decay,
            step_size=step_size,
        )  # fmt: skip
        if ends and resets:
            forget_trace(agent)
            e[:] = 0.0
        if step % 100 == 0:
            check_valid(agent)
        state = arrival
        visited.add(state)
    np.testing.assert_allclose(agent.M, dense, rtol=0, atol=1e-12)
    np.testing.assert_allclose(agent.states["trace"], e, rtol=0, atol=1e-15)
    assert np.abs(dense - M).max() > 0.5
    check_valid(agent)
    if trace_decay < 1.0 or not uncompiled:
        assert agent.counts[LIVE] < len(visited)


def test_what_dropped_traces_would_still_add_is_below_the_tolerance() -> None:
    # The worst case of a dropped row: its trace is just below ALIVE, decays by 0.95 a step, and
    # each step has the largest error that an M within its bounds can have, 1 / (1 - gamma).
    discount, step_size = 0.95, 0.5
    once = ALIVE * step_size / (1.0 - discount) / (1.0 - discount)
    assert once < 1e-12 / 100
    # A live trace of 1 lives at least this many steps, so an entry is dropped at most so often;
    # over 10,000 steps even all of them together stay below 1e-12.
    steps_alive = np.log(ALIVE) / np.log(discount)
    assert once * 10_000 / steps_alive < 1e-12


def test_a_trace_below_the_cut_off_is_dropped_and_one_above_is_kept() -> None:
    agent = new_knowledge(3, 1, np.eye(3))
    advance_trace(agent, 0, 0.5)
    advance_trace(agent, 1, ALIVE * 1.5)
    assert agent.states["trace"].tolist() == [ALIVE * 1.5, 1.0, 0.0]
    advance_trace(agent, 2, 0.5)
    assert agent.states["trace"].tolist() == [0.0, 0.5, 1.0]
    assert agent.counts[LIVE] == 2
    check_valid(agent)
    forget_trace(agent)
    assert agent.counts[LIVE] == 0
    assert not agent.states["trace"].any()


def test_one_step_by_hand() -> None:
    # gamma 1/2: row 0 moves by alpha 1/2 along (1, 0) + 1/2 (3, 4) - (2, 1) = (1/2, 1).
    agent = new_knowledge(2, 1, np.array([[2.0, 1.0], [3.0, 4.0]]))
    advance_trace(agent, 0, 0.5)
    learn_successor(agent, 0, 1, False, 0.5, 0.5)
    assert agent.M.tolist() == [[2.25, 1.5], [3.0, 4.0]]
    # The step that ends counts the arrival: (1, 0) + 1/2 (0, 1) - (2.25, 1.5) = (-1.25, -1).
    forget_trace(agent)
    advance_trace(agent, 0, 0.5)
    learn_successor(agent, 0, 1, True, 0.5, 0.5)
    assert agent.M.tolist() == [[1.625, 1.0], [3.0, 4.0]]


def test_the_matrix_an_agent_begins_with_is_copied() -> None:
    M = np.eye(2)
    agent = new_knowledge(2, 1, M)
    advance_trace(agent, 0, 0.5)
    learn_successor(agent, 0, 1, False, 0.5, 0.5)
    assert M.tolist() == [[1.0, 0.0], [0.0, 1.0]]
