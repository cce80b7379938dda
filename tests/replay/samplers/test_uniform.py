"""The uniform draw over a window of slots that may wrap around."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.replay import UniformSampler


@pytest.mark.parametrize("capacity", [1, 2, 5, 9])
def test_the_window_follows_adds_and_clears(capacity: int) -> None:
    rng = stream(0, "window", capacity)
    sampler = UniformSampler()
    sampler.allocate(capacity)
    oldest, end = 0, 0
    for _ in range(300):
        if rng.random() < 0.4 and oldest < end:
            count = int(rng.integers(1, end - oldest + 1))
            sampler.clear(np.arange(oldest, oldest + count) % capacity)
            oldest += count
        else:
            sampler.set_priorities(np.array([end % capacity]), np.ones(1))
            end += 1
            oldest = max(oldest, end - capacity)
        sampler.check_valid()
        if oldest < end:
            occupied = np.sort(np.arange(oldest, end) % capacity)
            uniforms = stream(1, end).random(20)
            drawn = sampler.sample(20, stream(1, end))
            expected = occupied[(uniforms * len(occupied)).astype(int)]
            np.testing.assert_array_equal(drawn.slots, expected)
            np.testing.assert_array_equal(drawn.probabilities, 1 / len(occupied))


def test_check_valid_sees_damage() -> None:
    sampler = UniformSampler()
    sampler.allocate(3)
    sampler.arrays()["window"][1] = 4
    with pytest.raises(NeedReplayError):
        sampler.check_valid()
