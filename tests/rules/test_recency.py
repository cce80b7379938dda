"""Recency: the rate by hand, and effective numbers by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.equations import effective_number, mean_age_for, recency_rate


def test_the_rate_by_hand() -> None:
    # q = 1 / 2 has the mean 1 · 1/4 + 2 · 1/8 + 3 · 1/16 + ... = 1
    assert np.exp(-recency_rate(1.0)) == pytest.approx(0.5, rel=1e-15)
    assert np.exp(-recency_rate(99.0)) == pytest.approx(0.99, rel=1e-15)


def test_an_effective_number_by_hand() -> None:
    # Of two transitions p = 2/3, 1/3: 1 / (4/9 + 1/9)
    assert effective_number(1.0, 2) == pytest.approx(9 / 5, rel=1e-15)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
@pytest.mark.parametrize("mean_age", [0.01, 0.5, 3.0, 250.0, 1e7])
def test_effective_numbers_by_brute_force(mean_age: float, count: int) -> None:
    masses = (mean_age / (mean_age + 1.0)) ** np.arange(count)
    p = masses / masses.sum()
    assert effective_number(mean_age, count) == pytest.approx(1.0 / (p * p).sum(), rel=1e-9)


@pytest.mark.parametrize("count", [2, 100, 1_000_000])
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.3, 0.9, 0.9999])
def test_the_mean_age_of_an_effective_number(share: float, count: int) -> None:
    wanted = 1.0 + share * (count - 1)
    assert effective_number(mean_age_for(wanted, count), count) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("wrong", [1.0, 0.0, -3.0, 10.0, 11.0, float("nan")])
def test_an_effective_number_that_cannot_be_is_rejected(wrong: float) -> None:
    with pytest.raises(NeedReplayError, match=r"effective is .* below the mean of counts, 10"):
        mean_age_for(wrong, 10)
