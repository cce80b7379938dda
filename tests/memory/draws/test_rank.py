"""The smallest probability of the rank draw, by hand and against all places."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.memory.draws.rank import RankBased
from needreplay.rng import stream


def test_smallest_where_two_segments_begin_at_the_same_rank_by_hand() -> None:
    # masses 1 and 0.62: both segments begin at the first rank, and the second holds both ranks
    draw = RankBased()
    draw.allocate(2)
    draw.set_gain(np.arange(2), np.array([2.0, 1.0]))
    assert draw.smallest_probability(2) == 0.25
    drawn = draw.sample(2, stream(0, "rank"))
    assert drawn.slots[0] == 0
    assert drawn.probabilities[0] == 0.75


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 40])
def test_nothing_that_is_drawn_is_less_likely_than_the_smallest(n: int) -> None:
    draw = RankBased()
    draw.allocate(n)
    draw.set_gain(np.arange(n), stream(n, "rank").random(n))
    for size in range(1, 45):
        probabilities = draw.sample(size, stream(size, "rank")).probabilities
        assert probabilities.min() >= draw.smallest_probability(size) * (1 - 1e-12)
