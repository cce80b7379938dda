"""The exhaustive sampler by hand: the other samplers by need are tested against it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.rng import stream
from needreplay.replay.samplers import ExhaustiveNeedSampler
from needreplay.replay.samplers.exhaustive import slots_at

SLOTS = np.arange(3)
PRIORITIES = np.array([1.0, 4.0, 9.0])


def test_need_per_slot_by_hand() -> None:
    sampler = ExhaustiveNeedSampler(alpha=0.5, need_alpha=0.5)
    sampler.allocate(4)
    sampler.set_priorities(SLOTS, PRIORITIES)
    # 1 * 2, 2 * 1, 3 * 0 and an empty slot
    p = sampler.probabilities(np.array([4.0, 1.0, -1.0, 7.0]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0, 0.0])


def test_need_per_state_by_hand() -> None:
    sampler = ExhaustiveNeedSampler(n_states=3, alpha=1.0, need_alpha=1.0)
    sampler.allocate(3)
    sampler.set_priorities(SLOTS, PRIORITIES)
    sampler.set_state(np.array([0, 1]), np.array([2, 2]))
    np.testing.assert_allclose(sampler.probabilities(np.array([9.0, 9.0, 2.0])), [0.2, 0.8, 0.0])
    sampler.place(np.array([1]), np.array([-1]))
    np.testing.assert_allclose(sampler.probabilities(np.array([9.0, 9.0, 2.0])), [1.0, 0.0, 0.0])


def test_the_uniform_number_says_which_slot() -> None:
    scores = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    uniforms = np.array([0.0, 0.2499, 0.25, 0.9999, np.nextafter(1.0, 0.0), 1.0])
    np.testing.assert_array_equal(slots_at(scores, uniforms), [1, 1, 3, 3, 3, 3])


@pytest.mark.parametrize("passed_by", ["slot", "state", "features"])
def test_sampled_by_its_distribution(passed_by: str) -> None:
    priorities = np.array([0.5, 0.0, 3.0, 1.0, 1.0, 0.25, 2.0, 4.0])
    need = np.array([1.0, 2.0, 0.0, 0.25, 4.0, 2.0, -1.0, 0.5])
    slots, size = np.arange(8), 64_000
    options: dict[str, Any] = {"slot": {}, "state": {"n_states": 8}, "features": {"n_features": 8}}
    sampler = ExhaustiveNeedSampler(**options[passed_by], alpha=0.7, need_alpha=0.4)
    sampler.allocate(8)
    sampler.set_priorities(slots, priorities)
    query = need
    if passed_by == "state":
        sampler.set_state(slots, slots[::-1])
        query = need[::-1]
    if passed_by == "features":
        sampler.set_features(slots, 2.0 * np.eye(8))
        query = 2.0 * need
    scores = priorities**0.7 * np.maximum(0.0, need) ** 0.4
    expected, possible = scores / scores.sum(), scores > 0
    sampled = sampler.sample(size, stream(1, "sweep", passed_by), query)
    np.testing.assert_allclose(sampled.probabilities, expected[sampled.slots], rtol=1e-12)
    counts = np.bincount(sampled.slots, minlength=8)
    assert counts[~possible].sum() == 0
    wanted = expected[possible] * size
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], possible.sum() - 1)
    assert low < statistic < high


def test_fallbacks() -> None:
    sampler = ExhaustiveNeedSampler()
    sampler.allocate(3)
    sampler.set_priorities(SLOTS, np.array([0.0, 0.0, 2.0]))
    rng = stream(0, "sweep")
    assert set(sampler.sample(5, rng, np.array([1.0, 1.0, 0.0])).slots) == {2}
    sampler.set_priorities(SLOTS, np.zeros(3))
    np.testing.assert_allclose(sampler.probabilities(np.ones(3)), 1 / 3)
    with pytest.warns(NeedReplayWarning, match="Every priority"):
        sampler.sample(7, rng, np.ones(3))
    assert sampler.fallbacks == (0, 5, 7, 0)
    sampler.check_valid()


def test_what_is_rejected() -> None:
    with pytest.raises(NeedReplayError, match="not both"):
        ExhaustiveNeedSampler(n_states=2, n_features=2)
    for none in (0, -1, 1.5, True, "x"):
        for name in ("n_states", "n_features"):
            with pytest.raises(NeedReplayError, match=f"{name} is"):
                ExhaustiveNeedSampler(**{name: none})  # type: ignore[arg-type]
    sampler = ExhaustiveNeedSampler(n_features=2)
    sampler.allocate(3)
    with pytest.raises(NeedReplayError, match="empty"):
        sampler.sample(1, stream(0, "sweep"), np.ones(2))
    with pytest.raises(NeedReplayError, match="shape"):
        sampler.set_features(SLOTS, np.ones((3, 3)))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(NeedReplayError, match="Nothing was changed"):
            sampler.set_features(SLOTS, np.array([[1.0, 1.0], [1.0, bad], [1.0, 1.0]]))
    assert sampler.arrays()["vectors"].sum() == 0.0
