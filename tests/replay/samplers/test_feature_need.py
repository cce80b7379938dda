"""The sampler by features against the exhaustive sampler."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needreplay.replay._kernels.feature_need import SLACK
from needreplay.replay._kernels.features import unit_rows
from scipy.stats import chisquare

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.replay import ProportionalSampler
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, feature_need
from needreplay.replay.samplers.base import Sampled

N_FEATURES = 6
MANY = 4000 if os.environ.get("NUMBA_DISABLE_JIT") else 200_000


@pytest.fixture
def never_exhaustive(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few slots would soon be scored exhaustively; here the tree shows what it samples."""
    monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-9)


def pair(n: int, **options: Any) -> tuple[FeatureNeedSampler, ExhaustiveNeedSampler]:
    """A tree and the exhaustive sampler it is tested against, both empty."""
    sampler = FeatureNeedSampler(N_FEATURES, **options)
    exhaustive = ExhaustiveNeedSampler(n_features=N_FEATURES, **options)
    sampler.allocate(n)
    exhaustive.allocate(n)
    return sampler, exhaustive


def fill(
    samplers: tuple[FeatureNeedSampler, ExhaustiveNeedSampler],
    priorities: AnyArray,
    features: AnyArray,
) -> None:
    slots = np.arange(len(priorities))
    for sampler in samplers:
        sampler.set_priorities(slots, priorities)
        sampler.set_features(slots, features)


def some_features(rng: np.random.Generator, n: int, signed: bool) -> FloatArray:
    features = rng.standard_normal((n, N_FEATURES))
    return features if signed else np.maximum(0.0, features)


def masses(sampler: FeatureNeedSampler) -> FloatArray:
    """priority^alpha |v|^need_alpha of every slot, as its group has it; 0 if it is in none."""
    tree, place = sampler._groups.settled(), sampler.arrays()["place"]
    return np.where(place < 0, 0.0, tree.masses[place])


