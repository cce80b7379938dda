"""What all samplers by need have in common: raw priorities, exponents, the uniform share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray
from needreplay.replay import ReplayBuffer
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    StateNeedSampler,
    feature_need,
)
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.validation import MAX_PRIORITY

N_STATES = 4
MAKERS: dict[str, Callable[..., Any]] = {
    "state": lambda **options: StateNeedSampler(N_STATES, **options),
    "exhaustive": lambda **options: ExhaustiveNeedSampler(n_states=N_STATES, **options),
    "features": lambda **options: FeatureNeedSampler(N_STATES, **options),
}
each_sampler = pytest.mark.parametrize("name", MAKERS)


def fill(sampler: Any, priorities: FloatArray, states: AnyArray) -> Any:
    """Slots of ``states``, or with features that are one-hot codes of these."""
    slots = np.arange(len(states))
    sampler.set_priorities(slots, priorities)
    if isinstance(sampler, FeatureNeedSampler):
        sampler.set_features(slots, np.eye(N_STATES)[states])
    else:
        sampler.set_state(slots, states)
    sampler.check_valid()
    return sampler


def made(name: str, **options: Any) -> Any:
    """Four slots of six."""
    sampler = MAKERS[name](**options)
    sampler.allocate(6)
    return fill(sampler, np.array([1.0, 4.0, 0.25, 0.0]), np.array([0, 1, 0, 1]))


@each_sampler
def test_raw_priorities_are_stored(name: str) -> None:
    sampler = made(name, alpha=0.5)
    assert sampler.priorities.tolist() == [1.0, 4.0, 0.25, 0.0, -1.0, -1.0]
    sampler.set_priorities(np.array([2]), np.array([9.0]))
    sampler.clear(np.array([0]))
    assert sampler.priorities.tolist() == [-1.0, 4.0, 9.0, 0.0, -1.0, -1.0]
    sampler.check_valid()


@each_sampler
def test_a_priority_that_does_not_fit_its_power_is_seen(name: str) -> None:
    sampler = made(name)
    sampler.priorities[2] = 5.0
    with pytest.raises(NeedReplayError, match="power is not its priority"):
        sampler.check_valid()


@each_sampler
def test_exponents_and_shares_out_of_range_are_rejected(name: str) -> None:
    for wrong, message in (
        ({"alpha": 2.0}, "alpha is 2"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"need_alpha": -0.1}, "need_alpha is -0.1"),
        ({"need_alpha": np.inf}, "need_alpha is inf"),
        ({"uniform_mix": 1.1}, "uniform_mix is 1.1"),
        ({"correct_for": "need"}, "correct_for"),
    ):
        with pytest.raises(NeedReplayError, match=message):
            MAKERS[name](**wrong)


@each_sampler
def test_the_largest_priority_leaves_everything_finite(name: str) -> None:
    sampler = made(name, alpha=1.0, need_alpha=1.0)
    sampler.set_priorities(np.arange(3), np.full(3, MAX_PRIORITY))
    sampled = sampler.sample(30, np.random.default_rng(0), np.ones(N_STATES))
    assert np.isfinite(sampled.probabilities).all()
    assert set(sampled.slots) == {0, 1, 2}
    sampler.check_valid()


STATES = np.array([0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 2])
PRIORITIES = np.array([0.5, 1.0, 2.0, 0.0, 3.0, 1.0, 0.25, 1.0, 0.125, 4.0, 0.0, 1.0])
NEED = np.array([1.0, 3.0, 0.0, 0.5])
BATCHES, SIZE = 400, 50


def exact(need_alpha: float) -> FloatArray:
    scores: FloatArray = PRIORITIES**0.6 * NEED[STATES] ** need_alpha
    total: float = scores.sum()
    return scores / total


def sample_all(sampler: Any, rng: np.random.Generator) -> Sampled:
    """Many batches as one; every batch is checked to be right up to its own constant."""
    batches = [sampler.sample(SIZE, rng, NEED) for _ in range(BATCHES)]
    names = Sampled._fields
    joined = {name: np.concatenate([getattr(b, name) for b in batches]) for name in names[:2]}
    return Sampled(**joined, normalized=all(batch.normalized for batch in batches))


@each_sampler
@pytest.mark.parametrize("need_alpha", [0.5, 1.0, 2.0, 5.0])
def test_need_alpha_may_exceed_1(name: str, need_alpha: float) -> None:
    sampler = MAKERS[name](need_alpha=need_alpha)
    sampler.allocate(len(STATES))
    fill(sampler, PRIORITIES, STATES)
    expected = exact(need_alpha)
    sampled = sample_all(sampler, stream(1, "need_alpha", name))
    counts = np.bincount(sampled.slots, minlength=len(STATES))
    likely = expected > 0
    assert counts[~likely].sum() == 0
    assert chisquare(counts[likely], expected[likely] * counts.sum()).pvalue > 1e-4
    if sampled.normalized:
        np.testing.assert_allclose(sampled.probabilities, expected[sampled.slots], rtol=1e-12)


@each_sampler
@pytest.mark.parametrize("correct_for", ["both", "gain"])
@pytest.mark.parametrize("mix", [0.1, 0.5])
def test_a_uniform_share_reaches_slots_without_need(
    name: str, mix: float, correct_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-9)  # never exhaustively
    sampler = MAKERS[name](uniform_mix=mix, correct_for=correct_for, need_alpha=1.0)
    sampler.allocate(len(STATES))
    fill(sampler, PRIORITIES, STATES)
    n, expected = len(STATES), exact(1.0)
    rng, counts = stream(2, "mix", name), np.zeros(n)
    shares = []
    for _ in range(BATCHES):
        sampled = sampler.sample(SIZE, rng, NEED)
        counts += np.bincount(sampled.slots, minlength=n)
        if sampled.normalized or correct_for == "gain":
            share = mix
            constant = 1.0 if sampled.normalized else np.nan
        else:  # score_j + c / N up to a constant, with some share near the one wanted
            rest = sampled.probabilities[expected[sampled.slots] == 0.0]
            some = np.flatnonzero(expected[sampled.slots] > 0.0)[0]
            if not len(rest):
                continue
            assert np.ptp(rest) < 1e-12 * rest[0]
            by_need = sampled.probabilities[some] - rest[0]
            ratio = rest[0] * n * expected[sampled.slots[some]] / by_need
            share = ratio / (1.0 + ratio)
            constant = rest[0] * n / share
        shares.append(share)
        wanted = constant * ((1 - share) * expected + share / n)
        np.testing.assert_allclose(sampled.probabilities, wanted[sampled.slots], rtol=1e-9)
        if correct_for == "gain":
            by_priority = PRIORITIES**0.6 / (PRIORITIES**0.6).sum()
            corrected = ((1 - mix) * by_priority + mix / n)[sampled.slots]
            np.testing.assert_allclose(sampled.corrected, corrected, rtol=1e-12)
        else:
            assert sampled.corrected is None
    share = float(np.mean(shares))
    assert abs(share - mix) < (1e-12 if name != "features" else 0.2 * mix)
    assert (counts > 0).all()
    if name != "features":  # there the share varies a little with the batch
        wanted = ((1 - share) * expected + share / n) * counts.sum()
        assert chisquare(counts, wanted).pvalue > 1e-4


def test_a_share_of_rejected_candidates_is_sampled_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the estimated rate held fixed, c is fixed, and so is the distribution."""
    monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-9)  # never exhaustively
    sampler = made("features", uniform_mix=0.3, need_alpha=1.0, correct_for="both")
    sampler.allocate(len(STATES))
    fill(sampler, PRIORITIES, STATES)
    rng, counts = stream(3, "mix"), np.zeros(len(STATES))
    sampler.sample(1, rng, NEED)
    share = sampler._kernel.bound * 0.25 * 0.3 / 0.7
    scores = PRIORITIES**0.6 * NEED[STATES] / np.linalg.norm(NEED) + share / len(STATES)
    for _ in range(BATCHES):
        sampler.arrays()["recent_rates"][:] = 0.25
        sampled = sampler.sample(SIZE, rng, NEED)
        assert not sampled.normalized
        np.testing.assert_allclose(sampled.probabilities, scores[sampled.slots], rtol=1e-6)
        counts += np.bincount(sampled.slots, minlength=len(STATES))
    assert chisquare(counts, scores / scores.sum() * counts.sum()).pvalue > 1e-3


