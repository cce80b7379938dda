"""Slots in the order of their gain, against a sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.studies.cliffwalk.task import move, place_above, rank_order
from needreplay._core.rng import stream


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 70), seed=st.integers(0, 2**32))
def test_any_sequence_of_changes_is_a_sorted_list(n: int, seed: int) -> None:
    rng = stream(seed, "rank")
    order = rank_order(rng.permutation(n), 1.0, 0.7)
    gains = dict.fromkeys(range(n), 1.0)
    expected = order.slot.tolist()
    assert sorted(expected) == list(range(n))
    for _ in range(30):
        place, gain = int(rng.integers(n)), float(rng.choice([0.1, 0.5, 1.0, 2.0, rng.random()]))
        move(order, place, gain)
        slot = expected.pop(place)
        gains[slot] = gain
        expected.insert(sum(gains[other] >= gain for other in expected), slot)
        assert order.slot.tolist() == expected
        assert (-order.minus_gain).tolist() == [gains[slot] for slot in expected]


def test_ranks_are_sampled_by_a_power_law() -> None:
    order = rank_order(np.arange(3), 1.0, 1.0)
    # 1, 1/2, 1/3 of 11/6
    np.testing.assert_allclose(order.cumulative, [6 / 11, 9 / 11, 1.0])
    drawn = [place_above(order.cumulative, u) for u in (0.0, 0.54, 0.55, 0.81, 0.82, 0.999999)]
    assert drawn == [0, 0, 1, 1, 2, 2]


def test_without_an_exponent_there_are_no_probabilities() -> None:
    assert rank_order(np.arange(3), 1.0, None).cumulative.size == 0