def group_of(sampler: FeatureNeedSampler) -> IntArray:
    """The group of every slot with a vector."""
    arrays = sampler.arrays()
    size = sampler._bounds.capacity // len(arrays["group"])
    groups: IntArray = arrays["group"][arrays["place"] // size]
    return groups


def p_value(sampled: Sampled, expected: FloatArray) -> float:
    size = len(sampled.slots)
    counts = np.bincount(sampled.slots, minlength=len(expected))
    assert counts[expected == 0.0].sum() == 0
    likely = expected * size >= 5
    observed = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(expected[likely], expected[~likely].sum()) * size
    return float(chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue)


def check_probabilities(sampled: Sampled, expected: FloatArray, rtol: float = 1e-10) -> None:
    """Equal where normalized, else all wrong by the same factor."""
    exact = expected[sampled.slots]
    factor = 1.0 if sampled.normalized else sampled.probabilities[0] / exact[0]
    np.testing.assert_allclose(sampled.probabilities, exact * factor, rtol=rtol)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("need_alpha", [0.0, 0.3, 0.6, 1.0, 3.0])
@pytest.mark.usefixtures("never_exhaustive")
def test_samples_are_those_of_the_exhaustive_sampler(
    signed: bool, backward: bool, need_alpha: float
) -> None:
    rng = stream(1, "features", str(signed), str(need_alpha))
    samplers = tree, exhaustive = pair(700, backward=backward, need_alpha=need_alpha)
    fill(samplers, rng.random(700), some_features(rng, 700, signed))
    need = some_features(rng, 1, signed)[0]
    expected = exhaustive.probabilities(need)
    slots, normalized = [], []
    for _ in range(20):
        sampled = tree.sample(MANY // 20, rng, need)
        check_probabilities(sampled, expected)
        slots.append(sampled.slots)
        normalized.append(sampled.normalized)
    # of 20 right cases, the least p-value is below 0.001 once in fifty seeds
    assert p_value(Sampled(np.concatenate(slots), np.zeros(0)), expected) > 0.001
    never_rejects = need_alpha == 0.0
    assert all(normalized) == never_rejects
    assert tree.fallbacks.by_score > 0
    assert tree.fallbacks.exhaustive == 0
    assert (tree.acceptance_rate == 1.0) == never_rejects


@pytest.mark.usefixtures("never_exhaustive")
def test_negative_need_with_features_that_are_not_negative() -> None:
    rng = stream(2, "features")
    samplers = tree, exhaustive = pair(300, need_alpha=1.0)
    fill(samplers, rng.random(300), some_features(rng, 300, signed=False))
    need = np.array([1.0, -1.0, 0.5, -0.2, 0.0, 0.1])
    sampled = tree.sample(MANY, rng, need)
    assert p_value(sampled, exhaustive.probabilities(need)) > 0.01
    check_probabilities(sampled, exhaustive.probabilities(need))
    assert not sampled.normalized


def test_need_alpha_0_samples_the_very_slots_of_proportional() -> None:
    rng = stream(3, "features")
    samplers = tree, _ = pair(700, need_alpha=0.0)
    fill(samplers, rng.random(700), some_features(rng, 700, signed=False))
    plain = ProportionalSampler(stratified=False)
    plain.allocate(700)
    plain.set_priorities(np.arange(700), stream(3, "features").random(700))
    for need in (None, np.zeros(N_FEATURES), rng.random(N_FEATURES)):
        ours, theirs = tree.sample(2000, stream(4, "u"), need), plain.sample(2000, stream(4, "u"))
        np.testing.assert_array_equal(ours.slots, theirs.slots)
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    assert tree.fallbacks.by_score == 6000


def test_both_exponents_0_are_uniform_slot_for_slot() -> None:
    samplers = tree, _ = pair(700, need_alpha=0.0, alpha=0.0)
    rng = stream(5, "features")
    fill(samplers, rng.random(700), some_features(rng, 700, signed=False))
    sampled = tree.sample(2000, stream(6, "u"))
    np.testing.assert_array_equal(sampled.slots, (stream(6, "u").random(2000) * 700).astype(int))
    np.testing.assert_allclose(sampled.probabilities, 1 / 700)


@pytest.mark.parametrize("mix", [0.0, 0.2])
def test_sparse_need_ends_exhaustively_and_stays_exact(mix: float) -> None:
    rng = stream(7, "features")
    features = np.zeros((3000, N_FEATURES))
    features[:, 0] = 3.0
    features[:, 1] = 1.0
    features[:, 2] = 1.0
    features[[5, 2900], 1] = [1.1, 1.3]
    samplers = tree, exhaustive = pair(3000, uniform_mix=mix)
    fill(samplers, rng.random(3000), features)
    need = np.array([0.0, 1.0, -1.0, 0.0, 0.0, 0.0])
    exhaustive.uniform_mix = 0.0
    expected = exhaustive.probabilities(need)
    assert (expected > 0).sum() == 2
    batches = [tree.sample(32, rng, need) for _ in range(100)]
    assert tree.fallbacks.exhaustive > 0
    assert tree.acceptance_rate < 0.01
    normalized = [batch for batch in batches if batch.normalized]
    assert len(normalized) > 90
    wanted = (1 - mix) * expected + mix / 3000
    for batch in normalized:
        check_probabilities(batch, wanted)
    all_slots = Sampled(np.concatenate([batch.slots for batch in normalized]), np.zeros(0))
    assert p_value(all_slots, wanted) > 0.01


@pytest.mark.parametrize("need_alpha", [0.5, 1.0, 2.0, 6.0, 9.0])
def test_a_pass_over_the_buffer_is_exact_and_ends_when_the_tree_is_faster(
    need_alpha: float,
) -> None:
    """Half of the slots are empty; few candidates were accepted lately, now many are."""
    rng = stream(17, "features")
    samplers = tree, exhaustive = pair(1400, need_alpha=need_alpha)
    features = some_features(rng, 700, True)
    fill(samplers, rng.random(700) * (rng.random(700) < 0.7), features)
    need = some_features(rng, 1, True)[0]
    expected = exhaustive.probabilities(need)
    tree.arrays()["recent_rates"][:] = 1e-6
    sampled = tree.sample(5000, rng, need)
    assert tree.fallbacks.exhaustive == 5000
    assert tree.arrays()["candidates"].tolist() == [0, 0]
    assert p_value(sampled, expected) > 0.01
    check_probabilities(sampled, expected)
    assert sampled.normalized
    tree.set_features(np.arange(700), np.tile(need, (700, 1)))
    for _ in range(10):
        tree.sample(8, rng, need)
    assert 5000 < tree.fallbacks.exhaustive < 5080
    tree.check_valid()
    tree.arrays()["end"][0] = 600
    with pytest.raises(NeedReplayError, match="beyond the end"):
        tree.check_valid()


@pytest.mark.parametrize("mix", [0.0, 0.25])
def test_a_pass_knows_probabilities_where_need_is_tiny(mix: float) -> None:
    tree = FeatureNeedSampler(2, backward=True, uniform_mix=mix)
    tree.allocate(400)
    tree.set_priorities(np.arange(400), np.ones(400))
    tree.set_features(np.arange(400), np.tile([0.0, 1e-10], (400, 1)))
    tree.arrays()["recent_rates"][:] = 1e-9
    sampled = tree.sample(8, stream(0, "tiny"), np.array([1.0, 1e-300]))
    np.testing.assert_allclose(sampled.probabilities, 1 / 400)


def test_all_negative_need_samples_by_priority() -> None:
    rng = stream(8, "features")
    for mix in (0.0, 0.25):
        samplers = tree, _ = pair(400, uniform_mix=mix)
        priorities = rng.random(400)
        fill(samplers, priorities, np.tile([1.0, 2.0, 0.0, 0.0, 0.0, 0.0], (400, 1)))
        tree.arrays()["recent_rates"][:] = 1e-3
        sampled = tree.sample(20_000, rng, np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0]))
        expected = (1 - mix) * priorities**0.6 / (priorities**0.6).sum() + mix / 400
        assert p_value(sampled, expected) > 0.01
        check_probabilities(sampled, expected)
        assert sampled.normalized
        assert tree.fallbacks[1:] == (20_000, 0, 0)


