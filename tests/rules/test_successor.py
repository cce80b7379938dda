"""The successor representation: closed forms by hand, and learning that converges to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.core.jit import jit
from needlab.tabular.successor import (
    clear_trace,
    final_states,
    td_lambda,
    td_lambda_features,
    transition_matrix,
)
from needlab.tabular.sweeping import SMALLEST_TRACE
from needlab.worlds import tabular_world
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray
from needreplay.equations import closed_form

learn = jit(td_lambda)

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


class Learner:
    """M and what ``td_lambda`` needs beside it."""

    def __init__(self, M: FloatArray, **parameters: float) -> None:
        self.M, n = np.array(M, dtype=np.float64), len(M)
        self.trace, self.active, self.error = np.zeros(n), np.zeros(n + 1, np.int64), np.zeros(n)
        self.parameters = {"discount": 0.5, "trace_decay": 0.5, "step_size": 0.5, "smallest": 0.0}
        self.parameters.update(parameters)

    def step(self, state: int, arrival: int, ends: bool = False, final: bool = True) -> None:
        arrays = self.M, self.trace, self.active, self.error
        learn(*arrays, state, arrival, ends, final, *self.parameters.values())

    def check_valid(self) -> None:
        """The active states are those whose trace is not 0, each once."""
        active = self.active[: self.active[-1]].tolist()
        assert sorted(active) == np.flatnonzero(self.trace).tolist()


class TestTdLambda:
    def test_two_steps_by_hand(self) -> None:
        # gamma 0.5, lambda 0.5, alpha 0.5, M = 0, three states; 0 -> 1, then 1 -> 2, which ends.
        for final, arrival in ((True, 0.25), (False, 0.0)):
            learner = Learner(np.zeros((3, 3)))
            learner.step(0, 1)
            assert learner.trace.tolist() == [1.0, 0.0, 0.0]
            assert learner.M.tolist() == [[0.5, 0.0, 0.0], [0.0] * 3, [0.0] * 3]
            # e = (1/4, 1, 0); error = phi(1) + 1/2 phi(2) - M[1] = (0, 1, 1/2), and without the
            # 1/2 where the arrival is not final.
            learner.step(1, 2, ends=True, final=final)
            assert learner.trace.tolist() == [0.25, 1.0, 0.0]
            rows = [[0.5, 0.125, arrival / 4], [0.0, 0.5, arrival], [0.0] * 3]
            assert learner.M.tolist() == rows

    def test_the_next_row_is_discounted_and_the_own_row_subtracted(self) -> None:
        learner = Learner(np.array([[2.0, 1.0], [4.0, 8.0]]), step_size=1.0)
        learner.step(0, 1)
        # phi(0) + 1/2 (4, 8) = (3, 4), and with alpha = 1 the row is its target.
        assert learner.M.tolist() == [[3.0, 4.0], [4.0, 8.0]]

    def test_the_trace_accumulates_decays_and_is_dropped(self) -> None:
        learner = Learner(np.zeros((3, 3)), discount=1.0, smallest=0.1)
        learner.step(0, 0)
        learner.step(0, 1)
        assert learner.trace.tolist() == [1.5, 0.0, 0.0]
        learner.step(1, 2)
        assert learner.trace.tolist() == [0.75, 1.0, 0.0]
        for _ in range(3):
            learner.step(2, 2)
            learner.check_valid()
        # 0.75 / 8 is below the smallest, 1 / 8 is not.
        assert learner.trace.tolist() == [0.0, 0.125, 1.75]
        clear_trace(learner.trace, learner.active)
        learner.check_valid()
        assert not learner.trace.any()

    @pytest.mark.parametrize("trace_decay", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("resets", [True, False])
    def test_active_rows_equal_the_dense_rule(self, trace_decay: float, resets: bool) -> None:
        # 60 states of which a walk visits 20 at a time, so that traces of the others are dropped.
        n, gamma, alpha = 60, 0.9, 0.1
        rng = stream(0, "trace")
        M, e = rng.random((n, n)), np.zeros(n)
        learner = Learner(
            M, discount=gamma, trace_decay=trace_decay, step_size=alpha, smallest=SMALLEST_TRACE
        )
        before, state, visited = M.copy(), 0, {0}
        for step in range(3000):
            arrival, ends = step // 400 * 5 + int(rng.integers(0, 20)), bool(rng.random() < 0.05)
            final = bool(rng.random() < 0.5)
            learner.step(state, arrival, ends, final)
            # e <- gamma lambda e + phi(s); M <- M + alpha e^T [phi(s) + gamma phi(s') M - phi(s) M]
            e = gamma * trace_decay * e + np.eye(n)[state]
            following = np.eye(n)[arrival] * final if ends else M[arrival]
            M += alpha * np.outer(e, np.eye(n)[state] + gamma * following - M[state])
            if ends and resets:
                clear_trace(learner.trace, learner.active)
                e[:] = 0.0
            if step % 100 == 0:
                learner.check_valid()
            state = arrival
            visited.add(state)
        np.testing.assert_allclose(learner.M, M, rtol=0, atol=1e-12)
        np.testing.assert_allclose(learner.trace, e, rtol=0, atol=1e-15)
        assert np.abs(M - before).max() > 0.5
        assert learner.active[-1] < len(visited)

    def test_what_dropped_traces_would_still_add_is_below_the_tolerance(self) -> None:
        # The worst case of a dropped row: its trace is just below the smallest, decays by 0.95 a
        # step, and each step has the largest error that an M in its bounds can have, 1 / (1 - γ).
        discount, step_size = 0.95, 0.5
        once = SMALLEST_TRACE * step_size / (1.0 - discount) / (1.0 - discount)
        assert once < 1e-12 / 100
        # A trace of 1 stays at least this many steps, so an entry is dropped at most so often;
        # over 10,000 steps even all of them together stay below 1e-12.
        steps = np.log(SMALLEST_TRACE) / np.log(discount)
        assert once * 10_000 / steps < 1e-12

    @pytest.mark.parametrize("trace_decay", [0.0, 0.5, 0.9])
    def test_converges_to_the_closed_form_on_a_random_chain(self, trace_decay: float) -> None:
        n, discount = 5, 0.8
        rng = stream(1, "chain", str(trace_decay))
        T = stochastic(rng, n)
        reached = np.cumsum(T, axis=1)[:, :-1]

        def steps() -> Iterator[tuple[int, int, bool]]:
            state = 0
            for u in rng.random(20_000):
                arrival = int(np.searchsorted(reached[state], u))
                yield state, arrival, False
                state = arrival

        expected = closed_form(T, discount)
        assert np.abs(learned(n, steps(), discount, trace_decay) - expected).max() < 0.06
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
        learner, occupancy = (
            Learner(np.zeros((n, n)), discount=discount, trace_decay=1.0),
            np.zeros((n, n)),
        )
        for episode in range(1, 41):
            path = [*rng.permutation(n - 1).tolist(), n - 1]
            learner.parameters["step_size"] = 1.0 / episode
            for here, there in pairwise(path):
                learner.step(here, there, ends=there == n - 1)
            clear_trace(learner.trace, learner.active)
            for start, here in enumerate(path[:-1]):
                for steps, there in enumerate(path[start:]):
                    occupancy[here, there] += discount**steps
        np.testing.assert_allclose(learner.M, occupancy / 40, rtol=0, atol=1e-12)


def learned(
    n: int, steps: Iterable[tuple[int, int, bool]], discount: float, trace_decay: float
) -> FloatArray:
    """M by TD(λ) with a falling step size; the mean over the later nine tenths of the way."""
    learner, mean = Learner(np.eye(n), discount=discount, trace_decay=trace_decay), np.zeros((n, n))
    walk = list(steps)
    for k, (state, arrival, ends) in enumerate(walk):
        learner.parameters["step_size"] = 0.2 / (1.0 + k / 500.0) ** 0.6
        learner.step(state, arrival, ends)
        if ends:
            clear_trace(learner.trace, learner.active)
        if k >= len(walk) // 10:
            mean += learner.M
    return mean / (len(walk) - len(walk) // 10)


class TestGivenFeatures:
    """ψ = φ W by TD(λ), the paper's section 3.1."""

    def test_one_hot_features_give_m_in_a_maze(self) -> None:
        table = tabular_world("dyna-maze")
        n = table.n_states
        codes, rng = np.eye(n), stream(0, "walk")
        final = final_states(table.next_state, table.ends)
        M, trace, active, error = (
            np.zeros((n, n)), np.zeros(n), np.zeros(n + 1, np.int64), np.zeros(n)
        )  # fmt: skip
        W, own = np.zeros((n, n)), np.zeros(n)
        state = table.start
        for _ in range(2_000):
            action = int(rng.integers(table.n_actions))
            after, ends = int(table.next_state[state, action]), bool(table.ends[state, action])
            end = bool(final[after])
            learn(M, trace, active, error, state, after, ends, end, 0.95, 0.9, 0.1, 0.0)
            td_lambda_features(W, own, codes[state], codes[after], ends, end, 0.95, 0.9, 0.1)
            state = table.start if ends else after
            if ends:
                clear_trace(trace, active)
                own[:] = 0.0
        assert M.max() > 1.0
        np.testing.assert_allclose(W, M, rtol=0.0, atol=1e-10)

    def test_coarse_codes_rest_at_the_least_squares_solution(self) -> None:
        """Cells of the maze in blocks of 2 x 2: the mean step from A⁻¹ B is 0."""
        table = tabular_world("dyna-maze")
        pairs = [
            (s, int(after), bool(end))
            for s in range(table.n_states)
            for after, end in zip(table.next_state[s], table.ends[s], strict=True)
        ]
        rows, columns = np.divmod(np.arange(table.n_states), 9)
        phi = np.eye(15)[rows // 2 * 5 + columns // 2]
        A = sum(np.outer(phi[s], phi[s] - 0.95 * phi[t] * (not e)) for s, t, e in pairs)
        B = sum(np.outer(phi[s], phi[s] + 0.95 * phi[t] * e) for s, t, e in pairs)
        W = np.linalg.solve(A, B)
        total = np.zeros_like(W)
        for s, t, e in pairs:
            moved = W.copy()
            td_lambda_features(moved, np.zeros(15), phi[s], phi[t], e, True, 0.95, 0.0, 1.0)
            total += moved - W
        assert np.abs(W).max() > 1.0
        np.testing.assert_allclose(total, 0.0, atol=1e-9)

    def test_tile_codes_know_a_goal_that_moved_sooner_than_one_hot_codes(self) -> None:
        """Two tilings of 2 x 2 cells, a random walk of 1,000 steps in the Dyna maze.

        R = φ · w is 1 in one block of cells, then in another: only w changes.
        """
        table = tabular_world("dyna-maze")
        n = table.n_states
        rows, columns = np.divmod(np.arange(n), 9)
        free = (table.next_state != np.arange(n)[:, None]).any(1)
        walk = np.zeros((n, n))
        np.add.at(walk, (np.arange(n)[:, None], table.next_state), 0.25 * ~table.ends)
        M = np.linalg.inv(np.eye(n) - 0.95 * walk)
        tilings = [np.eye(20)[(rows + o) // 2 * 5 + (columns + o) // 2] for o in (0, 1)]

        def errors(phi: FloatArray, seed: int) -> list[float]:
            W, trace, rng = np.zeros((phi.shape[1],) * 2), np.zeros(phi.shape[1]), stream(seed, "w")
            state = table.start
            for action in rng.integers(4, size=1_000):
                after, ends = table.next_state[state, action], bool(table.ends[state, action])
                td_lambda_features(W, trace, phi[state], phi[after], ends, False, 0.95, 0.9, 0.1)
                state = table.start if ends else after
                trace *= not ends
            found = []
            for row, column in ((0, 2), (2, 0)):
                reward = ((rows // 2 == row) & (columns // 2 == column)).astype(float)
                w = np.linalg.lstsq(phi, reward, rcond=None)[0]
                values, exact = (phi @ W @ w)[free], (M @ reward)[free]
                assert np.corrcoef(values, exact)[0, 1] > 0.8
                found.append(np.abs(values - exact).mean() / exact.mean())
            return found

        tiles, one_hot = (
            np.array([errors(phi, seed) for seed in range(5)]).mean(0)
            for phi in (np.hstack(tilings) / np.sqrt(2.0), np.eye(n))
        )
        assert (tiles < 0.8 * one_hot).all()

    def test_values_of_a_goal_that_moved_by_hand(self) -> None:
        """0 -> 1 -> 2 -> 3, γ = 0.5, α = λ = 1: one episode is enough; R is in w alone."""
        codes, W, trace = np.eye(4), np.zeros((4, 4)), np.zeros(4)
        for s in range(3):
            td_lambda_features(W, trace, codes[s], codes[s + 1], s == 2, True, 0.5, 1.0, 1.0)
        for goal, values in ((3, [0.125, 0.25, 0.5]), (1, [0.5, 1.0, 0.0])):
            assert (W[:3] @ codes[goal]).tolist() == values
