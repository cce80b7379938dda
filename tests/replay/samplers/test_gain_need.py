"""What the draws by gain and need have in common: raw gains, and masses that stay finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    StateNeedSampler,
    VectorTreeSampler,
)
from needreplay.replay.validation import MAX_PRIORITY

MAKERS: dict[str, Callable[..., Any]] = {
    "grouped": lambda **options: StateNeedSampler(2, **options),
    "sweep": lambda **options: ExhaustiveNeedSampler(n_states=2, **options),
    "vector tree": lambda **options: VectorTreeSampler(2, **options),
    "norm tree": lambda **options: FeatureNeedSampler(2, **options),
}


def made(name: str, **options: Any) -> Any:
    """Three slots of five, each of a state of its own or half of it."""
    sampler = MAKERS[name](**options)
    sampler.allocate(5)
    slots = np.array([0, 2, 3])
    sampler.set_priorities(slots, np.array([1.0, 4.0, 0.25]))
    if hasattr(sampler, "set_features") and name != "sweep":
        sampler.set_features(slots, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    else:
        sampler.set_state(slots, np.array([0, 1, 0]))
    return sampler


@pytest.mark.parametrize("name", MAKERS)
def test_raw_gains_are_kept(name: str) -> None:
    sampler = made(name, alpha=0.5)
    assert sampler.gain.tolist() == [1.0, -1.0, 4.0, 0.25, -1.0]
    assert sampler.gain.dtype == np.float64
    sampler.set_priorities(np.array([2]), np.array([9.0]))
    sampler.clear(np.array([0]))
    assert sampler.gain.tolist() == [-1.0, -1.0, 9.0, 0.25, -1.0]
    sampler.check_valid()


@pytest.mark.parametrize("name", MAKERS)
def test_a_gain_that_is_not_its_mass_is_seen(name: str) -> None:
    sampler = made(name)
    sampler.check_valid()
    sampler.gain[2] = 5.0
    with pytest.raises(NeedReplayError, match="mass is not its gain"):
        sampler.check_valid()


@pytest.mark.parametrize("name", MAKERS)
def test_an_exponent_above_one_is_refused(name: str) -> None:
    with pytest.raises(NeedReplayError, match="alpha is 2"):
        MAKERS[name](alpha=2.0)


@pytest.mark.parametrize("name", MAKERS)
def test_the_largest_gain_leaves_everything_finite(name: str) -> None:
    sampler = made(name, alpha=1.0, need_alpha=1.0)
    sampler.set_priorities(np.array([0, 2, 3]), np.full(3, MAX_PRIORITY))
    drawn = sampler.sample(30, np.random.default_rng(0), np.array([1.0, 1.0]))
    assert np.isfinite(drawn.probabilities).all()
    assert set(drawn.slots) == {0, 2, 3}
    sampler.check_valid()
