"""Epsilon-greedy with ties, as a function of one uniform number."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.tabular.arrays import AgentArrays, new_arrays
from needlab.tabular.dyna import epsilon_greedy, largest_q


def knowing(*rows: list[float]) -> AgentArrays:
    """An agent with this Q."""
    agent = new_arrays(len(rows), len(rows[0]))
    agent.Q[:] = rows
    pairs, n_actions = agent.pairs, len(rows[0])
    agent.states["value"] = [largest_q(pairs, n_actions, state) for state in range(len(rows))]
    return agent


def chosen(agent: AgentArrays, state: int, epsilon: float, u: float) -> int:
    """What an agent with this agent does."""
    value, n_actions = float(agent.states["value"][state]), agent.Q.shape[1]
    return int(epsilon_greedy(agent.pairs, n_actions, state, value, epsilon, u))


def test_largest_q_of_each_state() -> None:
    agent = knowing([-3.0, -1.0, -2.0], [0.0, 5.0, 4.0])
    assert agent.states["value"].tolist() == [-1.0, 5.0]


@pytest.mark.parametrize(
    ("u", "action"),
    [
        # epsilon 0.2: the first fifth of u is cut into three, the rest between two best actions.
        (0.0, 0), (0.06, 0), (0.07, 1), (0.13, 1), (0.14, 2), (0.199, 2),
        (0.2, 1), (0.59, 1), (0.61, 2), (0.999999, 2),
    ],
)  # fmt: skip
def test_by_hand(u: float, action: int) -> None:
    agent = knowing([0.0, 0.0, 0.0], [-1.0, 2.0, 2.0])
    assert chosen(agent, 1, 0.2, u) == action


def test_shares_of_actions() -> None:
    agent = knowing([1.0, 0.0, 1.0, 1.0])
    grid = (np.arange(12_000) + 0.5) / 12_000
    drawn = Counter(chosen(agent, 0, 0.1, u) for u in grid)
    assert drawn == {0: 3900, 1: 300, 2: 3900, 3: 3900}


@given(
    row=st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=1, max_size=5),
    epsilon=st.floats(0.0, 1.0),
    u=st.one_of(st.floats(0.0, 1.0, exclude_max=True), st.just(1.0 - 2.0**-53)),
)
@settings(max_examples=200, deadline=None)
def test_an_action_always_exists_and_is_greedy_beyond_epsilon(
    row: list[float], epsilon: float, u: float
) -> None:
    action = chosen(knowing(row), 0, epsilon, u)
    assert 0 <= action < len(row)
    if u >= epsilon:
        assert row[action] == max(row)


@pytest.mark.parametrize("n_actions", range(1, 6))
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.9, 1.0])
def test_just_below_epsilon_the_last_action_is_drawn(n_actions: int, epsilon: float) -> None:
    agent = new_arrays(1, n_actions)
    assert chosen(agent, 0, epsilon, np.nextafter(epsilon, 0.0)) == n_actions - 1


LAST = 1.0 - 2.0**-53
"""The largest number that a generator's ``random()`` gives."""


@pytest.mark.parametrize("row", [[0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [-1.0, 2.0, 2.0]])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.32, 0.4, 0.49, 0.99])
def test_the_last_uniform_number_takes_the_last_best_action(
    row: list[float], epsilon: float
) -> None:
    # (u - 0.32) / (1 - 0.32) rounds to 1, which used to select no action but return the first.
    assert chosen(knowing(row), 0, epsilon, LAST) == len(row) - 1