@pytest.mark.filterwarnings("ignore:No transition")
def test_no_need_samples_by_priority_and_no_priority_uniformly() -> None:
    rng = stream(9, "features")
    sampler, _ = pair(100)
    priorities = rng.random(100)
    sampler.set_priorities(np.arange(100), priorities)
    sampled = sampler.sample(5000, rng, np.ones(N_FEATURES))
    assert p_value(sampled, priorities**0.6 / (priorities**0.6).sum()) > 0.01
    sampler.set_priorities(np.arange(100), np.zeros(100))
    with pytest.warns(NeedReplayWarning, match="Every priority"):
        sampled = sampler.sample(3000, rng, np.ones(N_FEATURES))
    assert p_value(sampled, np.full(100, 0.01)) > 0.01
    assert sampler.fallbacks == (0, 5000, 3000, 0)


def test_one_slot() -> None:
    rng = stream(10, "features")
    samplers = sampler, _ = pair(1)
    fill(samplers, np.array([0.5]), np.ones((1, N_FEATURES)))
    for need in (np.ones(N_FEATURES), np.zeros(N_FEATURES)):
        np.testing.assert_array_equal(sampler.sample(4, rng, need).slots, 0)


def test_huge_and_tiny_need_sample_the_same() -> None:
    rng = stream(11, "features")
    samplers = sampler, _ = pair(200)
    fill(samplers, rng.random(200), some_features(rng, 200, signed=False))
    need = rng.random(N_FEATURES)
    batches = []
    for scale in (1.0, 1e-99, 1e99):
        sampler.arrays()["recent_rates"][:] = 1.0
        batches.append(sampler.sample(200, stream(12, "u"), need * scale).slots)
    np.testing.assert_array_equal(batches[0], batches[1])
    np.testing.assert_array_equal(batches[0], batches[2])


def test_new_slots_have_no_need_until_their_features_are_set() -> None:
    rng = stream(14, "features")
    samplers = sampler, _ = pair(50)
    fill(samplers, np.ones(50), np.ones((50, N_FEATURES)))
    sampler.place(np.arange(1, 50), np.full(49, -1))
    sampler.check_valid()
    assert set(sampler.sample(100, rng, np.ones(N_FEATURES)).slots) == {0}
    assert (sampler.features.arrays()["set_at"] < 0).sum() == 49


