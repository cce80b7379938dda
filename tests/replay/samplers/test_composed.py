"""Draws that are made of a draw by gain: resampled candidates, and magnitude."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.exhaustive import ExhaustiveNeedSampler
from needreplay.replay.samplers.magnitude import NeedScalingSampler
from needreplay.replay.samplers.resampled import ResampledSampler

N = 40
SLOTS = np.arange(N)
RNG = stream(0, "composed")
GAIN = RNG.random(N)
STATES = RNG.integers(0, 4, N)
NEED = np.array([1.0, 0.0, 3.0, -2.0])


def by_gain() -> ExhaustiveNeedSampler:
    return ExhaustiveNeedSampler(need_alpha=0.0)


def told(sampler: ResampledSampler | NeedScalingSampler | ExhaustiveNeedSampler) -> None:
    sampler.allocate(N)
    sampler.set_state(SLOTS, STATES)
    sampler.set_priorities(SLOTS, GAIN)
    sampler.check_valid()


def test_resampling_comes_near_the_sweep_with_many_candidates() -> None:
    sampler = ResampledSampler(by_gain(), n_states=4, candidates_per_slot=500)
    exact = ExhaustiveNeedSampler(n_states=4)
    told(sampler)
    told(exact)
    expected = exact.probabilities(NEED)
    rng = stream(1, "composed")
    drawn = [sampler.sample(4, rng, NEED) for _ in range(2000)]
    counts = np.bincount(np.concatenate([batch.slots for batch in drawn]), minlength=N)
    assert counts[expected == 0].sum() == 0
    likely = expected > 0
    assert chisquare(counts[likely], expected[likely] * counts.sum()).pvalue > 0.01
    for batch in drawn[:5]:
        assert not batch.normalised
        ratio = batch.probabilities / expected[batch.slots]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_resampling_at_need_exponent_0_makes_the_very_draws_of_gain() -> None:
    sampler = ResampledSampler(by_gain(), n_states=4, need_alpha=0.0)
    told(sampler)
    plain = by_gain()
    plain.allocate(N)
    plain.set_priorities(SLOTS, GAIN)
    a, b = sampler.sample(100, stream(2, "u"), NEED), plain.sample(100, stream(2, "u"))
    np.testing.assert_array_equal(a.slots, b.slots)
    np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert a.normalised


def test_resampling_without_any_need_keeps_what_gain_drew() -> None:
    sampler = ResampledSampler(by_gain(), n_states=4)
    told(sampler)
    drawn = sampler.sample(20_000, stream(3, "u"), np.zeros(4))
    expected = GAIN**0.6 / (GAIN**0.6).sum()
    np.testing.assert_allclose(drawn.probabilities, expected[drawn.slots])
    assert drawn.normalised
    assert chisquare(np.bincount(drawn.slots, minlength=N), expected * 20_000).pvalue > 0.01
    assert sampler.fallbacks == (0, 20_000, 0, 0)


def test_magnitude_draws_by_gain_and_answers_with_need() -> None:
    sampler = NeedScalingSampler(by_gain(), n_states=4)
    told(sampler)
    plain = by_gain()
    plain.allocate(N)
    plain.set_priorities(SLOTS, GAIN)
    a, b = sampler.sample(100, stream(4, "u"), NEED), plain.sample(100, stream(4, "u"))
    np.testing.assert_array_equal(a.slots, b.slots)
    np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert a.factors is not None
    np.testing.assert_array_equal(a.factors, NEED[STATES[a.slots]])


def test_features_and_forgetting_are_passed_on() -> None:
    for sampler in (
        ResampledSampler(by_gain(), n_features=2, need_alpha=1.0),
        NeedScalingSampler(by_gain(), n_features=2),
    ):
        sampler.allocate(2)
        sampler.set_priorities(np.arange(2), np.ones(2))
        sampler.set_features(np.arange(2), np.array([[1.0, 0.0], [0.0, 2.0]]))
        sampler.place(np.array([0]), np.array([-1]))
        drawn = sampler.sample(50, stream(5, "u"), np.array([4.0, 4.0]))
        if drawn.factors is None:
            assert set(drawn.slots) == {1}
        else:
            np.testing.assert_array_equal(drawn.factors, np.where(drawn.slots == 1, 2.0, 0.0))


def test_checkpoints_hold_both_parts() -> None:
    for sampler in (
        ResampledSampler(by_gain(), n_states=4),
        NeedScalingSampler(by_gain(), n_states=4),
    ):
        told(sampler)
        arrays = sampler.arrays()
        np.testing.assert_array_equal(arrays["by_gain.mass"], GAIN**0.6)
        np.testing.assert_array_equal(arrays["states"], STATES)
        as_draw: Sampler = sampler
        assert as_draw.name in ("resampled", "magnitude")


def test_refusals() -> None:
    with pytest.raises(NeedReplayError, match="candidates_per_slot"):
        ResampledSampler(by_gain(), candidates_per_slot=0)
    with pytest.raises(NeedReplayError, match="need_alpha"):
        ResampledSampler(by_gain(), need_alpha=2.0)
