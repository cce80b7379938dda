"""The smallest probability of the rank draw, by hand and against all places."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.core.rng import stream
from needreplay.replay.samplers.rank import RankSampler


def test_smallest_where_two_segments_begin_at_the_same_rank_by_hand() -> None:
    # masses 1 and 0.62: both segments begin at the first rank, and the second holds both ranks
    sampler = RankSampler()
    sampler.allocate(2)
    sampler.set_priorities(np.arange(2), np.array([2.0, 1.0]))
    assert sampler.smallest_probability(2) == 0.25
    drawn = sampler.sample(2, stream(0, "rank"))
    assert drawn.slots[0] == 0
    assert drawn.probabilities[0] == 0.75


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 40])
def test_nothing_that_is_drawn_is_less_likely_than_the_smallest(n: int) -> None:
    sampler = RankSampler()
    sampler.allocate(n)
    sampler.set_priorities(np.arange(n), stream(n, "rank").random(n))
    for size in range(1, 45):
        probabilities = sampler.sample(size, stream(size, "rank")).probabilities
        assert probabilities.min() >= sampler.smallest_probability(size) * (1 - 1e-12)
