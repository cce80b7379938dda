"""Policies as probabilities, and the mean length of an episode, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from needlab.tabular.policy import epsilon_greedy_policy, expected_steps


def test_epsilon_greedy_policy_by_hand() -> None:
    Q = np.array([[1.0, 0.0], [2.0, 2.0], [-1.0, 3.0]])
    expected = [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    np.testing.assert_allclose(epsilon_greedy_policy(Q, 0.2), expected, atol=1e-15)


def test_expected_steps_of_a_chain_by_hand() -> None:
    # 0 -> 1 -> 2 (final), and each step is taken with probability 1/2, else the agent stays.
    T = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]])
    assert expected_steps(T, 0) == pytest.approx(4.0)
    assert expected_steps(T, 1) == pytest.approx(2.0)


def test_expected_steps_leaves_out_walls() -> None:
    # State 1 is a wall that loops onto itself: I - T would be singular with it.
    T = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert expected_steps(T, 0) == pytest.approx(1.0)
