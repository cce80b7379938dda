"""Intervals: numbers worked out by hand, exact resampling distributions, and coverage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from needlab.report import statistics
from needlab.report.statistics import (
    Interval,
    difference_interval,
    mean_band,
    mean_interval,
    median_interval,
    permutation_test,
    proportion_interval,
    ratio_interval,
)
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

NAN = float("nan")


@pytest.fixture
def _few_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small samples whose bootstrap can be worked out by hand."""
    monkeypatch.setattr(statistics, "FEWEST", 2)


def test_few_trials_have_no_interval() -> None:
    values = stream(6, "few").normal(size=6)
    for few in range(1, 6):
        found = mean_interval(values[:few], stream(0))
        assert (found.low, found.high) == (-np.inf, np.inf)
        assert "no interval" in found.text()
    assert np.isfinite(mean_interval(values, stream(0)).low)


@pytest.mark.usefixtures("_few_will_do")
def test_mean_of_two_trials_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Drawing twice from {0, 1} gives means 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    found = mean_interval([0.0, 1.0], stream(0, "two"))
    assert (found.estimate, found.low, found.high) == (0.5, 0.0, 1.0)
    # The middle 40% lies inside the half of the draws whose mean is exactly 1/2.
    monkeypatch.setattr(statistics, "LEVEL", 0.4)
    narrow = mean_interval([0.0, 1.0], stream(0, "two"))
    assert (narrow.low, narrow.high) == (0.5, 0.5)


@pytest.mark.usefixtures("_few_will_do")
def test_quantiles_are_those_of_every_possible_resample(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    every = np.array([np.mean(drawn) for drawn in itertools.product(values, repeat=5)])
    low, high = np.quantile(every, [0.05, 0.95])
    monkeypatch.setattr(statistics, "RESAMPLES", 40_000)
    monkeypatch.setattr(statistics, "LEVEL", 0.9)
    found = mean_interval(values, stream(1, "exact"))
    assert found.estimate == pytest.approx(6.2)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.2)


def test_columns_of_a_band_are_resampled_together() -> None:
    samples = stream(2, "band").normal(size=(30, 3))
    samples[:, 2] = 5 - 2 * samples[:, 0]
    band = mean_band(samples, stream(3, "band"))
    assert len(band) == 3
    np.testing.assert_allclose(band.estimate, samples.mean(axis=0))
    np.testing.assert_allclose(band.low[2], 5 - 2 * band.high[0])
    single = mean_interval(samples[:, 1], stream(3, "band"))
    assert band[1].low == pytest.approx(single.low)


def test_the_same_seed_gives_the_same_interval_and_pieces_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = stream(4, "x").normal(size=(7, 2))
    whole = mean_band(samples, stream(5, "y"))
    monkeypatch.setattr(statistics, "_ELEMENTS_AT_ONCE", 50)
    pieces = mean_band(samples, stream(5, "y"))
    np.testing.assert_allclose(pieces.low, whole.low, rtol=1e-12)
    np.testing.assert_allclose(pieces.high, whole.high, rtol=1e-12)


def test_pairing_removes_what_the_pairs_share() -> None:
    shared = stream(6, "shared").normal(scale=100, size=50)
    paired = difference_interval(shared + 1, shared, stream(7, "d"), paired=True)
    assert (paired.estimate, paired.low, paired.high) == pytest.approx((1, 1, 1))
    apart = difference_interval(shared + 1, shared, stream(7, "d"), paired=False)
    assert apart.low < -10 < 10 < apart.high


@pytest.mark.usefixtures("_few_will_do")
def test_unpaired_samples_may_differ_in_length() -> None:
    found = difference_interval([3.0, 3.0], [1.0, 1.0, 1.0], stream(0, "u"), paired=False)
    assert (found.estimate, found.low, found.high) == (2, 2, 2)


@pytest.mark.usefixtures("_few_will_do")
def test_ratio_of_means() -> None:
    base = np.array([1.0, 2.0, 3.0])
    found = ratio_interval(2 * base, base, stream(0, "r"), paired=True)
    assert (found.estimate, found.low, found.high) == pytest.approx((2, 2, 2))
    apart = ratio_interval(2 * base, base, stream(0, "r"), paired=False)
    assert apart.low < 2 < apart.high


def test_median_of_trials_that_never_got_there() -> None:
    inf = np.inf
    # Three of seven never got there: the median is the fourth, and the interval is open above.
    found = median_interval([1.0, 2.0, 3.0, 4.0, inf, inf, inf], stream(0))
    assert found.estimate == 4.0
    assert 1.0 <= found.low <= 3.0
    assert found.high == inf
    assert median_interval([1.0, 2.0, 3.0, inf, inf, inf, inf], stream(0)).estimate == inf
    assert median_interval([1.0, 2.0, inf], stream(0)) == Interval(2.0, -inf, inf)
    with pytest.raises(NeedReplayError, match="finite"):
        median_interval([1.0, -inf, np.nan], stream(0))


