"""Values and transition matrices of the Blind Cliffwalk."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from needreplay.rules.successor import closed_form
from needreplay.tabular.cliffwalk_settings import cliffwalk_preset
from needreplay.tabular.cliffwalk_truth import (
    faulty_optimal_transitions,
    faulty_random_transitions,
    optimal_transitions,
    random_transitions,
    right_actions,
    start_matrix,
    task_discount,
    true_values,
)
from needreplay.worlds.cliffwalk import cliffwalk_table


def test_discount_by_hand() -> None:
    assert task_discount(cliffwalk_preset("printed"), 4) == 0.75
    assert task_discount(cliffwalk_preset("released"), 4) == 0.8


@pytest.mark.parametrize("fall", ["ends", "teleports"])
@pytest.mark.parametrize("right", ["alternate", "first"])
def test_true_values_are_the_fixed_point(
    fall: Literal["ends", "teleports"], right: Literal["alternate", "first"]
) -> None:
    table = cliffwalk_table(6, fall, right)
    q = true_values(table, 0.8)
    bootstrapped = np.where(table.ends, 0.0, 0.8 * q.max(axis=1)[table.next_state])
    np.testing.assert_allclose(q[:6], (table.reward_mean + bootstrapped)[:6], rtol=1e-12)
    assert (q[:6].argmax(axis=1) == right_actions(table)).all()


def test_rows_of_the_matrices() -> None:
    table = cliffwalk_table(4, "teleports", "first")
    np.testing.assert_allclose(random_transitions(table).sum(axis=1), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(optimal_transitions(table).sum(axis=1), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(faulty_random_transitions(table).sum(axis=1), [1, 1.5, 1.5, 1.5, 0])
    np.testing.assert_allclose(faulty_optimal_transitions(table).sum(axis=1), [1, 2, 2, 2, 0])
    ends = cliffwalk_table(4, "ends", "alternate")
    np.testing.assert_allclose(random_transitions(ends).sum(axis=1), [0.5, 0.5, 0.5, 0.5, 0])


@pytest.mark.parametrize("n", [3, 4, 5, 6, 9])
def test_the_faulty_random_matrix_is_no_occupancy_from_5_states_on(n: int) -> None:
    table = cliffwalk_table(n, "teleports", "first")
    M = closed_form(faulty_random_transitions(table), 1 - 1 / (n + 1))
    assert (M.min() < 0.0) == (n >= 5)


def test_which_matrix_a_method_starts_from() -> None:
    table = cliffwalk_table(3, "teleports", "first")
    released, corrected = cliffwalk_preset("released"), cliffwalk_preset("corrected")
    printed = cliffwalk_preset("printed")
    right = closed_form(optimal_transitions(table), 0.75)
    np.testing.assert_array_equal(start_matrix(corrected, "need-optimal", table, 0.75), right)
    # always right: state 1 is visited once, one step after state 0
    assert right[0, 1] == 0.75
    faulty = closed_form(faulty_optimal_transitions(table), 0.75)
    np.testing.assert_array_equal(start_matrix(released, "need-optimal", table, 0.75), faulty)
    random = closed_form(random_transitions(table), 0.75)
    np.testing.assert_array_equal(start_matrix(corrected, "need", table, 0.75), random)
    np.testing.assert_array_equal(start_matrix(printed, "need-optimal", table, 0.75), random)
    faulty = closed_form(faulty_random_transitions(table), 0.75)
    np.testing.assert_array_equal(start_matrix(released, "need-random", table, 0.75), faulty)
