"""Speed over the last seconds."""

from __future__ import annotations

import pytest

from needlab.core.clock import SPEED_OVER, Speed


def test_the_speed_is_that_of_the_last_seconds_and_knows_nothing_of_a_resumed_start() -> None:
    speed = Speed()
    assert speed.update(100.0, 50_000) == 0.0
    assert speed.update(101.0, 50_100) == 100.0
    for second in range(2, 200):
        latest = speed.update(100.0 + second, 50_100 + 10 * second)
    assert latest == pytest.approx(10.0)
    assert len(speed._seen) <= SPEED_OVER + 3


def test_a_count_that_falls_back_is_no_speed() -> None:
    speed = Speed()
    speed.update(0.0, 500)
    assert speed.update(1.0, 400) == 0.0, "a run that was lost begins again at its checkpoint"
