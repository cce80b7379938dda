"""Sorted blocks against sorting everything again."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay.replay import ordered


@pytest.mark.parametrize("capacity", [1, 2, 7, 70, 3000])
@pytest.mark.parametrize("distinct_gains", [1, 3, 10**6])
def test_order_after_changes_and_removals(capacity: int, distinct_gains: int) -> None:
    rng = stream(0, "ordered", capacity, distinct_gains)
    order = ordered.empty_order(capacity)
    for _ in range(30):
        slots = rng.permutation(capacity)[: rng.integers(1, capacity + 1)]
        gains = rng.integers(0, distinct_gains, size=len(slots)).astype(np.float64)
        ordered.set_priorities(order, slots, gains)
        ordered.check_order(order)
        present = np.flatnonzero(order.priorities != ordered.ABSENT)
        ordered.remove_all(order, rng.permutation(present)[: rng.integers(0, len(present) + 1)])
        ordered.check_order(order)


def test_ever_larger_gains_as_new_transitions_have_them() -> None:
    order = ordered.empty_order(5000)
    for start in range(0, 5000, 50):
        slots = np.arange(start, start + 50)
        ordered.set_priorities(order, slots, np.full(50, float(start)))
    ordered.check_order(order)
    assert ordered.slots_at(order, np.array([0, 49, 50, 4999])).tolist() == [4950, 4999, 4900, 49]


def test_check_order_sees_damage() -> None:
    order = ordered.empty_order(5)
    ordered.set_priorities(order, np.arange(5), np.arange(5.0))
    order.priorities[2] = 9.0
    with pytest.raises(NeedReplayError):
        ordered.check_order(order)
