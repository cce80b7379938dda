"""What only the norm tree does; all else is in ``test_feature_draw``."""

from __future__ import annotations

import os

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.replay.samplers.norm_tree import SLACK, FeatureNeedSampler
from needreplay.replay.samplers.proportional import ProportionalSampler

MANY = 2000 if os.environ.get("NUMBA_DISABLE_JIT") else 100_000


def filled(n: int, d: int, **options: float) -> tuple[FeatureNeedSampler, np.random.Generator]:
    rng = stream(d, "norm tree")
    tree = FeatureNeedSampler(d, **options)  # type: ignore[arg-type]
    tree.allocate(n)
    tree.set_priorities(np.arange(n), rng.random(n))
    tree.set_features(np.arange(n), rng.standard_normal((n, d)))
    return tree, rng


def test_leaves_are_gain_times_norm_by_hand() -> None:
    tree = FeatureNeedSampler(2, alpha=0.5, need_alpha=0.5, backward=True)
    tree.allocate(3)
    tree.set_features(np.arange(2), np.array([[3.0, -4.0], [0.0, 16.0]]))
    tree.set_priorities(np.arange(3), np.array([4.0, 9.0, 25.0]))
    np.testing.assert_allclose(tree.arrays()["bounds"][:3], [2 * 5**0.5, 3 * 4, 0.0])
    assert tree.arrays()["bounds"][-1] == tree.arrays()["bounds"][:3].sum()


@pytest.mark.parametrize("d", [1, 7, 64, 4096])
@pytest.mark.parametrize("need_alpha", [0.3, 1.0])
def test_no_score_is_above_its_bound_even_where_they_are_equal(d: int, need_alpha: float) -> None:
    tree, _ = filled(30, d, need_alpha=need_alpha)
    vectors = tree.features.vectors
    for slot in range(30):
        direction = vectors[slot].astype(np.float64) * 10.0 ** (slot - 15)
        proposal, _ = tree._proposal(direction)
        score = tree._mass[slot] * (vectors[slot].astype(np.float64) @ proposal.need) ** need_alpha
        leaf = tree.arrays()["bounds"][slot]
        assert score <= leaf * SLACK
        assert score >= leaf / SLACK


def test_features_along_the_need_are_all_accepted_and_others_by_the_cosine() -> None:
    tree = FeatureNeedSampler(2, alpha=0.0, need_alpha=1.0, backward=True)
    tree.allocate(1)
    tree.set_priorities(np.zeros(1, dtype=np.int64), np.ones(1))
    rng = stream(3, "norm tree")
    for vector, cosine in (([0.3, 0.4], 1.0), ([0.0, 5.0], 0.8), ([4.0, 0.0], 0.6)):
        tree.set_features(np.zeros(1, dtype=np.int64), np.array([vector]))
        before = tree.arrays()["candidates"].copy()
        for _ in range(10):
            tree._propose(
                tree._proposal(np.array([0.6, 0.8]))[0],
                rng,
                np.empty(MANY // 10, dtype=np.int64),
                np.empty(MANY // 10),
            )
        accepted, tried = tree.arrays()["candidates"] - before
        assert abs(accepted / tried - cosine) < (1e-9 if cosine == 1.0 else 3.0 / MANY**0.5)


def test_need_exponent_0_makes_the_very_draws_of_prioritised_replay() -> None:
    tree, rng = filled(3000, 4, need_alpha=0.0)
    plain = ProportionalSampler(stratified=False)
    plain.allocate(3000)
    plain.set_priorities(np.arange(3000), stream(4, "norm tree").random(3000))
    for need in (None, rng.standard_normal(4)):
        ours, theirs = tree.sample(5000, stream(1, "u"), need), plain.sample(5000, stream(1, "u"))
        np.testing.assert_array_equal(ours.slots, theirs.slots)
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    assert tree.acceptance_rate == 1.0


def test_ten_million_updates_leave_no_drift() -> None:
    tree, rng = filled(1000, 2)
    for _ in range(100):
        changed = rng.integers(0, 1000, MANY)
        tree.set_priorities(changed, rng.random(MANY) * 10.0 ** rng.integers(-6, 7, MANY))
    tree.check_valid()
    norms = np.sqrt((tree.features.vectors.astype(float) ** 2).sum(axis=1))
    exact = (tree._mass * norms**0.6).sum()
    np.testing.assert_allclose(tree.arrays()["bounds"][-1], exact, rtol=1e-12)


def test_a_wrong_norm_or_leaf_is_found() -> None:
    for name, wrong in (("powers", 2.0), ("bounds", 3.0), ("gains", 4.0)):
        tree, _ = filled(20, 3)
        tree.check_valid()
        tree.arrays()[name][4] = wrong
        with pytest.raises(NeedReplayError):
            tree.check_valid()