def test_age_and_rotation() -> None:
    rng = stream(15, "features")
    tree, _ = pair(10)
    assert tree.features.oldest_age == 0
    known = np.array([0, 2, 3, 7, 8])
    tree.set_priorities(known, np.ones(5))
    tree.set_features(known, np.ones((5, N_FEATURES)))
    seen = []
    for update in range(7):
        tree.sample(2, rng, np.ones(N_FEATURES))
        assert tree.features.oldest_age <= 3
        turn = tree.features.next_to_refresh(2)
        seen.extend(turn.tolist())
        tree.set_features(turn, np.ones((2, N_FEATURES)))
        if update >= 2:
            assert tree.features.oldest_age <= 2
    assert seen == [0, 2, 3, 7, 8, 0, 2, 3, 7, 8, 0, 2, 3, 7]
    assert len(tree.features.next_to_refresh(99)) == 5


def test_rejected_calls_leave_everything_as_it_was() -> None:
    rng = stream(16, "features")
    samplers = sampler, _ = pair(40)
    with pytest.raises(NeedReplayError, match="empty"):
        sampler.sample(1, rng, np.ones(N_FEATURES))
    fill(samplers, rng.random(40), some_features(rng, 40, signed=False))
    before = {name: array.copy() for name, array in sampler.arrays().items()}
    bad = np.ones((2, N_FEATURES))
    for wrong in (np.nan, np.inf):
        bad[1, 3] = wrong
        with pytest.raises(NeedReplayError, match="features holds"):
            sampler.set_features(np.array([0, 1]), bad)
    with pytest.raises(NeedReplayError, match="shape"):
        sampler.set_features(np.array([0, 1]), np.ones((3, N_FEATURES)))
    with pytest.raises(NeedReplayError, match="need"):
        sampler.sample(1, rng)
    for name, array in sampler.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(NeedReplayError, match="n_features"):
        FeatureNeedSampler(0)


def test_features_whose_powers_could_overflow_are_rejected() -> None:
    sampler, _ = pair(2, need_alpha=20.0, backward=True)
    with pytest.raises(NeedReplayError, match="need_alpha"):
        sampler.set_features(np.array([0]), np.full((1, N_FEATURES), 6e7))
    sampler.set_features(np.array([0]), np.full((1, N_FEATURES), 500.0))
    sampler.set_priorities(np.arange(2), np.full(2, 1e100))
    assert set(sampler.sample(5, stream(0), np.ones(N_FEATURES)).slots) == {0}


def test_loaded_arrays_sample_the_same() -> None:
    rng = stream(17, "features")
    samplers = old, _ = pair(500)
    fill(samplers, rng.random(500), some_features(rng, 500, signed=False))
    need = rng.random(N_FEATURES)
    old.sample(32, rng, need)
    old.set_priorities(np.arange(7), rng.random(7))
    new, _ = pair(500)
    for name, array in old.arrays().items():
        new.arrays()[name][...] = array
    new.restore()
    for _ in range(3):
        a, b = old.sample(32, stream(18, "u"), need), new.sample(32, stream(18, "u"), need)
        np.testing.assert_array_equal(a.slots, b.slots)
        np.testing.assert_array_equal(a.probabilities, b.probabilities)
    new.check_valid()


