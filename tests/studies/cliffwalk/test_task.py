"""The task: values, matrices and the filled buffer, by formula and by hand."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from needlab.studies.cliffwalk.settings import cliffwalk_preset
from needlab.studies.cliffwalk.task import (
    faulty_transitions,
    filled_buffer,
    greedy_changed,
    greedy_occupancy,
    initial_matrix,
    optimal_transitions,
    right_actions,
    task_discount,
    true_values,
)
from needlab.tabular.arrays import PAIR
from needlab.tabular.successor import random_policy_matrix, transition_matrix
from needlab.worlds.cliffwalk import cliffwalk_world
from needlab.worlds.tabular import TabularWorld
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray
from needreplay.equations import closed_form


def random_T(table: TabularWorld) -> FloatArray:
    return random_policy_matrix(table.next_state, table.ends)


def test_discount_by_hand() -> None:
    assert task_discount(cliffwalk_preset("printed"), 4) == 0.75
    assert task_discount(cliffwalk_preset("released"), 4) == 0.8


@pytest.mark.parametrize("fall", ["ends", "teleports"])
@pytest.mark.parametrize("right", ["alternate", "first"])
def test_true_values_are_the_fixed_point(
    fall: Literal["ends", "teleports"], right: Literal["alternate", "first"]
) -> None:
    table = cliffwalk_world(6, fall, right)
    q = true_values(table, 0.8)
    bootstrapped = np.where(table.ends, 0.0, 0.8 * q.max(axis=1)[table.next_state])
    np.testing.assert_allclose(q[:6], (table.reward_mean + bootstrapped)[:6], rtol=1e-12)
    assert (q[:6].argmax(axis=1) == right_actions(table)).all()


def test_rows_of_the_matrices() -> None:
    table = cliffwalk_world(4, "teleports", "first")
    np.testing.assert_allclose(random_T(table).sum(axis=1), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(optimal_transitions(table).sum(axis=1), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(
        faulty_transitions(table, optimal=False).sum(axis=1), [1, 1.5, 1.5, 1.5, 0]
    )
    np.testing.assert_allclose(faulty_transitions(table, optimal=True).sum(axis=1), [1, 2, 2, 2, 0])
    ends = cliffwalk_world(4, "ends", "alternate")
    np.testing.assert_allclose(random_T(ends).sum(axis=1), [0.5, 0.5, 0.5, 0.5, 0])


@pytest.mark.parametrize("n", [3, 4, 5, 6, 9])
def test_the_faulty_random_matrix_is_no_occupancy_from_5_states_on(n: int) -> None:
    table = cliffwalk_world(n, "teleports", "first")
    M = closed_form(faulty_transitions(table, optimal=False), 1 - 1 / (n + 1))
    assert (M.min() < 0.0) == (n >= 5)


def test_which_matrix_a_method_starts_from() -> None:
    table = cliffwalk_world(3, "teleports", "first")
    released, corrected = cliffwalk_preset("released"), cliffwalk_preset("corrected")
    printed = cliffwalk_preset("printed")
    right = closed_form(optimal_transitions(table), 0.75)
    np.testing.assert_array_equal(initial_matrix(corrected, "need-optimal", table, 0.75), right)
    # always right: state 1 is visited once, one step after state 0
    assert right[0, 1] == 0.75
    faulty = closed_form(faulty_transitions(table, optimal=True), 0.75)
    np.testing.assert_array_equal(initial_matrix(released, "need-optimal", table, 0.75), faulty)
    random = closed_form(random_T(table), 0.75)
    np.testing.assert_array_equal(initial_matrix(corrected, "need", table, 0.75), random)
    np.testing.assert_array_equal(initial_matrix(printed, "need-optimal", table, 0.75), random)
    faulty = closed_form(faulty_transitions(table, optimal=False), 0.75)
    np.testing.assert_array_equal(initial_matrix(released, "need-random", table, 0.75), faulty)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_whole_strings_are_n_times_2_to_the_n_with_one_rewarded(n: int) -> None:
    table = cliffwalk_world(n, "teleports", "first")
    buffer = filled_buffer(table, n, until_fall=False)
    assert len(buffer.pair) == n * 2**n
    assert table.reward_mean.ravel()[buffer.pair].sum() == 1.0
    assert (buffer.before == -1).sum() == 2**n


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_strings_until_a_fall_are_2_to_the_n_plus_1_minus_2_with_one_rewarded(n: int) -> None:
    table = cliffwalk_world(n, "ends", "alternate")
    buffer = filled_buffer(table, n, until_fall=True)
    assert len(buffer.pair) == 2 ** (n + 1) - 2
    assert table.reward_mean.ravel()[buffer.pair].sum() == 1.0
    assert (buffer.before == -1).sum() == 2**n


def test_two_states_by_hand() -> None:
    # strings: 00 -> (0,0) (1,0); 01 -> (0,0) (1,1); 10 -> (0,1) (0,0); 11 -> (0,1) (0,1)
    buffer = filled_buffer(cliffwalk_world(2, "teleports", "first"), 2, until_fall=False)
    np.testing.assert_array_equal(buffer.pair, [0, 0, 1, 0, 1, 1, 2, 3])
    np.testing.assert_array_equal(buffer.before, [-1, -1, -1, 2, -1, 4, 0, 1])


def test_two_states_until_a_fall_by_hand() -> None:
    # right is 0, then 1; strings: 00 -> (0,0) (1,0); 01 -> (0,0) (1,1); 10 -> (0,1); 11 -> (0,1)
    buffer = filled_buffer(cliffwalk_world(2, "ends", "alternate"), 2, until_fall=True)
    np.testing.assert_array_equal(buffer.pair, [0, 0, 1, 1, 2, 3])
    np.testing.assert_array_equal(buffer.before, [-1, -1, -1, -1, 0, 1])


def test_the_greedy_policys_occupancy_is_the_closed_form_with_ties_shared() -> None:
    rng = stream(1, "dense")
    for table in (cliffwalk_world(5, "ends"), cliffwalk_world(5, "teleports", "first")):
        for _ in range(6):
            q = rng.integers(0, 3, (6, 2)).astype(np.float64)
            q[5] = 0.0
            pairs = np.zeros(12, PAIR)
            pairs["q"], pairs["next_state"] = q.ravel(), table.next_state.ravel()
            best = np.zeros(5, np.int64)
            assert greedy_changed(pairs, best)
            assert not greedy_changed(pairs, best)
            ends = table.ends[:5].ravel()
            counted = ~ends | (table.next_state[:5].ravel() == 5)
            M, system = np.zeros((6, 6)), np.zeros((6, 6))
            greedy_occupancy(pairs, best, counted, 0.8, system, M)
            policy: FloatArray = q == q.max(axis=1, keepdims=True)
            policy = policy / policy.sum(axis=1, keepdims=True)
            expected = closed_form(transition_matrix(table.next_state, table.ends, policy), 0.8)
            np.testing.assert_allclose(M, expected, atol=1e-13)
