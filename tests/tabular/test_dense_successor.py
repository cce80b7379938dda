"""The successor matrix on whole arrays, against its definition."""

from __future__ import annotations

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.types import FloatArray
from needreplay.rules.successor import closed_form, td_lambda, transition_matrix
from needreplay.tabular.dense_successor import (
    greedy_changed,
    greedy_occupancy,
    largest_entry,
    learn_dense,
)
from needreplay.tabular.layout import PAIR
from needreplay.worlds.cliffwalk import cliffwalk_table


def test_a_walk_is_td_lambda_step_for_step() -> None:
    rng = stream(0, "dense")
    M, trace, error = rng.random((5, 5)), np.zeros(5), np.zeros(5)
    M_defined, trace_defined = M.copy(), trace.copy()
    for step in range(60):
        state, following = int(rng.integers(0, 4)), int(rng.integers(0, 5))
        ends = following == 4
        learn_dense(M, trace, error, state, following, not ends, True, 0.9, 0.7, 0.2)
        td_lambda(
            M_defined, trace_defined, state, following,
            ends=ends, discount=0.9, trace_decay=0.7, step_size=0.2,
        )  # fmt: skip
        np.testing.assert_allclose(M, M_defined, rtol=1e-12, atol=1e-14, err_msg=str(step))
    assert largest_entry(-M) == np.abs(M).max()


def test_a_fall_that_ends_counts_no_arrival() -> None:
    # M = 2 I, from state 1: φ(1) − M[1] = (0, −1); nothing of state 0 is added.
    M, trace, error = 2.0 * np.eye(2), np.zeros(2), np.zeros(2)
    learn_dense(M, trace, error, 1, 0, False, False, 0.9, 0.5, 0.1)
    np.testing.assert_allclose(M, [[2.0, 0.0], [0.0, 1.9]])


def test_the_greedy_policys_occupancy_is_the_closed_form_with_ties_shared() -> None:
    rng = stream(1, "dense")
    for table in (cliffwalk_table(5, "ends"), cliffwalk_table(5, "teleports", "first")):
        for _ in range(6):
            q = rng.integers(0, 3, (6, 2)).astype(np.float64)
            q[5] = 0.0
            pairs = np.zeros(12, PAIR)
            pairs["q"], pairs["next_state"] = q.ravel(), table.next_state.ravel()
            best = np.zeros(5, np.int64)
            assert greedy_changed(pairs, 2, best)
            assert not greedy_changed(pairs, 2, best)
            ends = table.ends[:5].ravel()
            counted = ~ends | (table.next_state[:5].ravel() == 5)
            M, system = np.zeros((6, 6)), np.zeros((6, 6))
            greedy_occupancy(pairs, 2, best, counted, 0.8, system, M)
            policy: FloatArray = q == q.max(axis=1, keepdims=True)
            policy = policy / policy.sum(axis=1, keepdims=True)
            expected = closed_form(transition_matrix(table.next_state, table.ends, policy), 0.8)
            np.testing.assert_allclose(M, expected, atol=1e-13)