def test_ten_million_updates_leave_no_drift() -> None:
    rng = stream(13, "features")
    samplers = sampler, _ = pair(1000)
    fill(samplers, rng.random(1000), some_features(rng, 1000, signed=False))
    for _ in range(100):
        changed = rng.integers(0, 1000, MANY // 2)
        new = rng.random(MANY // 2) * 10.0 ** rng.integers(-6, 7, MANY // 2)
        sampler.set_priorities(changed, new)
        sampler.sample(1, rng, np.ones(N_FEATURES))
    sampler.check_valid()
    arrays = sampler.arrays()
    powers, vectors = arrays["tree"][:1000], arrays["vectors"].astype(float)
    np.testing.assert_allclose(arrays["tree"][-1], powers.sum(), rtol=1e-12)
    exact = (powers * np.sqrt((vectors**2).sum(axis=1)) ** sampler.need_alpha).sum()
    np.testing.assert_allclose(sampler._bounds.total, exact, rtol=1e-12)


@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore:No transition")
@given(
    capacity=st.integers(1, 70),
    signed=st.booleans(),
    need_alpha=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    seed=st.integers(0, 2**32),
)
def test_any_sequence_of_changes_agrees_with_the_exhaustive_sampler(
    capacity: int, signed: bool, need_alpha: float, seed: int
) -> None:
    rng = stream(seed, "features")
    samplers = tree, exhaustive = pair(capacity, need_alpha=need_alpha)
    for _ in range(10):
        slots = rng.permutation(capacity)[: rng.integers(1, capacity + 1)]
        change = rng.integers(4)
        priorities = rng.random(len(slots)) * (rng.random(len(slots)) < 0.7)
        features = some_features(rng, len(slots), signed)
        features *= rng.integers(0, 2, (len(slots), 1))
        for sampler in samplers:
            if change == 0:
                sampler.set_priorities(slots, priorities)
            elif change == 1:
                sampler.set_features(slots, features)
            elif change == 2:
                sampler.place(slots[:3], slots[:3])
            else:
                sampler.clear(slots[:3])
        tree.check_valid()
        if exhaustive.arrays()["powers"].any():
            need = some_features(rng, 1, signed)[0]
            sampled = tree.sample(8, rng, need)
            expected = exhaustive.probabilities(need)
            assert (expected[sampled.slots] > 0).all()
            check_probabilities(sampled, expected)
            tree.check_valid()


def test_bounds_are_power_times_norm_by_hand() -> None:
    tree = FeatureNeedSampler(2, alpha=0.5, need_alpha=0.5, backward=True)
    tree.allocate(3)
    tree.set_features(np.arange(2), np.array([[3.0, -4.0], [0.0, 16.0]]))
    tree.set_priorities(np.arange(3), np.array([4.0, 9.0, 25.0]))
    np.testing.assert_allclose(masses(tree), [2 * 5**0.5, 3 * 4, 0.0])
    assert tree._bounds.total == masses(tree).sum()


@pytest.mark.parametrize("d", [1, 7, 64, 4096])
@pytest.mark.parametrize("need_alpha", [0.3, 1.0, 4.0])
def test_no_score_is_above_its_bound_even_where_they_are_equal(d: int, need_alpha: float) -> None:
    rng = stream(d, "norm tree")
    tree = FeatureNeedSampler(d, need_alpha=need_alpha)
    tree.allocate(30)
    tree.set_priorities(np.arange(30), rng.random(30))
    tree.set_features(np.arange(30), rng.standard_normal((30, d)))
    vectors, powers, bounds = tree.features.vectors, tree.arrays()["tree"], masses(tree)
    for slot in range(30):
        direction, _ = unit_rows(vectors[slot].astype(np.float64) * 10.0 ** (slot - 15))
        need = vectors[slot].astype(np.float64) @ direction
        score, bound = powers[slot] * need**need_alpha, bounds[slot]
        assert bound / SLACK <= score <= bound * SLACK


@pytest.mark.usefixtures("never_exhaustive")
@pytest.mark.parametrize(
    ("vector", "query", "nearest"),
    [  # in degrees from the axis; the ring of the vector is 7.5 wide, and the query that far away
        (0.0, 0.0, 0.0), (5.0, 0.0, 0.0), (40.0, 41.0, 0.0), (40.0, 60.0, 15.0),
        (40.0, 20.0, 17.5), (80.0, 0.0, 75.0), (130.0, 175.0, 0.0), (130.0, 60.0, 22.5),
    ],
)  # fmt: skip
def test_candidates_are_accepted_by_their_cosine_over_the_largest_of_their_ring(
    vector: float, query: float, nearest: float
) -> None:
    d, one, rng = 1024, np.zeros(1, dtype=np.int64), stream(3, "rings")  # so long: a single axis
    at = {degrees: np.zeros(d) for degrees in (0.0, vector, query)}
    for degrees, row in at.items():
        row[:2] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    tree = FeatureNeedSampler(d, alpha=0.0, raw=True)
    tree.allocate(1)
    tree.set_priorities(one, np.ones(1))
    tree.set_features(one, 3.0 * at[0.0][None])
    tree.set_features(one, 0.1 * at[vector][None])
    for _ in range(4):
        tree.sample(MANY // 80, rng, at[query])
    accepted, tried = tree.arrays()["candidates"]
    rate = np.cos(np.radians(vector - query)) / np.cos(np.radians(nearest))
    assert abs(accepted / tried - rate) < (1e-5 if rate == 1.0 else 4.0 / (MANY // 20) ** 0.5)


def test_no_cosine_is_above_the_bound_of_its_group() -> None:
    """In three dimensions, with queries on axes, on edges of rings, opposite, and anywhere."""
    rng = stream(20, "rings")
    tree = FeatureNeedSampler(3, raw=True)
    tree.allocate(3000)
    tree.set_features(np.arange(3000), rng.standard_normal((3000, 3)))
    vectors, _ = unit_rows(tree.features.vectors.astype(np.float64))
    axes = tree.arrays()["axes"].astype(np.float64)
    assert len(axes) == 64
    across = np.cross(axes, rng.standard_normal((64, 3)))
    across *= np.sqrt((axes**2).sum(axis=1) / (across**2).sum(axis=1))[:, None]
    edges = [
        axes * np.cos(np.radians(7.5 * k)) + across * np.sin(np.radians(7.5 * k)) for k in range(13)
    ]
    queries, _ = unit_rows(np.concatenate([*edges, -axes, rng.standard_normal((200, 3))]))
    groups, tight = group_of(tree), 0
    for query in queries:
        bounds, largest = tree._directions.bounds(query), np.full(64 * 12, -1.0)
        np.maximum.at(largest, groups, vectors @ query)
        assert (largest <= bounds * SLACK).all()
        tight += int(np.count_nonzero(bounds - largest < 0.01))
    assert tight > 1000


def test_axes_retire_in_turn_and_each_vector_that_is_set_moves_one() -> None:
    """64 axes of the first 64 vectors; then a vector takes one member from the oldest axis."""
    tree = FeatureNeedSampler(2, raw=True)
    tree.allocate(100)
    angles = np.radians(np.arange(100.0))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    tree.set_features(np.arange(64), vectors[:64])
    arrays = tree.arrays()
    np.testing.assert_allclose(arrays["axes"], vectors[:64], atol=1e-6)
    assert (group_of(tree)[:64] // 12).tolist() == list(range(64))
    tree.set_features(np.array([64]), vectors[64:65])  # axis 0 has slot 0, which goes to axis 1
    assert (group_of(tree)[[0, 1, 64]] // 12).tolist() == [1, 1, 63]
    tree.set_features(np.array([65]), vectors[65:66])  # axis 0 has none: it is this vector
    np.testing.assert_allclose(arrays["axes"][0], vectors[65], atol=1e-6)
    assert (group_of(tree)[[0, 1, 64, 65]] // 12).tolist() == [1, 1, 63, 0]
    assert arrays["axis_counts"].tolist() == [64, 1]
    tree.check_valid()


def restore_and_check(sampler: FeatureNeedSampler) -> None:
    """What loading a file does."""
    sampler.restore()
    sampler.check_valid()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tree", 3.0), ("place", 9), ("place", -1), ("place", 10**9), ("group", 10**9),
        ("axes", 0.0), ("axes", np.nan), ("axis_counts", 64), ("vectors", 0.5),
    ],
)  # fmt: skip
def test_damage_is_seen(name: str, value: float) -> None:
    samplers = sampler, _ = pair(20)
    rng = stream(19, "features")
    fill(samplers, rng.random(20), some_features(rng, 20, signed=False))
    sampler.sample(1, rng, np.ones(N_FEATURES))
    sampler.check_valid()
    sampler.arrays()[name][1] = value
    with pytest.raises(NeedReplayError):
        restore_and_check(sampler)


@pytest.mark.parametrize("name", ["_norms", "slot_at", "members", "partial", "masses"])
def test_damage_of_what_is_derived_is_seen(name: str) -> None:
    samplers = sampler, _ = pair(20)
    rng = stream(19, "features")
    fill(samplers, rng.random(20), some_features(rng, 20, signed=False))
    where = {"_norms": sampler._norms, "masses": sampler._bounds.masses, **sampler._derived}[name]
    where[0] += 1
    with pytest.raises(NeedReplayError):
        sampler.check_valid()
