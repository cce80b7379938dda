"""The draws by features, vector tree and norm tree, against the sweep, which scores every slot."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.types import AnyArray, FloatArray
from needreplay.replay.samplers.base import Sampled, Sampler
from needreplay.replay.samplers.exhaustive import ExhaustiveNeedSampler
from needreplay.replay.samplers.feature_need import FeatureSampler
from needreplay.replay.samplers.norm_tree import FeatureNeedSampler
from needreplay.replay.samplers.vector_tree import VectorTreeSampler

Tree = FeatureSampler[Any]
Maker = type[VectorTreeSampler] | type[FeatureNeedSampler]

N_FEATURES = 6
MANY = 4000 if os.environ.get("NUMBA_DISABLE_JIT") else 200_000


each_tree = pytest.mark.parametrize("make", [VectorTreeSampler, FeatureNeedSampler])
each_kind = pytest.mark.parametrize(
    ("make", "signed"),
    [(VectorTreeSampler, False), (FeatureNeedSampler, False), (FeatureNeedSampler, True)],
)


def pair(
    make: Maker,
    n: int,
    *,
    alpha: float = 0.6,
    need_alpha: float = 0.6,
    backward: bool = False,
) -> tuple[Tree, ExhaustiveNeedSampler]:
    """A tree and the sweep it is held against, both empty."""
    options: dict[str, Any] = {
        "backward": backward,
        "alpha": alpha,
        "need_alpha": need_alpha,
    }
    tree, sweep = (
        make(N_FEATURES, **options),
        ExhaustiveNeedSampler(n_features=N_FEATURES, **options),
    )
    tree.allocate(n)
    sweep.allocate(n)
    return tree, sweep


def tell(draws: tuple[Tree, ExhaustiveNeedSampler], gain: AnyArray, features: AnyArray) -> None:
    slots = np.arange(len(gain))
    for sampler in draws:
        sampler.set_priorities(slots, gain)
        sampler.set_features(slots, features)


def some_features(rng: np.random.Generator, n: int, signed: bool) -> FloatArray:
    features = rng.standard_normal((n, N_FEATURES))
    return features if signed else np.maximum(0.0, features)


def p_value(drawn: Sampled, expected: FloatArray) -> float:
    size = len(drawn.slots)
    counts = np.bincount(drawn.slots, minlength=len(expected))
    assert counts[expected == 0.0].sum() == 0
    likely = expected * size >= 5
    observed = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(expected[likely], expected[~likely].sum()) * size
    return float(chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue)


def check_probabilities(drawn: Sampled, expected: FloatArray, rtol: float = 1e-10) -> None:
    """Equal where normalised, else all wrong by the same factor."""
    exact = expected[drawn.slots]
    factor = 1.0 if drawn.normalised else drawn.probabilities[0] / exact[0]
    np.testing.assert_allclose(drawn.probabilities, exact * factor, rtol=rtol)


@each_kind
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("need_alpha", [0.0, 0.3, 0.6, 1.0])
def test_draws_are_the_sweeps(
    make: Maker,
    signed: bool,
    backward: bool,
    need_alpha: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # so few slots would soon be swept, but here the descent is to show what it draws
    monkeypatch.setattr(make, "_most_rejected", lambda *_: 10**9)
    rng = stream(1, "features", str(signed), str(need_alpha))
    draws = tree, sweep = pair(make, 700, backward=backward, need_alpha=need_alpha)
    tell(draws, rng.random(700), some_features(rng, 700, signed))
    need = some_features(rng, 1, signed)[0]
    expected = sweep.probabilities(need)
    slots, normalised = [], []
    for _ in range(20):
        drawn = tree.sample(MANY // 20, rng, need)
        check_probabilities(drawn, expected)
        slots.append(drawn.slots)
        normalised.append(drawn.normalised)
    drawn = Sampled(np.concatenate(slots), np.zeros(0))
    # 24 cases: all of them right, the least of their p-values is below 0.01 once in five seeds
    assert p_value(drawn, expected) > 0.001
    exactly_known = need_alpha == 0.0 or (need_alpha == 1.0 and make is VectorTreeSampler)
    assert all(normalised) == exactly_known
    assert tree.fallbacks.by_priority > 0
    assert tree.fallbacks.by_sweep == 0
    assert (tree.acceptance_rate == 1.0) == exactly_known


@each_tree
def test_negative_need_against_features_that_are_not_negative(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "_most_rejected", lambda *_: 10**9)
    rng = stream(2, "features")
    draws = tree, sweep = pair(make, 300, need_alpha=1.0)
    tell(draws, rng.random(300), some_features(rng, 300, signed=False))
    need = np.array([1.0, -1.0, 0.5, -0.2, 0.0, 0.1])
    drawn = tree.sample(MANY, rng, need)
    assert p_value(drawn, sweep.probabilities(need)) > 0.01
    check_probabilities(drawn, sweep.probabilities(need))
    assert not drawn.normalised


@each_tree
def test_need_exponent_0_is_gain_alone_draw_for_draw(make: Maker) -> None:
    rng = stream(3, "features")
    draws = tree, _ = pair(make, 700, need_alpha=0.0)
    tell(draws, rng.random(700), some_features(rng, 700, signed=False))
    plain = ExhaustiveNeedSampler(need_alpha=0.0)
    plain.allocate(700)
    plain.set_priorities(np.arange(700), stream(3, "features").random(700))
    for need in (None, np.zeros(N_FEATURES), rng.standard_normal(N_FEATURES)):
        ours, theirs = tree.sample(2000, stream(4, "u"), need), plain.sample(2000, stream(4, "u"))
        np.testing.assert_array_equal(ours.slots, theirs.slots)
        np.testing.assert_allclose(ours.probabilities, theirs.probabilities, rtol=1e-12)


@each_tree
def test_both_exponents_0_are_uniform_draw_for_draw(make: Maker) -> None:
    draws = tree, _ = pair(make, 700, need_alpha=0.0, alpha=0.0)
    rng = stream(5, "features")
    tell(draws, rng.random(700), some_features(rng, 700, signed=False))
    drawn = tree.sample(2000, stream(6, "u"))
    np.testing.assert_array_equal(drawn.slots, (stream(6, "u").random(2000) * 700).astype(int))
    np.testing.assert_allclose(drawn.probabilities, 1 / 700)


@each_tree
def test_sparse_need_ends_by_the_sweep_and_stays_exact(make: Maker) -> None:
    rng = stream(7, "features")
    features = np.zeros((3000, N_FEATURES))
    features[:, 0] = 3.0
    features[:, 1] = 1.0
    features[:, 2] = 1.0
    features[[5, 2900], 1] = [1.1, 1.3]
    draws = tree, sweep = pair(make, 3000)
    tell(draws, rng.random(3000), features)
    need = np.array([0.0, 1.0, -1.0, 0.0, 0.0, 0.0])
    expected = sweep.probabilities(need)
    assert (expected > 0).sum() == 2
    drawn = [tree.sample(32, rng, need) for _ in range(100)]
    assert tree.fallbacks.by_sweep > 0
    assert tree.acceptance_rate < 0.01
    for batch in drawn:
        check_probabilities(batch, expected)
    all_slots = Sampled(np.concatenate([batch.slots for batch in drawn]), np.zeros(0))
    assert p_value(all_slots, expected) > 0.01


@each_tree
def test_all_negative_need_is_drawn_by_gain(make: Maker) -> None:
    rng = stream(8, "features")
    draws = tree, _ = pair(make, 400)
    gain = rng.random(400)
    tell(draws, gain, np.tile([1.0, 2.0, 0.0, 0.0, 0.0, 0.0], (400, 1)))
    drawn = tree.sample(20_000, rng, np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0]))
    assert p_value(drawn, gain**0.6 / (gain**0.6).sum()) > 0.01
    assert drawn.normalised
    assert tree.fallbacks == (0, 20_000, 0, 0)


@each_tree
def test_no_need_is_drawn_by_gain_and_no_gain_uniformly(make: Maker) -> None:
    rng = stream(9, "features")
    tree, _ = pair(make, 100)
    gain = rng.random(100)
    tree.set_priorities(np.arange(100), gain)
    drawn = tree.sample(5000, rng, np.ones(N_FEATURES))
    assert p_value(drawn, gain**0.6 / (gain**0.6).sum()) > 0.01
    tree.set_priorities(np.arange(100), np.zeros(100))
    with pytest.warns(RuntimeWarning, match="Every gain"):
        drawn = tree.sample(3000, rng, np.ones(N_FEATURES))
    assert p_value(drawn, np.full(100, 0.01)) > 0.01
    assert tree.fallbacks == (0, 5000, 3000, 0)


@each_tree
def test_one_slot(make: Maker) -> None:
    rng = stream(10, "features")
    draws = tree, _ = pair(make, 1)
    tell(draws, np.array([0.5]), np.ones((1, N_FEATURES)))
    for need in (np.ones(N_FEATURES), np.zeros(N_FEATURES), -np.ones(N_FEATURES)):
        np.testing.assert_array_equal(tree.sample(4, rng, need).slots, 0)


@each_tree
def test_huge_and_tiny_need_draw_the_same(make: Maker) -> None:
    rng = stream(11, "features")
    draws = tree, _ = pair(make, 200)
    tell(draws, rng.random(200), some_features(rng, 200, signed=False))
    need = rng.standard_normal(N_FEATURES)
    batches = []
    for scale in (1.0, 1e-300, 1e300):
        tree.arrays()["recent_rate"][:] = 1.0
        batches.append(tree.sample(200, stream(12, "u"), need * scale).slots)
    np.testing.assert_array_equal(batches[0], batches[1])
    np.testing.assert_array_equal(batches[0], batches[2])


@each_tree
def test_forgotten_slots_have_no_need_until_told(make: Maker) -> None:
    rng = stream(14, "features")
    draws = tree, _ = pair(make, 50)
    tell(draws, np.ones(50), np.ones((50, N_FEATURES)))
    tree.place(np.arange(1, 50), np.full(49, -1))
    tree.check_valid()
    assert set(tree.sample(100, rng, np.ones(N_FEATURES)).slots) == {0}
    assert tree.features.n_untold == 49


@each_tree
def test_age_and_rotation(make: Maker) -> None:
    rng = stream(15, "features")
    tree, _ = pair(make, 10)
    assert tree.features.oldest_age == 0
    told = np.array([0, 2, 3, 7, 8])
    tree.set_priorities(told, np.ones(5))
    tree.set_features(told, np.ones((5, N_FEATURES)))
    seen = []
    for update in range(7):
        tree.sample(2, rng, np.ones(N_FEATURES))
        assert tree.features.oldest_age <= 3
        turn = tree.features.next_in_rotation(2)
        seen.extend(turn.tolist())
        tree.set_features(turn, np.ones((2, N_FEATURES)))
        if update >= 2:
            assert tree.features.oldest_age <= 2
    assert seen == [0, 2, 3, 7, 8, 0, 2, 3, 7, 8, 0, 2, 3, 7]
    assert len(tree.features.next_in_rotation(99)) == 5


@each_tree
def test_refusals_leave_everything_as_it_was(make: Maker) -> None:
    rng = stream(16, "features")
    draws = tree, _ = pair(make, 40)
    with pytest.raises(NeedReplayError, match="empty"):
        tree.sample(1, rng, np.ones(N_FEATURES))
    tell(draws, rng.random(40), some_features(rng, 40, signed=False))
    before = {name: array.copy() for name, array in tree.arrays().items()}
    bad = np.ones((2, N_FEATURES))
    for wrong in (np.nan, np.inf):
        bad[1, 3] = wrong
        with pytest.raises(NeedReplayError, match="features holds"):
            tree.set_features(np.array([0, 1]), bad)
    with pytest.raises(NeedReplayError, match="shape"):
        tree.set_features(np.array([0, 1]), np.ones((3, N_FEATURES)))
    with pytest.raises(NeedReplayError, match="need is missing"):
        make(2).sample(1, rng)
    for name, array in tree.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(NeedReplayError, match="need_alpha"):
        make(2, need_alpha=1.01)
    with pytest.raises(NeedReplayError, match="n_features"):
        make(0)


@each_tree
def test_going_on_from_saved_arrays_makes_the_same_draws(make: Maker) -> None:
    rng = stream(17, "features")
    draws = old, _ = pair(make, 500)
    tell(draws, rng.random(500), some_features(rng, 500, signed=False))
    need = rng.standard_normal(N_FEATURES)
    old.sample(32, rng, need)
    old.set_priorities(np.arange(7), rng.random(7))
    new, _ = pair(make, 500)
    for name, array in old.arrays().items():
        new.arrays()[name][...] = array
    for _ in range(3):
        a, b = old.sample(32, stream(18, "u"), need), new.sample(32, stream(18, "u"), need)
        np.testing.assert_array_equal(a.slots, b.slots)
        np.testing.assert_array_equal(a.probabilities, b.probabilities)
    new.check_valid()
    as_draw: Sampler = new
    assert as_draw.name == make.name


@settings(max_examples=80, deadline=None)
@given(
    capacity=st.integers(1, 70),
    kind=st.sampled_from(
        [(VectorTreeSampler, False), (FeatureNeedSampler, False), (FeatureNeedSampler, True)]
    ),
    need_alpha=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_any_sequence_of_changes_agrees_with_the_sweep(
    capacity: int, kind: tuple[Maker, bool], need_alpha: float, seed: int
) -> None:
    make, signed = kind
    rng = stream(seed, "features")
    draws = tree, sweep = pair(make, capacity, need_alpha=need_alpha)
    for _ in range(10):
        slots = rng.permutation(capacity)[: rng.integers(1, capacity + 1)]
        change = rng.integers(4)
        gain = rng.random(len(slots)) * (rng.random(len(slots)) < 0.7)
        features = some_features(rng, len(slots), signed) * rng.integers(0, 2, (len(slots), 1))
        for sampler in draws:
            if change == 0:
                sampler.set_priorities(slots, gain)
            elif change == 1:
                sampler.set_features(slots, features)
            elif change == 2:
                sampler.place(slots[:3], slots[:3])
            else:
                sampler.clear(slots[:3])
        tree.check_valid()
        if sweep.arrays()["mass"].any():
            need = rng.standard_normal(N_FEATURES)
            drawn = tree.sample(8, rng, need)
            expected = sweep.probabilities(need)
            assert (expected[drawn.slots] > 0).all()
            check_probabilities(drawn, expected)
            tree.check_valid()
