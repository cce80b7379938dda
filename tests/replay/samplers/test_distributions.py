"""Samplers by priority against their exact distributions, and reductions of one to another."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.replay import (
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.rank import segment_starts

PRIORITIES = np.array([0.5, 0.0, 3.0, 1.0, 1.0, 0.25, 2.0, 0.0, 1.5, 0.125, 4.0])
N = len(PRIORITIES)
SIZE = 8
JUST_BELOW_1 = 1.0 - 2.0**-53


def filled(sampler: Sampler, priorities: FloatArray = PRIORITIES) -> Sampler:
    """``sampler`` with one slot for each priority."""
    sampler.allocate(len(priorities))
    sampler.set_priorities(np.arange(len(priorities)), priorities)
    sampler.check_valid()
    return sampler


def by_priority(alpha: float) -> FloatArray:
    powers: FloatArray = PRIORITIES**alpha
    total: float = powers.sum()
    return powers / total


def by_rank(alpha: float) -> FloatArray:
    ranks = np.empty(N)
    ranks[np.lexsort((np.arange(N), -PRIORITIES))] = np.arange(1, N + 1)
    powers: FloatArray = ranks**-alpha
    total: float = powers.sum()
    return powers / total


def by_segments(alpha: float) -> FloatArray:
    """One of SIZE segments of equal probability, then any of its ranks: summed over segments."""
    order = np.lexsort((np.arange(N), -PRIORITIES))
    starts = segment_starts(np.cumsum(np.arange(1.0, N + 1) ** -alpha), SIZE)
    probabilities = np.zeros(N)
    for start, end in pairwise(starts):
        members = order[start : max(end, start + 1)]
        probabilities[members] += 1.0 / (SIZE * len(members))
    return probabilities


def by_recency(mean_age: float, alpha: float) -> FloatArray:
    """The last slot is the newest, of age 0."""
    ages = np.arange(N)[::-1]
    masses: FloatArray = PRIORITIES**alpha * (mean_age / (mean_age + 1.0)) ** ages
    total: float = masses.sum()
    return masses / total


def mixed(probabilities: FloatArray, uniform_mix: float) -> FloatArray:
    return (1.0 - uniform_mix) * probabilities + uniform_mix / len(probabilities)


CASES: dict[str, tuple[Any, FloatArray, bool]] = {
    "uniform": (UniformSampler(), np.full(N, 1 / N), False),
    "proportional": (ProportionalSampler(0.6, stratified=False), by_priority(0.6), False),
    "proportional, alpha 1": (ProportionalSampler(1.0, stratified=False), by_priority(1.0), False),
    "proportional, alpha 0": (ProportionalSampler(0.0, stratified=False), by_priority(0.0), False),
    "proportional, stratified": (ProportionalSampler(0.6), by_priority(0.6), True),
    "proportional, mix 0.3": (
        ProportionalSampler(0.6, uniform_mix=0.3),
        mixed(by_priority(0.6), 0.3),
        True,
    ),
    "proportional, mix 1": (ProportionalSampler(uniform_mix=1.0), np.full(N, 1 / N), False),
    "pser": (PSERSampler(0.8), by_priority(0.8), True),
    "pser, mix 0.1": (PSERSampler(0.8, uniform_mix=0.1), mixed(by_priority(0.8), 0.1), True),
    "recency": (RecencySampler(3.0), by_recency(3.0, 0.0), False),
    "recency, alpha 0.6": (RecencySampler(5.0, alpha=0.6), by_recency(5.0, 0.6), False),
    "recency, alpha 1, mix 0.3": (
        RecencySampler(2.0, alpha=1.0, uniform_mix=0.3),
        mixed(by_recency(2.0, 1.0), 0.3),
        False,
    ),
    "rank, exact": (RankSampler(0.7, exact=True), by_rank(0.7), False),
    "rank, alpha 0": (RankSampler(0.0, exact=True), by_rank(0.0), False),
    "rank, segments": (RankSampler(0.7), by_segments(0.7), True),
    "rank, exact, mix 0.5": (
        RankSampler(0.7, exact=True, uniform_mix=0.5),
        mixed(by_rank(0.7), 0.5),
        False,
    ),
    "rank, segments, mix 0.3": (
        RankSampler(0.7, uniform_mix=0.3),
        mixed(by_segments(0.7), 0.3),
        True,
    ),
}
each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_sampled_by_its_distribution(case: str) -> None:
    sampler, expected, stratified = CASES[case]
    filled(sampler)
    rng = stream(7, "chi-square", case)
    counts, returned = np.zeros(N, dtype=np.int64), np.full(N, np.nan)
    for _ in range(5000):
        sampled = sampler.sample(SIZE, rng)
        assert sampled.normalized
        np.add.at(counts, sampled.slots, 1)
        returned[sampled.slots] = sampled.probabilities
    possible = expected > 0
    assert expected.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(returned[possible], expected[possible], rtol=1e-12)
    assert counts[~possible].sum() == 0
    statistic = chi_square(counts[possible], expected[possible])
    assert statistic < stats.chi2.ppf(1 - 1e-4, possible.sum() - 1)
    if not stratified:
        assert statistic > stats.chi2.ppf(1e-4, possible.sum() - 1)


def chi_square(counts: IntArray, probabilities: FloatArray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def slots_of(sampler: Sampler, seed: int, batches: int = 50) -> IntArray:
    rng = stream(seed, "reduction")
    return np.concatenate([sampler.sample(SIZE, rng).slots for _ in range(batches)])


@pytest.mark.parametrize("n", [1, 2, 11, 70, 513])
def test_alpha_0_samples_the_very_slots_of_uniform(n: int) -> None:
    priorities = stream(0, "gain").random(n)
    by_tree = filled(ProportionalSampler(0.0, stratified=False), priorities)
    uniform = filled(UniformSampler(), priorities)
    np.testing.assert_array_equal(slots_of(uniform, 3), slots_of(by_tree, 3))


@pytest.mark.parametrize("stratified", [False, True])
def test_pser_that_passes_nothing_back_samples_the_very_slots_of_proportional(
    stratified: bool,
) -> None:
    plain = filled(ProportionalSampler(0.6, stratified=stratified))
    pser = filled(PSERSampler(0.6, window=0, retained=0.0, stratified=stratified))
    for sampler in (plain, pser):
        sampler.set_priorities(np.array([3, 0]), np.array([0.25, 7.0]))
    np.testing.assert_array_equal(slots_of(plain, 4), slots_of(pser, 4))


def test_the_very_slots_of_proportional_are_at_its_cumulative_powers() -> None:
    slots = slots_of(filled(ProportionalSampler(0.6, stratified=False)), 5)
    cumulative = np.cumsum(by_priority(0.6))
    uniforms = stream(5, "reduction").random(50 * SIZE)
    np.testing.assert_array_equal(slots, np.searchsorted(cumulative, uniforms, side="right"))


@each_case
def test_cleared_slots_are_not_sampled_and_may_come_back(case: str) -> None:
    sampler, _, _ = CASES[case]
    filled(sampler)
    sampler.clear(np.arange(4))
    sampler.check_valid()
    assert set(slots_of(sampler, 6, batches=200)) <= set(range(4, N))
    sampler.set_priorities(np.array([0, 1]), np.array([9.0, 9.0]))
    sampler.check_valid()
    found = set(slots_of(sampler, 6, batches=200))
    assert {0, 1} <= found <= {0, 1, *range(4, N)}


@each_case
def test_need_is_rejected(case: str) -> None:
    sampler, _, _ = CASES[case]
    filled(sampler)
    with pytest.raises(NeedReplayError, match="takes no need"):
        sampler.sample(2, stream(0), np.ones(3))


class Uniforms:
    """A generator whose every uniform number is the largest there is."""

    def random(self, size: Any) -> FloatArray:
        return np.full(size, JUST_BELOW_1)


@each_case
@pytest.mark.parametrize("n", [1, 3, 7, 8, 11, 1000, 4097])
def test_the_largest_uniform_number_samples_an_occupied_slot(case: str, n: int) -> None:
    sampler, _, _ = CASES[case]
    for priorities in (stream(n, "u").random(n), np.ones(n), np.eye(n)[0], 0.1 + np.zeros(n)):
        filled(sampler, priorities)
        for size in (1, 3, 32):
            sampled = sampler.sample(size, Uniforms())
            assert ((sampled.slots >= 0) & (sampled.slots < n)).all()
            assert (sampled.probabilities > 0.0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ProportionalSampler(-0.1), "alpha is -0.1"),
        (lambda: ProportionalSampler(1.1), "alpha is 1.1"),
        (lambda: ProportionalSampler(float("nan")), "alpha is nan"),
        (lambda: ProportionalSampler(uniform_mix=1.5), "uniform_mix is 1.5"),
        (lambda: RankSampler(2.0), "alpha is 2.0"),
        (lambda: RankSampler(uniform_mix=-0.1), "uniform_mix is -0.1"),
        (lambda: PSERSampler(decay=1.5), "decay is 1.5"),
        (lambda: PSERSampler(retained=-0.5), "retained is -0.5"),
        (lambda: PSERSampler(window=-1), "window is -1"),
        (lambda: RecencySampler(0), "mean_age is 0; it must be a number from 1e-100 to"),
        (lambda: RecencySampler(-5.0), "mean_age is -5.0"),
        (lambda: RecencySampler(float("nan")), "mean_age is nan"),
        (lambda: RecencySampler(float("inf")), "mean_age is inf"),
        (lambda: RecencySampler("10"), "mean_age is '10'"),  # type: ignore[arg-type]
        (lambda: RecencySampler(True), "mean_age is True"),
        (lambda: RecencySampler(10, alpha=1.5), "alpha is 1.5"),
        (lambda: RecencySampler(10, uniform_mix=-1), "uniform_mix is -1"),
    ],
)
def test_settings_out_of_range_are_rejected(make: type, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        make()


@pytest.mark.parametrize(
    "sampler",
    [
        ProportionalSampler(0.6),
        PSERSampler(0.6),
        ProportionalSampler(0.6, uniform_mix=0.5),
        RecencySampler(3.0, alpha=0.6),
    ],
)
def test_all_priorities_0_sample_uniformly_with_one_warning(sampler: ProportionalSampler) -> None:
    filled(sampler, np.zeros(5))
    sampler.clear(np.array([0]))
    rng = stream(1, "zero")
    with pytest.warns(NeedReplayWarning, match="uniform"):
        sampled = sampler.sample(4, rng)
    counts = np.bincount(
        np.concatenate([sampler.sample(8, rng).slots for _ in range(2000)]), minlength=5
    )
    assert sampler.fallbacks == 4 + 16000
    np.testing.assert_allclose(sampled.probabilities, 0.25)
    assert counts[0] == 0
    assert chi_square(counts[1:], np.full(4, 0.25)) < stats.chi2.ppf(1 - 1e-4, 3)
    sampler.set_priorities(np.array([2]), np.array([1.0]))
    if sampler.uniform_mix == 0.0:
        assert set(sampler.sample(50, rng).slots) == {2}


@pytest.mark.parametrize("add", [1, 60, 64, 67, 200])
@pytest.mark.parametrize("before", [0, 1, 30, 63, 64])
@pytest.mark.parametrize(
    "make",
    [
        UniformSampler,
        lambda: ProportionalSampler(0.6, uniform_mix=0.2),
        lambda: RankSampler(0.0, exact=True, uniform_mix=0.2),
        lambda: PSERSampler(uniform_mix=0.2),
        lambda: RecencySampler(1e12, uniform_mix=0.2),
    ],
)
def test_adds_beyond_the_capacity_leave_every_transition_reachable(
    make: Any, before: int, add: int
) -> None:
    """One add of more transitions than there is space for begins beyond the first free slot."""
    replay = ReplayBuffer(64, {"x": np.int64}, sampler=make())
    if before:
        replay.add(x=np.arange(before))
    replay.add(x=np.arange(add))
    replay.check_valid()
    n = min(64, before + add)
    ids = np.concatenate([replay.sample(100).ids for _ in range(40 * n // 100 + 1)])
    batch = replay.sample(10)
    np.testing.assert_allclose(batch.probabilities, 1 / n)
    counts = np.bincount(ids - replay.oldest_id, minlength=n)
    assert len(counts) == n
    assert n == 1 or chi_square(counts, np.full(n, 1 / n)) < stats.chi2.ppf(1 - 1e-4, n - 1)


@pytest.mark.parametrize(("before", "add"), [(0, 19), (5, 14), (15, 50), (16, 17)])
@pytest.mark.parametrize(
    ("make", "uniform_mix"),
    [
        (lambda **options: StateNeedSampler(3, **options), 0.2),
        (lambda **options: ExhaustiveNeedSampler(n_states=3, **options), 0.2),
        (lambda **options: FeatureNeedSampler(3, **options), 0.0),
        (lambda **options: FeatureNeedSampler(3, **options), 0.2),
    ],
)
def test_adds_beyond_the_capacity_keep_need_with_its_transition(
    make: Any, uniform_mix: float, before: int, add: int
) -> None:
    sampler = make(uniform_mix=uniform_mix)
    replay = ReplayBuffer(16, {"x": np.int64}, sampler=sampler)
    for count in filter(None, (before, add)):
        states = (replay.next_id + np.arange(count)) % 3
        by_state = getattr(sampler, "n_states", None)
        info = {"state": states} if by_state else {"features": np.eye(3)[states]}
        replay.add(x=states, **info)
    replay.check_valid()
    need = np.array([1.0, 3.0, 0.0])
    ids = np.arange(replay.oldest_id, replay.next_id)
    expected = mixed(need[ids % 3] / need[ids % 3].sum(), uniform_mix)
    batch = replay.sample(4_000, need=need)
    np.testing.assert_array_equal(batch["x"], batch.ids % 3)
    counts, possible = np.bincount(batch.ids - ids[0], minlength=16), expected > 0
    assert counts[~possible].sum() == 0
    limit = stats.chi2.ppf(1 - 1e-4, possible.sum() - 1)
    assert chi_square(counts[possible], expected[possible]) < limit


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
            sampled = sampler.sample(20, stream(1, end))
            expected = occupied[(uniforms * len(occupied)).astype(int)]
            np.testing.assert_array_equal(sampled.slots, expected)
            np.testing.assert_array_equal(sampled.probabilities, 1 / len(occupied))


def test_check_valid_sees_a_wrong_window() -> None:
    sampler = UniformSampler()
    sampler.allocate(3)
    sampler.arrays()["window"][1] = 4
    with pytest.raises(NeedReplayError, match="window"):
        sampler.check_valid()
    mixing = filled(ProportionalSampler(uniform_mix=0.1))
    mixing.arrays()["window"][1] -= 1
    with pytest.raises(NeedReplayError, match="window"):
        mixing.check_valid()


def test_segments_cover_every_rank_once() -> None:
    for n in range(1, 60):
        cumulative = np.cumsum(np.arange(1.0, n + 1) ** -0.7)
        for size in (1, 2, 7, 32, 100):
            starts = segment_starts(cumulative, size)
            assert starts[0] == 0
            assert starts[-1] == n
            assert np.all(np.diff(starts) >= 0)
            assert starts[-2] < n


def test_segments_have_nearly_equal_probability() -> None:
    cumulative = np.cumsum(np.arange(1.0, 100_001) ** -0.7)
    starts = segment_starts(cumulative, 16)
    shares = np.diff(np.concatenate([[0.0], cumulative])[starts])
    np.testing.assert_allclose(shares, cumulative[-1] / 16, rtol=0.02)


def test_two_segments_that_begin_at_the_same_rank_by_hand() -> None:
    # 1 and 0.62: both segments begin at the first rank, and the second holds both ranks
    sampler = RankSampler()
    sampler.allocate(2)
    sampler.set_priorities(np.arange(2), np.array([2.0, 1.0]))
    sampled = sampler.sample(2, stream(0, "rank"))
    assert sampled.slots[0] == 0
    assert sampled.probabilities[0] == 0.75
