"""The range of numbers that is promised: exact inside it, rejected outside."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay.replay import ProportionalSampler, PSERSampler, RankSampler, ReplayBuffer
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler

ONE_HOT = np.eye(4)
NEED: dict[str, Any] = {
    "state": lambda **options: StateNeedSampler(4, **options),
    "exhaustive by state": lambda **options: ExhaustiveNeedSampler(n_states=4, **options),
    "exhaustive by features": lambda **options: ExhaustiveNeedSampler(n_features=4, **options),
    "features": lambda **options: FeatureNeedSampler(4, **options),
}


def filled(sampler: Any, states: list[int], priorities: Any, **options: Any) -> ReplayBuffer:
    """One transition of each of ``states``, by state or by its one-hot features."""
    replay = ReplayBuffer(len(states), {"x": np.int8}, sampler=sampler, **options)
    ids = np.array(replay.add(x=np.zeros(len(states), np.int8)))
    if getattr(sampler, "n_states", None):
        replay.set_states(ids, states)
    if getattr(sampler, "n_features", None):
        replay.set_features(ids, ONE_HOT[states])
    replay.update_priorities(ids, priorities)
    return replay


@pytest.mark.parametrize("bad", [5e-324, 1e-101, 2e-100 / 3, 1.1e100, 1e200, np.inf, np.nan, -1.0])
@pytest.mark.parametrize("make", [ProportionalSampler, RankSampler, PSERSampler])
def test_priorities_outside_the_range_are_rejected(bad: float, make: Any) -> None:
    replay = ReplayBuffer(3, {"x": np.int8}, sampler=make())
    replay.add(x=np.zeros(3, np.int8))
    for priorities in (np.array([1.0, bad]), [1.0, bad]):
        with pytest.raises(NeedReplayError, match="must be 0, or a number from 1e-100 to 1e"):
            replay.update_priorities(np.arange(2), priorities)
    replay.update_priorities(np.arange(3), np.array([1e-100, 0.0, 1e100]))
    replay.check_valid()


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e99])
def test_proportions_do_not_depend_on_the_scale(scale: float) -> None:
    """Denormal priorities were sampled with a bias, and their weights were NaN."""
    sampler = ProportionalSampler(1.0, stratified=False)
    replay = ReplayBuffer(4, {"x": np.int8}, sampler=sampler, beta=1.0)
    replay.add(x=np.zeros(4, np.int8))
    replay.update_priorities(np.arange(4), scale * np.array([1.0, 2.0, 3.0, 4.0]))
    batch = replay.sample(20_000)
    counts = np.bincount(batch.ids, minlength=4) / len(batch)
    np.testing.assert_allclose(counts, [0.1, 0.2, 0.3, 0.4], atol=0.015)
    np.testing.assert_allclose(batch.probabilities, (batch.ids + 1) / 10, rtol=1e-12)
    np.testing.assert_allclose(batch.weights, 1 / (batch.ids + 1), rtol=1e-12)


def test_the_whole_range_in_one_buffer() -> None:
    replay = ReplayBuffer(2, {"x": np.int8}, sampler=ProportionalSampler(1.0, uniform_mix=0.5))
    replay.add(x=np.zeros(2, np.int8))
    replay.update_priorities([0, 1], [1e-100, 1e100])
    batch = replay.sample(50, beta=1.0)
    assert set(batch.ids) == {0, 1}
    np.testing.assert_allclose(batch.probabilities, np.array([0.25, 0.75])[batch.ids], rtol=1e-12)


@pytest.mark.parametrize("name", NEED)
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e99])
@pytest.mark.parametrize("need_alpha", [0.5, 1.0, 2.0])
def test_need_of_any_scale(name: str, scale: float, need_alpha: float) -> None:
    """State 3 is in no slot, and has the largest need by far."""
    sampler = NEED[name](alpha=1.0, need_alpha=need_alpha, correct_for="both")
    replay = filled(sampler, [0, 1, 2], [1e-100, 2e-100, 3e-100])
    for far in (1.0, 1e-60):
        need = scale * np.array([1.0 * far, 2.0 * far, 0.0, 1.0])
        batch = replay.sample(200, need=need)
        scores = np.array([1.0, 2.0 * 2.0**need_alpha])
        assert set(batch.ids) == {0, 1}
        np.testing.assert_allclose(
            batch.probabilities / batch.probabilities[0],
            scores[batch.ids] / scores[batch.ids[0]],
            rtol=1e-9,
        )
        smallest = scores[batch.ids].min()
        np.testing.assert_allclose(batch.weights, (smallest / scores[batch.ids]) ** 0.4, rtol=1e-9)
        assert sampler.fallbacks.by_priority == 0


@pytest.mark.parametrize("name", NEED)
def test_a_slot_that_cannot_be_sampled_does_not_set_the_scale(name: str) -> None:
    """The largest need is of a priority of 0; at need_alpha 4 the others' scores were lost."""
    sampler = NEED[name](need_alpha=4.0)
    replay = filled(sampler, [0, 1, 2, 3], [0.0, 1.0, 1.0, 1.0])
    batch = replay.sample(50, need=np.array([1.0, 1e-90, 0.0, 0.0]))
    assert set(batch.ids) == {1}
    assert np.isfinite(batch.weights).all()