def test_median_quantiles_are_those_of_every_possible_resample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.array([0.0, 1.0, 4.0, 9.0, 16.0, 25.0])
    every = [np.median(values[list(rows)]) for rows in itertools.product(range(6), repeat=6)]
    low, high = np.quantile(every, [0.025, 0.975])
    monkeypatch.setattr(statistics, "RESAMPLES", 40_000)
    found = median_interval(values, stream(1))
    assert (found.estimate, found.low, found.high) == (6.5, low, high)


def test_wilson_by_hand() -> None:
    # z = 1.959964, z² = 3.841459. 8 of 10: middle .8 + 3.841459/20 = .992073;
    # spread z sqrt(.016 + 3.841459/400) = 1.959964 * .1600228 = .3136389; over 1.3841459.
    found = proportion_interval(8, 10)
    assert found.estimate == 0.8
    assert (found.low, found.high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_wilson_at_the_ends() -> None:
    none, every = proportion_interval(0, 10), proportion_interval(10, 10)
    assert none.low == 0
    assert none.high == pytest.approx(3.841459 / 13.841459, abs=1e-6)
    assert (every.low, every.high) == pytest.approx((1 - none.high, 1))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    # 600 experiments of 50 trials from a skewed distribution of mean 1; binomial error 0.9%.
    # The percentile bootstrap of 50 skewed trials is known to cover slightly less than nominal.
    rng = stream(8, "coverage")
    band = mean_band(rng.gamma(2.0, 0.5, size=(50, 600)), rng)
    covered = np.mean((band.low <= 1) & (band.high >= 1))
    assert 0.925 <= covered <= 0.965


def test_wilson_covers_the_truth_as_often_as_it_says() -> None:
    successes = stream(9, "wilson").binomial(30, 0.2, size=2000)
    ends = [proportion_interval(int(k), 30) for k in successes]
    covered = np.mean([interval.low <= 0.2 <= interval.high for interval in ends])
    assert 0.935 <= covered <= 0.975


def test_one_trial_says_nothing_about_the_spread() -> None:
    single = mean_interval([3.0], stream(0, "one"))
    assert (single.estimate, single.low, single.high) == (3, -np.inf, np.inf)
    assert single.text() == "3.00 (no interval: too few trials)"
    pair = difference_interval([3.0], [1.0, 2.0], stream(0, "one"), paired=False)
    assert (pair.estimate, pair.low, pair.high) == (1.5, -np.inf, np.inf)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (Interval(512.3, 498.1, 530.9), "512 (95% interval 498 to 531)"),
        (Interval(9.97, 9.5, 10.34), "10.0 (95% interval 9.5 to 10.3)"),
        (Interval(-0.2, -3.0, 2.61), "-0.20 (95% interval -3.00 to 2.61)"),
        (Interval(0.0, 0.0, 0.0), "0.00 (95% interval 0.00 to 0.00)"),
        (Interval(2e-7, 1e-7, 3e-7), "2.00e-07 (95% interval 1.00e-07 to 3.00e-07)"),
        (Interval(12345.0, 12000.0, 13000.0), "12,345 (95% interval 12,000 to 13,000)"),
    ],
)
def test_an_interval_in_words(interval: Interval, said: str) -> None:
    assert interval.text() == said


def test_what_has_no_interval_raises() -> None:
    rng = stream(0, "bad")
    with pytest.raises(NeedReplayError, match="samples is empty"):
        mean_interval([], rng)
    with pytest.raises(NeedReplayError, match="not finite"):
        mean_interval([1.0, NAN], rng)
    with pytest.raises(NeedReplayError, match="one number per trial"):
        mean_interval([[1.0]], rng)
    with pytest.raises(NeedReplayError, match="one row per trial"):
        mean_band([1.0], rng)
    with pytest.raises(NeedReplayError, match="equally long: 2 and 1"):
        difference_interval([1.0, 2.0], [1.0], rng, paired=True)
    with pytest.raises(NeedReplayError, match="b has entries"):
        difference_interval([1.0], [NAN], rng, paired=True)
    with pytest.raises(NeedReplayError, match="b must be positive"):
        ratio_interval([1.0, 2.0], [1.0, 0.0], rng, paired=True)
    with pytest.raises(NeedReplayError, match="got 3 of 2"):
        proportion_interval(3, 2)


def test_permutation_tests_by_hand() -> None:
    """Unpaired: 2 of the 20 orders are as extreme; paired: 2 of the 8 choices of signs."""
    a, b = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    apart = permutation_test([a], [b], stream(0), paired=False)
    paired = permutation_test([a], [b], stream(0), paired=True)
    assert apart == pytest.approx(2 / 20, abs=0.01)
    assert paired == pytest.approx(2 / 8, abs=0.015)


def test_permutations_stay_within_their_stratum() -> None:
    """Task 2 is 100 times task 1; agents differ within each, and by as much in both directions."""
    low, high = np.array([1.0, 2.0, 3.0, 4.0]), np.array([11.0, 12.0, 13.0, 14.0])
    same = permutation_test([low, 100 * high], [high, 100 * low], stream(1), paired=False)
    differ = permutation_test([low, 100 * low], [high, 100 * high], stream(1), paired=False)
    assert same > 0.9
    # both strata in their one extreme order, or both in the other: 2 of 70^2
    assert differ < 0.005
