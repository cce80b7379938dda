"""The smallest number at every small capacity."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.replay.sumtree import MinTree


@pytest.mark.parametrize("capacity", [*range(1, 71), 513])
def test_smallest_at_every_capacity(capacity: int) -> None:
    rng = stream(0, "mintree", capacity)
    tree = MinTree(capacity)
    values = np.full(capacity, np.inf)
    assert tree.smallest == np.inf
    for _ in range(30):
        slots = rng.permutation(capacity)[: rng.integers(1, 5)]
        values[slots] = np.where(rng.random(len(slots)) < 0.3, np.inf, rng.random(len(slots)))
        tree.set(slots, values[slots])
        tree.check_valid()
        assert tree.smallest == values.min()


def test_check_valid_sees_damage() -> None:
    tree = MinTree(9)
    tree.set(np.array([4]), np.array([1.0]))
    tree.array[5] = 0.5
    with pytest.raises(NeedReplayError):
        tree.check_valid()