@pytest.mark.parametrize("name", NEED)
@pytest.mark.parametrize("bad", [1e300, 1e101, 1e-101, 5e-324, np.inf, np.nan])
def test_need_outside_the_range_is_rejected(name: str, bad: float) -> None:
    replay = filled(NEED[name](), [0, 1], [1.0, 1.0])
    with pytest.raises(NeedReplayError, match=r"need is .* where it is largest"):
        replay.sample(3, need=np.array([bad, 0.0, 0.0, 0.0]))
    batch = replay.sample(3, need=np.array([1e-300, 1e100, 0.0, 0.0]))  # small entries are fine
    assert np.isfinite(batch.weights).all()


@pytest.mark.parametrize(
    ("backward", "large", "small"),
    [(False, 1e-38, 1e38), (True, 1e38, 1e-38), (True, np.inf, 5e-324)],
)
def test_features_beyond_the_range_are_rejected_and_below_it_are_0(
    backward: bool, large: float, small: float
) -> None:
    samplers = [
        FeatureNeedSampler(2, backward=backward),
        ExhaustiveNeedSampler(n_features=2, backward=backward),
    ]
    sampler: Any
    for sampler in samplers:
        replay = ReplayBuffer(2, {"x": np.int8}, sampler=sampler)
        replay.add(x=np.zeros(2, np.int8))
        with pytest.raises(NeedReplayError, match="features holds NaN or infinity"):
            replay.set_features([0, 1], [[1.0, 0.0], [large, 0.0]])
        replay.set_features([0, 1], [[1e36, 0.0], [1e-36, 1e-300]])
        replay.check_valid()
        assert sampler.features.vectors[:, 0].all()
        replay.set_features([0, 1], [[1e36, 0.0], [small, 0.0]])
        assert not sampler.features.vectors[1].any()
        replay.check_valid()


def test_pser_lets_no_priority_fall_below_the_range() -> None:
    replay = ReplayBuffer(1, {"x": np.int8}, sampler=PSERSampler(retained=0.5))
    replay.add(x=np.int8(0))
    for _ in range(400):
        replay.update_priorities([0], [0.0])
    assert replay.sampler.priorities[0] == 0.0  # type: ignore[attr-defined]
    replay.check_valid()


@pytest.mark.parametrize("name", NEED)
def test_a_need_sampler_without_states_or_features_warns_once(name: str) -> None:
    replay = ReplayBuffer(3, {"x": np.int8}, sampler=NEED[name]())
    replay.add(x=np.zeros(3, np.int8))
    with pytest.warns(NeedReplayWarning, match="has a state or features, so every need is 0"):
        replay.sample(2, need=np.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replay.sample(2, need=np.ones(4))


@pytest.mark.parametrize("name", NEED)
def test_need_that_is_0_does_not_warn(name: str) -> None:
    replay = filled(NEED[name](), [0, 1], [1.0, 1.0])
    replay.sample(2, need=np.array([0.0, 0.0, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.float32, 1e300),
        (np.float32, np.float64(-1e39)),
        (np.float32, np.full(1, 1e300)),
        (np.float16, 70000),
        (np.float16, np.float32(1e6)),
        (np.complex64, 1e300j),
    ],
)
def test_a_number_beyond_the_dtype_of_its_column_is_rejected(dtype: Any, value: Any) -> None:
    """It would be stored as infinity."""
    buffer = ReplayBuffer(4, {"x": dtype, "y": (dtype, (2,))})
    with pytest.raises(NeedReplayError, match=f"x has .* beyond the largest {np.dtype(dtype)}"):
        buffer.add(x=value, y=np.zeros(2, dtype))
    with pytest.raises(NeedReplayError, match="y has"):
        buffer.add(x=np.zeros((), dtype), y=[0, np.ravel(value)[0]])
    assert len(buffer) == 0
    buffer.add(x=np.inf, y=np.full(2, np.inf))  # infinity itself is one's own
    assert np.isinf(buffer.read([0])["x"]).all()


def test_powers_of_need_that_leave_floating_point_are_rejected() -> None:
    """They took for ever, or were 0 without a word."""
    for need_alpha in (150.0, 200.0):
        with pytest.raises(NeedReplayError, match=f"need_alpha is {need_alpha:g}: .* overflows"):
            FeatureNeedSampler(512, need_alpha=need_alpha)
    sampler = FeatureNeedSampler(8, need_alpha=50.0, raw=True)
    buffer = ReplayBuffer(3, {"x": np.int64}, sampler=sampler)
    ids = buffer.add(x=np.arange(3))
    buffer.set_features(ids, np.eye(3, 8) * [[0.01], [0.99], [1.0]] + 1e-9)
    assert (sampler.features.vectors.max(axis=1) > 0.0).all()
    for size in (1e-5, 1e3):
        with pytest.raises(NeedReplayError, match=r"below 0\.001 or beyond 354"):
            buffer.set_features(ids[:1], np.full((1, 8), size))
    need = np.zeros(8)
    need[:3] = 1.0
    share = (buffer.sample(20_000, need=need).ids == 1).mean()
    exact = 0.99**50 / (1.0 + 0.99**50)
    assert abs(share - exact) < 4.0 * (exact * (1.0 - exact) / 20_000) ** 0.5


def test_an_exponent_of_any_floating_type() -> None:
    """float32 cannot be compared with the largest float64 without a warning."""
    kinds: tuple[Any, ...] = np.float16, np.float32, np.float64
    for kind in kinds:
        need_alpha = FeatureNeedSampler(2, need_alpha=kind(6)).need_alpha
        assert need_alpha == 6.0
        assert type(need_alpha) is float
