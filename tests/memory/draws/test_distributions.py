"""Every draw against its exact distribution, and the reductions of one draw to another."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from needreplay.errors import NeedReplayError
from needreplay.memory import Proportional, RankBased, Sequence, Uniform
from needreplay.memory.draws.base import Draw
from needreplay.memory.draws.rank import segment_starts
from needreplay.rng import stream
from needreplay.types import FloatArray, IntArray

GAIN = np.array([0.5, 0.0, 3.0, 1.0, 1.0, 0.25, 2.0, 0.0, 1.5, 0.125, 4.0])
SIZE = 8


def filled(draw: Draw, gain: FloatArray = GAIN) -> Draw:
    """``draw`` with one slot for each gain."""
    draw.allocate(len(gain))
    draw.set_gain(np.arange(len(gain)), gain)
    draw.check_valid()
    return draw


def by_gain(exponent: float) -> FloatArray:
    masses = GAIN**exponent
    return masses / masses.sum()


def by_rank(exponent: float) -> FloatArray:
    ranks = np.empty(len(GAIN))
    ranks[np.lexsort((np.arange(len(GAIN)), -GAIN))] = np.arange(1, len(GAIN) + 1)
    masses = ranks**-exponent
    return masses / masses.sum()


def by_segments(exponent: float) -> FloatArray:
    """One of SIZE segments of equal mass, then any of its ranks: summed over segments."""
    order = np.lexsort((np.arange(len(GAIN)), -GAIN))
    starts = segment_starts(np.cumsum(np.arange(1.0, len(GAIN) + 1) ** -exponent), SIZE)
    probabilities = np.zeros(len(GAIN))
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        members = order[start : max(end, start + 1)]
        probabilities[members] += 1.0 / (SIZE * len(members))
    return probabilities


CASES = {
    "uniform": (Uniform(), np.full(len(GAIN), 1 / len(GAIN)), False),
    "proportional": (Proportional(0.6, stratified=False), by_gain(0.6), False),
    "proportional, alpha 1": (Proportional(1.0, stratified=False), by_gain(1.0), False),
    "proportional, alpha 0": (Proportional(0.0, stratified=False), by_gain(0.0), False),
    "proportional, stratified": (Proportional(0.6), by_gain(0.6), True),
    "sequence": (Sequence(0.8), by_gain(0.8), True),
    "rank, exact": (RankBased(0.7, exact=True), by_rank(0.7), False),
    "rank, alpha 0": (RankBased(0.0, exact=True), by_rank(0.0), False),
    "rank, segments": (RankBased(0.7), by_segments(0.7), True),
}


@pytest.mark.parametrize("case", CASES)
def test_drawn_by_its_distribution(case: str) -> None:
    draw, expected, stratified = CASES[case]
    filled(draw)
    rng = stream(7, "chi-square", case)
    counts, said = np.zeros(len(GAIN), dtype=np.int64), np.full(len(GAIN), np.nan)
    for _ in range(5000):
        drawn = draw.sample(SIZE, rng)
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


def draws_of(draw: Draw, seed: int, batches: int = 50) -> IntArray:
    rng = stream(seed, "reduction")
    return np.concatenate([draw.sample(SIZE, rng).slots for _ in range(batches)])


@pytest.mark.parametrize("n", [1, 2, 11, 70, 513])
def test_exponent_zero_makes_the_very_draws_of_uniform(n: int) -> None:
    gain = stream(0, "gain").random(n)
    by_tree = filled(Proportional(0.0, stratified=False), gain)
    np.testing.assert_array_equal(draws_of(filled(Uniform(), gain), 3), draws_of(by_tree, 3))


@pytest.mark.parametrize("stratified", [False, True])
def test_a_sequence_that_hands_nothing_back_makes_the_very_draws_of_proportional(
    stratified: bool,
) -> None:
    plain = filled(Proportional(0.6, stratified=stratified))
    sequence = filled(Sequence(0.6, window=0, share_kept=0.0, stratified=stratified))
    for draw in (plain, sequence):
        draw.set_gain(np.array([3, 0]), np.array([0.25, 7.0]))
    np.testing.assert_array_equal(draws_of(plain, 4), draws_of(sequence, 4))


def test_proportional_draws_differ_from_uniform_ones() -> None:
    assert not np.array_equal(
        draws_of(filled(Uniform()), 5), draws_of(filled(Proportional(0.6, stratified=False)), 5)
    )


@pytest.mark.parametrize("case", CASES)
def test_smallest_probability(case: str) -> None:
    draw, expected, _ = CASES[case]
    draw.follow_smallest()  # type: ignore[attr-defined]
    filled(draw)
    smallest = draw.smallest_probability(SIZE)  # type: ignore[attr-defined]
    assert smallest == pytest.approx(expected[expected > 0].min(), rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_cleared_slots_are_not_drawn_and_may_come_back(case: str) -> None:
    draw, _, _ = CASES[case]
    filled(draw)
    draw.clear(np.arange(4))  # type: ignore[attr-defined]
    draw.check_valid()
    assert set(draws_of(draw, 6, batches=200)) <= set(range(4, len(GAIN)))
    draw.set_gain(np.array([0, 1]), np.array([9.0, 9.0]))
    draw.check_valid()
    assert set(draws_of(draw, 6, batches=200)) <= {0, 1, *range(4, len(GAIN))}
    assert {0, 1} <= set(draws_of(draw, 6, batches=200))


@pytest.mark.parametrize("case", CASES)
def test_need_is_refused(case: str) -> None:
    draw, _, _ = CASES[case]
    filled(draw)
    with pytest.raises(NeedReplayError, match="takes no need"):
        draw.sample(2, stream(0), np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Proportional(-0.1),
        lambda: Proportional(1.1),
        lambda: Proportional(float("nan")),
        lambda: RankBased(2.0),
        lambda: Sequence(decay=1.5),
        lambda: Sequence(share_kept=-0.5),
        lambda: Sequence(window=-1),
    ],
)
def test_settings_out_of_range_are_refused(make: type) -> None:
    with pytest.raises(NeedReplayError, match="from 0"):
        make()


@pytest.mark.parametrize("draw", [Proportional(0.6), Sequence(0.6)])
def test_no_mass_at_all_is_drawn_uniformly_and_said_once(draw: Proportional) -> None:
    filled(draw, np.zeros(5))
    draw.clear(np.array([0]))
    rng = stream(1, "zero")
    with pytest.warns(RuntimeWarning, match="uniform"):
        drawn = draw.sample(4, rng)
    counts = np.bincount(
        np.concatenate([draw.sample(8, rng).slots for _ in range(2000)]), minlength=5
    )
    assert draw.fallbacks == 4 + 16000
    np.testing.assert_array_equal(drawn.probabilities, 0.25)
    assert counts[0] == 0
    assert chi_square(counts[1:], np.full(4, 0.25)) < stats.chi2.ppf(1 - 1e-4, 3)
    draw.set_gain(np.array([2]), np.array([1.0]))
    assert set(draw.sample(50, rng).slots) == {2}


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
