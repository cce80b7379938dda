"""The successor representation: closed forms by hand, and learning that converges to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needreplay.core.rng import stream
from needreplay.core.types import FloatArray
from needreplay.rules.successor import closed_form, final_states, td_lambda, transition_matrix

# A corridor 0 - 1 - 2 whose actions are left and right; the episode ends on arriving in 2.
CORRIDOR = np.array([[0, 1], [0, 2], [2, 2]])
CORRIDOR_ENDS = np.array([[False, False], [False, True], [False, False]])

# A cliff: action 0 leads on from 0 to 1 to the goal 2, action 1 falls back to 0 and ends.
CLIFF = np.array([[1, 0], [2, 0], [2, 2]])
CLIFF_ENDS = np.array([[False, True], [True, True], [False, False]])


def stochastic(rng: np.random.Generator, n: int) -> FloatArray:
    """A random matrix of probabilities in which every entry is positive."""
    T = rng.random((n, n)) + 0.05
    probabilities: FloatArray = T / T.sum(axis=1, keepdims=True)
    return probabilities


class TestFinalStates:
    def test_a_goal_that_every_action_stays_in(self) -> None:
        assert final_states(CORRIDOR, CORRIDOR_ENDS).tolist() == [False, False, True]

    def test_a_fall_that_ends_does_not_make_the_start_final(self) -> None:
        assert final_states(CLIFF, CLIFF_ENDS).tolist() == [False, False, True]

    def test_a_wall_is_not_final_though_every_action_stays(self) -> None:
        next_state = np.array([[0, 2], [1, 1], [2, 2]])
        ends = np.array([[False, True], [False, False], [False, False]])
        assert final_states(next_state, ends).tolist() == [False, False, True]

    def test_without_an_end_nothing_is_final(self) -> None:
        assert not final_states(CORRIDOR, np.zeros_like(CORRIDOR_ENDS)).any()


class TestTransitionMatrix:
    def test_by_hand_on_a_corridor(self) -> None:
        policy = np.array([[0.25, 0.75], [0.4, 0.6], [0.5, 0.5]])
        T = transition_matrix(CORRIDOR, CORRIDOR_ENDS, policy)
        assert T.tolist() == [[0.25, 0.75, 0.0], [0.4, 0.0, 0.6], [0.0, 0.0, 0.0]]

    def test_two_actions_to_one_state_add_up(self) -> None:
        T = transition_matrix(
            np.array([[1, 1], [1, 0]]), np.zeros((2, 2), np.bool_), np.array([[0.3, 0.7], [1, 0]])
        )
        assert T.tolist() == [[0.0, 1.0], [0.0, 1.0]]

    def test_a_fall_that_ends_leads_nowhere(self) -> None:
        policy = np.full((3, 2), 0.5)
        T = transition_matrix(CLIFF, CLIFF_ENDS, policy)
        assert T.tolist() == [[0.0, 0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]

    def test_a_wall_loops_onto_itself(self) -> None:
        next_state = np.array([[0, 2], [1, 1], [2, 2]])
        ends = np.array([[False, True], [False, False], [False, False]])
        T = transition_matrix(next_state, ends, np.full((3, 2), 0.5))
        assert T.tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


class TestClosedForm:
    def test_by_hand_on_a_chain_that_ends(self) -> None:
        # 0 -> 1 -> 2: each state is visited once, a discount for each step of the way.
        T = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
        expected = [[1.0, 0.5, 0.25], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
        np.testing.assert_allclose(closed_form(T, 0.5), expected, rtol=0, atol=1e-15)

    def test_by_hand_with_a_loop(self) -> None:
        # From 0: stay with 1/2, go to 1 with 1/2; gamma 1/2. M00 = 1 / (1 - 1/4) = 4/3, and
        # M01 = (1/4) M11 M00 = (1/4)(2)(4/3) = 2/3, where 1 stays: M11 = 1 / (1 - 1/2) = 2.
        T = np.array([[0.5, 0.5], [0.0, 1.0]])
        expected = [[4 / 3, 2 / 3], [0.0, 2.0]]
        np.testing.assert_allclose(closed_form(T, 0.5), expected, rtol=0, atol=1e-15)

    @given(n=st.integers(1, 12), discount=st.floats(0.0, 0.99), seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=60, deadline=None)
    def test_rows_sum_to_the_discounted_time_where_nothing_terminates(
        self, n: int, discount: float, seed: int
    ) -> None:
        M = closed_form(stochastic(np.random.default_rng(seed), n), discount)
        np.testing.assert_allclose(M.sum(axis=1), 1.0 / (1.0 - discount), rtol=1e-9)
        assert (M >= -1e-12).all()

    @given(n=st.integers(2, 8), seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=30, deadline=None)
    def test_rows_sum_to_less_where_something_terminates(self, n: int, seed: int) -> None:
        T = stochastic(np.random.default_rng(seed), n)
        T[-1] = 0.0
        M = closed_form(T, 0.9)
        assert (M.sum(axis=1) < 1.0 / (1.0 - 0.9) - 1e-6).all()
        np.testing.assert_allclose(M[-1], np.eye(n)[-1], atol=1e-12)


class TestTdLambda:
    def test_two_steps_by_hand(self) -> None:
        # gamma 0.5, lambda 0.5, alpha 0.5, M = 0, three states; 0 -> 1, then 1 -> 2, which ends.
        M, e = np.zeros((3, 3)), np.zeros(3)
        learn = partial(td_lambda, discount=0.5, trace_decay=0.5, step_size=0.5)
        learn(M, e, 0, 1, ends=False)
        assert e.tolist() == [1.0, 0.0, 0.0]
        assert M.tolist() == [[0.5, 0.0, 0.0], [0.0] * 3, [0.0] * 3]
        # e = (1/4, 1, 0); error = phi(1) + 1/2 phi(2) - M[1] = (0, 1, 1/2)
        before = M.copy(), e.copy()
        learn(M, e, 1, 2, ends=True)
        assert e.tolist() == [0.25, 1.0, 0.0]
        assert M.tolist() == [[0.5, 0.125, 0.0625], [0.0, 0.5, 0.25], [0.0] * 3]
        # An end that is not final leads nowhere: error = phi(1) - M[1].
        M, e = before
        learn(M, e, 1, 2, ends=True, final=False)
        assert M.tolist() == [[0.5, 0.125, 0.0], [0.0, 0.5, 0.0], [0.0] * 3]

    def test_the_next_row_is_discounted_and_the_own_row_taken_off(self) -> None:
        M, e = np.array([[2.0, 1.0], [4.0, 8.0]]), np.zeros(2)
        td_lambda(M, e, 0, 1, ends=False, discount=0.5, trace_decay=0.0, step_size=1.0)
        # phi(0) + 1/2 (4, 8) = (3, 4), and with alpha = 1 the row is its target.
        assert M.tolist() == [[3.0, 4.0], [4.0, 8.0]]

    def test_the_trace_accumulates_on_a_visit_again(self) -> None:
        M, e = np.zeros((2, 2)), np.array([0.8, 0.4])
        td_lambda(M, e, 0, 0, ends=False, discount=0.5, trace_decay=0.5, step_size=0.1)
        np.testing.assert_allclose(e, [1.2, 0.1])

    @pytest.mark.parametrize("trace_decay", [0.0, 0.5, 0.9])
    def test_converges_to_the_closed_form_on_a_random_chain(self, trace_decay: float) -> None:
        n, discount = 5, 0.8
        rng = stream(1, "chain", str(trace_decay))
        T = stochastic(rng, n)
        reached = np.cumsum(T, axis=1)[:, :-1]

        def steps() -> Iterator[tuple[int, int, bool]]:
            state = 0
            for u in rng.random(40_000):
                arrival = int(np.searchsorted(reached[state], u))
                yield state, arrival, False
                state = arrival

        expected = closed_form(T, discount)
        assert np.abs(learned(n, steps(), discount, trace_decay) - expected).max() < 0.05
        assert np.abs(np.eye(n) - expected).max() > 0.5

    def test_converges_to_the_closed_form_of_a_table_that_ends(self) -> None:
        # The arrival in a final state is counted once, as in T; nothing is counted after it.
        policy = np.full((3, 2), 0.5)
        expected = closed_form(transition_matrix(CORRIDOR, CORRIDOR_ENDS, policy), 0.9)
        rng = stream(3, "table")

        def steps() -> Iterator[tuple[int, int, bool]]:
            state = 0
            for action in rng.integers(0, 2, 20_000):
                arrival, ends = int(CORRIDOR[state, action]), bool(CORRIDOR_ENDS[state, action])
                yield state, arrival, ends
                state = 0 if ends else arrival

        assert np.abs(learned(3, steps(), 0.9, 0.5) - expected).max() < 0.05

    def test_lambda_1_with_a_decaying_step_finds_the_empirical_occupancy(self) -> None:
        # Where no state is visited twice in an episode, lambda = 1 moves the row of each state by
        # alpha times (the discounted visits that followed, minus the row). Each state is visited
        # once in each episode, so with alpha = 1/k in the k-th the rows are the averages so far.
        discount, n = 0.9, 6
        rng = stream(2, "occupancy")
        M, occupancy = np.zeros((n, n)), np.zeros((n, n))
        for episode in range(1, 41):
            path = [*rng.permutation(n - 1).tolist(), n - 1]
            e = np.zeros(n)
            for here, there in pairwise(path):
                td_lambda(
                    M, e, here, there, ends=there == n - 1, discount=discount, trace_decay=1.0,
                    step_size=1.0 / episode,
                )  # fmt: skip
            for start, here in enumerate(path[:-1]):
                for steps, there in enumerate(path[start:]):
                    occupancy[here, there] += discount**steps
        np.testing.assert_allclose(M, occupancy / 40, rtol=0, atol=1e-12)


def learned(
    n: int, steps: Iterable[tuple[int, int, bool]], discount: float, trace_decay: float
) -> FloatArray:
    """M by TD(λ) with a falling step size; the mean over the later nine tenths of the way."""
    M, e, mean = np.eye(n), np.zeros(n), np.zeros((n, n))
    lived = list(steps)
    for k, (state, arrival, ends) in enumerate(lived):
        td_lambda(
            M, e, state, arrival, ends=ends, discount=discount, trace_decay=trace_decay,
            step_size=0.2 / (1.0 + k / 500.0) ** 0.6,
        )  # fmt: skip
        if ends:
            e[:] = 0.0
        if k >= len(lived) // 10:
            mean += M
    return mean / (len(lived) - len(lived) // 10)
