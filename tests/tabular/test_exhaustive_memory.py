"""The memory that is filled beforehand: by formula, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.tabular.exhaustive_memory import exhaustive_memory
from needreplay.worlds.cliffwalk import cliffwalk_table


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_whole_strings_are_n_times_2_to_the_n_with_one_rewarded(n: int) -> None:
    table = cliffwalk_table(n, "teleports", "first")
    memory = exhaustive_memory(table, n, until_fall=False)
    assert len(memory.pair) == n * 2**n
    assert table.reward_mean.ravel()[memory.pair].sum() == 1.0
    assert (memory.before == -1).sum() == 2**n


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_strings_until_a_fall_are_2_to_the_n_plus_1_minus_2_with_one_rewarded(n: int) -> None:
    table = cliffwalk_table(n, "ends", "alternate")
    memory = exhaustive_memory(table, n, until_fall=True)
    assert len(memory.pair) == 2 ** (n + 1) - 2
    assert table.reward_mean.ravel()[memory.pair].sum() == 1.0
    assert (memory.before == -1).sum() == 2**n


def test_two_states_by_hand() -> None:
    # lived: 00 -> (0,0) (1,0); 01 -> (0,0) (1,1); 10 -> (0,1) (0,0); 11 -> (0,1) (0,1)
    memory = exhaustive_memory(cliffwalk_table(2, "teleports", "first"), 2, until_fall=False)
    np.testing.assert_array_equal(memory.pair, [0, 0, 1, 0, 1, 1, 2, 3])
    np.testing.assert_array_equal(memory.before, [-1, -1, -1, 2, -1, 4, 0, 1])


def test_two_states_until_a_fall_by_hand() -> None:
    # right is 0, then 1; lived: 00 -> (0,0) (1,0); 01 -> (0,0) (1,1); 10 -> (0,1); 11 -> (0,1)
    memory = exhaustive_memory(cliffwalk_table(2, "ends", "alternate"), 2, until_fall=True)
    np.testing.assert_array_equal(memory.pair, [0, 0, 1, 1, 2, 3])
    np.testing.assert_array_equal(memory.before, [-1, -1, -1, -1, 0, 1])
