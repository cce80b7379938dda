"""Sorted blocks against sorting everything again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needreplay.replay._kernels.rank import Order, empty_order

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream


def made(capacity: int) -> Any:
    return Order({"window": np.zeros(2, np.int64), **empty_order(capacity)}, capacity, False)


@pytest.mark.parametrize("capacity", [1, 2, 7, 70, 3000])
@pytest.mark.parametrize("distinct_gains", [1, 3, 10**6])
def test_order_after_changes_and_removals(capacity: int, distinct_gains: int) -> None:
    rng = stream(0, "ordered", capacity, distinct_gains)
    order = made(capacity)
    for _ in range(30):
        slots = rng.permutation(capacity)[: rng.integers(1, capacity + 1)]
        gains = rng.integers(0, distinct_gains, size=len(slots)).astype(np.float64)
        order.set_priorities(slots, gains)
        order.check_valid()
        present = np.flatnonzero(order.arrays["priorities"] != -1.0)
        order.clear(rng.permutation(present)[: rng.integers(0, len(present) + 1)])
        order.check_valid()


def test_ever_larger_gains_as_new_transitions_have_them() -> None:
    order = made(5000)
    for start in range(0, 5000, 50):
        slots = np.arange(start, start + 50)
        order.set_priorities(slots, np.full(50, float(start)))
    order.check_valid()
    assert order.slots_at(np.array([0, 49, 50, 4999])).tolist() == [4950, 4999, 4900, 49]


def test_check_order_sees_damage() -> None:
    order = made(5)
    order.set_priorities(np.arange(5), np.arange(5.0))
    order.arrays["priorities"][2] = 9.0
    with pytest.raises(NeedReplayError):
        order.check_valid()
