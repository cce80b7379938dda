"""Who waits, by hand-worked numbers."""

from __future__ import annotations

import math

import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.distributed.limiter import Limiter


def test_samples_per_insert_stay_within_the_tolerance() -> None:
    """Two samples for each transition after the first 100, 40 ahead or behind."""
    limiter = Limiter(100, 2.0, 40.0, block=8)
    assert not limiter.may_sample(8, inserted=99, sampled=0)
    assert limiter.may_sample(40, inserted=100, sampled=0)
    assert not limiter.may_sample(8, inserted=100, sampled=33)
    assert limiter.may_sample(8, inserted=104, sampled=40), "48 of at most 8 + 40"
    assert not limiter.may_sample(8, inserted=104, sampled=41)
    assert limiter.room(inserted=0, sampled=0) == 120.0
    assert limiter.room(inserted=104, sampled=40) == 36.0
    assert limiter.room(inserted=200, sampled=0) == 0.0
    with pytest.raises(NeedReplayError, match="size is 41, above tolerance 40"):
        limiter.may_sample(41, inserted=200, sampled=0)


def test_nobody_waits_without_a_ratio() -> None:
    limiter = Limiter(3, None, None, block=8)
    assert [limiter.may_sample(10**6, n, 10**9) for n in (2, 3)] == [False, True]
    assert limiter.room(10**9, 0) == math.inf


def test_the_tolerance_is_ten_blocks_by_default() -> None:
    limiter = Limiter(1, 0.5, None, block=8)
    assert limiter.room(inserted=0, sampled=0) == 1 + 80
    with pytest.raises(NeedReplayError, match="samples_per_insert is 0"):
        Limiter(1, 0.0, None, block=8)
