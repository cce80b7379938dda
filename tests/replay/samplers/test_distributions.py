"""Every draw against its exact distribution, and the reductions of one draw to another."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.types import FloatArray, IntArray
from needreplay.replay import ProportionalSampler, PSERSampler, RankSampler, UniformSampler
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.rank import segment_starts

GAIN = np.array([0.5, 0.0, 3.0, 1.0, 1.0, 0.25, 2.0, 0.0, 1.5, 0.125, 4.0])
SIZE = 8


def filled(sampler: Sampler, gain: FloatArray = GAIN) -> Sampler:
    """``draw`` with one slot for each gain."""
    sampler.allocate(len(gain))
    sampler.set_priorities(np.arange(len(gain)), gain)
    sampler.check_valid()
    return sampler


def by_gain(exponent: float) -> FloatArray:
    masses: FloatArray = GAIN**exponent
    total: float = masses.sum()
    return masses / total


def by_rank(exponent: float) -> FloatArray:
    ranks = np.empty(len(GAIN))
    ranks[np.lexsort((np.arange(len(GAIN)), -GAIN))] = np.arange(1, len(GAIN) + 1)
    masses: FloatArray = ranks**-exponent
    total: float = masses.sum()
    return masses / total


def by_segments(exponent: float) -> FloatArray:
    """One of SIZE segments of equal mass, then any of its ranks: summed over segments."""
    order = np.lexsort((np.arange(len(GAIN)), -GAIN))
    starts = segment_starts(np.cumsum(np.arange(1.0, len(GAIN) + 1) ** -exponent), SIZE)
    probabilities = np.zeros(len(GAIN))
    for start, end in pairwise(starts):
        members = order[start : max(end, start + 1)]
        probabilities[members] += 1.0 / (SIZE * len(members))
    return probabilities


CASES: dict[str, tuple[Any, FloatArray, bool]] = {
    "uniform": (UniformSampler(), np.full(len(GAIN), 1 / len(GAIN)), False),
    "proportional": (ProportionalSampler(0.6, stratified=False), by_gain(0.6), False),
    "proportional, alpha 1": (ProportionalSampler(1.0, stratified=False), by_gain(1.0), False),
    "proportional, alpha 0": (ProportionalSampler(0.0, stratified=False), by_gain(0.0), False),
    "proportional, stratified": (ProportionalSampler(0.6), by_gain(0.6), True),
    "sequence": (PSERSampler(0.8), by_gain(0.8), True),
    "rank, exact": (RankSampler(0.7, exact=True), by_rank(0.7), False),
    "rank, alpha 0": (RankSampler(0.0, exact=True), by_rank(0.0), False),
    "rank, segments": (RankSampler(0.7), by_segments(0.7), True),
}


@pytest.mark.parametrize("case", CASES)
def test_drawn_by_its_distribution(case: str) -> None:
    sampler, expected, stratified = CASES[case]
    filled(sampler)
    rng = stream(7, "chi-square", case)
    counts, said = np.zeros(len(GAIN), dtype=np.int64), np.full(len(GAIN), np.nan)
    for _ in range(5000):
        drawn = sampler.sample(SIZE, rng)
        assert drawn.normalised
        assert drawn.factors is None
        np.add.at(counts, drawn.slots, 1)
        said[drawn.slots] = drawn.probabilities
    possible = expected > 0
    assert expected.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(said[possible], expected[possible], rtol=1e-12)
    assert counts[~possible].sum() == 0
    statistic = chi_square(counts[possible], expected[possible])
    assert statistic < stats.chi2.ppf(1 - 1e-4, possible.sum() - 1)
    if not stratified:
        assert statistic > stats.chi2.ppf(1e-4, possible.sum() - 1)


def chi_square(counts: IntArray, probabilities: FloatArray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def draws_of(sampler: Sampler, seed: int, batches: int = 50) -> IntArray:
    rng = stream(seed, "reduction")
    return np.concatenate([sampler.sample(SIZE, rng).slots for _ in range(batches)])


@pytest.mark.parametrize("n", [1, 2, 11, 70, 513])
def test_exponent_zero_makes_the_very_draws_of_uniform(n: int) -> None:
    gain = stream(0, "gain").random(n)
    by_tree = filled(ProportionalSampler(0.0, stratified=False), gain)
    np.testing.assert_array_equal(draws_of(filled(UniformSampler(), gain), 3), draws_of(by_tree, 3))


@pytest.mark.parametrize("stratified", [False, True])
def test_a_sequence_that_hands_nothing_back_makes_the_very_draws_of_proportional(
    stratified: bool,
) -> None:
    plain = filled(ProportionalSampler(0.6, stratified=stratified))
    sequence = filled(PSERSampler(0.6, window=0, share_kept=0.0, stratified=stratified))
    for sampler in (plain, sequence):
        sampler.set_priorities(np.array([3, 0]), np.array([0.25, 7.0]))
    np.testing.assert_array_equal(draws_of(plain, 4), draws_of(sequence, 4))


def test_proportional_draws_differ_from_uniform_ones() -> None:
    assert not np.array_equal(
        draws_of(filled(UniformSampler()), 5),
        draws_of(filled(ProportionalSampler(0.6, stratified=False)), 5),
    )


@pytest.mark.parametrize("case", CASES)
def test_smallest_probability(case: str) -> None:
    sampler, expected, _ = CASES[case]
    sampler.follow_smallest()
    filled(sampler)
    smallest = sampler.smallest_probability(SIZE)
    assert smallest == pytest.approx(expected[expected > 0].min(), rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_cleared_slots_are_not_drawn_and_may_come_back(case: str) -> None:
    sampler, _, _ = CASES[case]
    filled(sampler)
    sampler.clear(np.arange(4))
    sampler.check_valid()
    assert set(draws_of(sampler, 6, batches=200)) <= set(range(4, len(GAIN)))
    sampler.set_priorities(np.array([0, 1]), np.array([9.0, 9.0]))
    sampler.check_valid()
    assert set(draws_of(sampler, 6, batches=200)) <= {0, 1, *range(4, len(GAIN))}
    assert {0, 1} <= set(draws_of(sampler, 6, batches=200))


@pytest.mark.parametrize("case", CASES)
def test_need_is_refused(case: str) -> None:
    sampler, _, _ = CASES[case]
    filled(sampler)
    with pytest.raises(NeedReplayError, match="takes no need"):
        sampler.sample(2, stream(0), np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProportionalSampler(-0.1),
        lambda: ProportionalSampler(1.1),
        lambda: ProportionalSampler(float("nan")),
        lambda: RankSampler(2.0),
        lambda: PSERSampler(decay=1.5),
        lambda: PSERSampler(share_kept=-0.5),
        lambda: PSERSampler(window=-1),
    ],
)
def test_settings_out_of_range_are_refused(make: type) -> None:
    with pytest.raises(NeedReplayError, match="from 0"):
        make()


@pytest.mark.parametrize("sampler", [ProportionalSampler(0.6), PSERSampler(0.6)])
def test_no_mass_at_all_is_drawn_uniformly_and_said_once(sampler: ProportionalSampler) -> None:
    filled(sampler, np.zeros(5))
    sampler.clear(np.array([0]))
    rng = stream(1, "zero")
    with pytest.warns(RuntimeWarning, match="uniform"):
        drawn = sampler.sample(4, rng)
    counts = np.bincount(
        np.concatenate([sampler.sample(8, rng).slots for _ in range(2000)]), minlength=5
    )
    assert sampler.fallbacks == 4 + 16000
    np.testing.assert_array_equal(drawn.probabilities, 0.25)
    assert counts[0] == 0
    assert chi_square(counts[1:], np.full(4, 0.25)) < stats.chi2.ppf(1 - 1e-4, 3)
    sampler.set_priorities(np.array([2]), np.array([1.0]))
    assert set(sampler.sample(50, rng).slots) == {2}


def test_segments_cover_every_rank_once() -> None:
    for n in range(1, 60):
        cumulative = np.cumsum(np.arange(1.0, n + 1) ** -0.7)
        for size in (1, 2, 7, 32, 100):
            starts = segment_starts(cumulative, size)
            assert starts[0] == 0
            assert starts[-1] == n
            assert np.all(np.diff(starts) >= 0)
            assert starts[-2] < n


def test_segments_have_nearly_equal_mass() -> None:
    cumulative = np.cumsum(np.arange(1.0, 100_001) ** -0.7)
    starts = segment_starts(cumulative, 16)
    masses = np.diff(np.concatenate([[0.0], cumulative])[starts])
    np.testing.assert_allclose(masses, cumulative[-1] / 16, rtol=0.02)
