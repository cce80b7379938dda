"""What only the vector tree does; all else is in ``test_feature_draw``."""

from __future__ import annotations

import os

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.replay.samplers.vector_tree import VectorTreeSampler

MANY = 2000 if os.environ.get("NUMBA_DISABLE_JIT") else 100_000


def test_ten_million_updates_leave_no_drift() -> None:
    rng = stream(13, "vector tree")
    tree = VectorTreeSampler(2)
    tree.allocate(1000)
    tree.set_features(np.arange(1000), np.abs(rng.standard_normal((1000, 2))))
    for _ in range(100):
        changed = rng.integers(0, 1000, MANY)
        tree.set_priorities(changed, rng.random(MANY) * 10.0 ** rng.integers(-6, 7, MANY))
        tree.sample(1, rng, np.ones(2))
    tree.check_valid()
    held = tree.arrays()
    exact = (held["mass"][:, None] * held["vectors"].astype(float)).sum(axis=0)
    np.testing.assert_allclose(held["sums"][0], exact, rtol=1e-12)
    np.testing.assert_allclose(held["masses"][0], held["mass"].sum(), rtol=1e-12)


def test_negative_features_are_refused_and_the_other_draw_named() -> None:
    tree = VectorTreeSampler(3)
    tree.allocate(2)
    tree.set_priorities(np.arange(2), np.ones(2))
    with pytest.raises(NeedReplayError, match="FeatureNeedSampler"):
        tree.set_features(np.arange(2), np.array([[1.0, 0.0, 1.0], [0.0, -1e-9, 0.0]]))
    assert tree.features.n_untold == 2
    tree.check_valid()