@each_sampler
def test_the_share_is_exact_whatever_the_query_was_before(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries in turn whose total scores differ by a factor of 20."""
    monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-9)  # never exhaustively
    sampler = MAKERS[name](uniform_mix=0.3, need_alpha=1.0, correct_for="gain")
    n = 40
    sampler.allocate(n)
    states = np.array([0] * 39 + [1])
    fill(sampler, np.ones(n), states)
    rng, found = stream(6, "mix", name), []
    for _ in range(2_000):
        sampler.sample(4, rng, np.array([1.0, 0.0, 0.0, 0.0]))
        rare = sampler.sample(4, rng, np.array([0.0, 1.0, 0.0, 0.0]))
        found.append(np.count_nonzero(states[rare.slots] == 0))
    # Slots without need come from the uniform share alone: .3 x 39 / 40 of 8,000.
    expected = 0.3 * 39 / 40
    assert abs(np.sum(found) / 8_000 - expected) < 4 * np.sqrt(expected * (1 - expected) / 8_000)


@each_sampler
def test_a_share_of_1_is_uniform(name: str) -> None:
    sampler = MAKERS[name](uniform_mix=1.0)
    sampler.allocate(len(STATES))
    fill(sampler, PRIORITIES, STATES)
    sampled = sampler.sample(6000, stream(4, "mix", name), NEED)
    np.testing.assert_allclose(sampled.probabilities, 1 / len(STATES), rtol=1e-12)
    assert chisquare(np.bincount(sampled.slots)).pvalue > 1e-3


@each_sampler
@pytest.mark.parametrize("need", [np.zeros(N_STATES), np.array([0.0, 0.0, 1.0, 0.0])])
def test_a_share_where_no_slot_has_need(name: str, need: FloatArray) -> None:
    """Sampled by priority with a uniform share, exactly."""
    sampler = MAKERS[name](uniform_mix=0.25, alpha=1.0)
    sampler.allocate(3)
    fill(sampler, np.array([1.0, 3.0, 0.0]), np.array([0, 1, 0]))
    sampled = sampler.sample(4000, stream(5, "mix", name), need)
    expected = 0.75 * np.array([0.25, 0.75, 0.0]) + 0.25 / 3
    np.testing.assert_allclose(sampled.probabilities, expected[sampled.slots], rtol=1e-12)
    counts = np.bincount(sampled.slots, minlength=3)
    assert chisquare(counts, expected * 4000).pvalue > 1e-3
    sampler.set_priorities(np.arange(3), np.zeros(3))
    with pytest.warns(NeedReplayWarning, match="Every priority"):
        sampled = sampler.sample(10, stream(6, "mix"), need)
    np.testing.assert_allclose(sampled.probabilities, 1 / 3, rtol=1e-12)


@each_sampler
def test_the_window_of_a_share_follows_large_adds(name: str) -> None:
    replay = ReplayBuffer(8, {"x": np.int64}, sampler=MAKERS[name](uniform_mix=0.5))
    replay.add(x=np.arange(3))
    ids = np.array(replay.add(x=np.arange(11)))[-8:]
    replay.check_valid()
    if isinstance(replay.sampler, FeatureNeedSampler):
        replay.set_features(ids, np.eye(N_STATES)[[0] * 7 + [1]])
    else:
        replay.set_states(ids, np.array([0] * 7 + [1]))
    batch = replay.sample(500, need=np.array([0.0, 1.0, 0.0, 0.0]))
    assert set(batch.ids) == set(ids)
