"""The buffer with need samplers: set by id, forgotten when overwritten, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray
from needreplay.replay import ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler
from needreplay.replay.samplers.base import Sampler

CAPACITY = 40


def make_buffer(sampler: Sampler) -> ReplayBuffer:
    return ReplayBuffer(CAPACITY, {"x": np.float32}, sampler=sampler, seed=3)


def fill(replay: ReplayBuffer, count: int, *, states: bool) -> FloatArray:
    """``count`` transitions with a state or features each; returns their priorities."""
    rng = stream(count, "replay need")
    ids = np.array(replay.add(x=rng.random(count).astype(np.float32)))
    if states:
        replay.set_states(ids, rng.integers(0, 3, count))
    else:
        replay.set_features(ids, np.abs(rng.standard_normal((count, 4))))
    gain = rng.random(count)
    replay.update_priorities(ids, gain)
    replay.check_valid()
    return gain


@pytest.mark.parametrize(
    "make",
    [lambda **k: StateNeedSampler(3, **k), lambda **k: ExhaustiveNeedSampler(n_states=3, **k)],
)
def test_an_overwritten_transition_has_no_state_until_set(make: Callable[..., Sampler]) -> None:
    replay = make_buffer(make(alpha=1.0, need_alpha=1.0))
    fill(replay, CAPACITY, states=True)
    replay.set_states(np.arange(CAPACITY), np.zeros(CAPACITY, dtype=np.int64))
    new = replay.add(x=np.zeros(CAPACITY - 1, dtype=np.float32))
    batch = replay.sample(20, need=np.array([1.0, 0.0, 0.0]))
    assert set(batch.ids) == {CAPACITY - 1}
    replay.set_states(np.array([new[0]]), np.array([2]))
    assert set(replay.sample(20, need=np.array([0.0, 0.0, 1.0])).ids) == {new[0]}
    replay.check_valid()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FeatureNeedSampler(4),
        lambda: FeatureNeedSampler(4, need_alpha=1.0, backward=True, correct_for="gain"),
        lambda: ExhaustiveNeedSampler(n_features=4),
    ],
)
def test_a_loaded_buffer_takes_the_same_samples(
    make: Callable[[], Sampler], tmp_path: Path
) -> None:
    need = stream(5, "need").random(4)
    old, new = make_buffer(make()), make_buffer(make())
    fill(old, 70, states=False)
    old.sample(8, need=need)
    old.update_priorities(np.arange(60, 70), np.full(10, 0.3))
    old.save(tmp_path / "buffer")
    new.load(tmp_path / "buffer")
    for _ in range(3):
        a, b = old.sample(8, need=need), new.sample(8, need=need)
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.weights, b.weights)
    new.check_valid()


@pytest.mark.parametrize(
    ("make", "states"),
    [
        (partial(FeatureNeedSampler, 4), False),
        (partial(ExhaustiveNeedSampler, n_features=4), False),
        (partial(ExhaustiveNeedSampler, n_states=4), True),
        (partial(StateNeedSampler, 4), True),
    ],
)
def test_weights_correct_for_both_or_for_gain_alone(
    make: Callable[..., Sampler], states: bool
) -> None:
    batches = []
    for correct_for in ("both", "gain"):
        replay = make_buffer(make(need_alpha=1.0, alpha=1.0, correct_for=correct_for))
        gains = fill(replay, CAPACITY, states=states)
        batches.append(replay.sample(16, need=np.arange(1.0, 5.0), beta=1.0))
    both, gain = batches
    np.testing.assert_array_equal(both.ids, gain.ids)
    got = gains[gain.ids]
    np.testing.assert_allclose(gain.weights, got.min() / got)
    np.testing.assert_allclose(both.weights, both.probabilities.min() / both.probabilities)
    assert not np.allclose(both.weights, gain.weights)


def test_reductions_to_prioritized_and_to_uniform_replay() -> None:
    plain, uniform = (
        make_buffer(ProportionalSampler(stratified=False)),
        make_buffer(UniformSampler()),
    )
    for replay in (plain, uniform):
        rng = stream(70, "replay need")
        ids = np.array(replay.add(x=rng.random(70).astype(np.float32)))
        rng.standard_normal((70, 4))
        replay.update_priorities(ids, rng.random(70))
    for peer, alpha in ((plain, 0.6), (uniform, 0.0)):
        for sampler in (
            FeatureNeedSampler(4, alpha=alpha, need_alpha=0.0),
            ExhaustiveNeedSampler(n_features=4, alpha=alpha, need_alpha=0.0),
        ):
            replay = make_buffer(sampler)
            fill(replay, 70, states=False)
            ours = replay.sample(64, need=np.ones(4))
            np.testing.assert_array_equal(ours.ids, peer.sample(64).ids)
            peer._contents.rng = stream(3, "replay", "draws")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FeatureNeedSampler(2),
        lambda: ExhaustiveNeedSampler(n_features=2),
    ],
)
def test_transitions_are_read_by_id_and_refreshed_in_turn(make: Callable[[], Sampler]) -> None:
    replay = ReplayBuffer(8, {"x": np.int64}, sampler=make())
    replay.add(x=np.arange(13))
    assert replay.read([5, 12, 9, 9])["x"].tolist() == [5, 12, 9, 9]
    assert replay.read([])["x"].tolist() == []
    for gone in ([4, 6], [13], [-1]):
        with pytest.raises(NeedReplayError, match="are stored"):
            replay.read(gone)
    assert replay.next_to_refresh(3).tolist() == []
    replay.set_features(range(6, 13), np.ones((7, 2)))
    turns = [replay.next_to_refresh(3).tolist() for _ in range(3)]
    # Slots 0 to 7 hold ids 8 to 12 and 5 to 7; id 5 was never set.
    assert turns == [[8, 9, 10], [11, 12, 6], [7, 8, 9]]
    assert replay.next_to_refresh(0).tolist() == []
    assert replay.next_to_refresh(10**30).tolist() == [10, 11, 12, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "make", [lambda: FeatureNeedSampler(4), lambda: ExhaustiveNeedSampler(n_features=4)]
)
def test_features_of_an_empty_slot_are_damage(make: Callable[[], Sampler]) -> None:
    """They would be due for a refresh, with an id that does not exist."""
    replay = make_buffer(make())
    fill(replay, CAPACITY // 2, states=False)
    replay.check_valid()
    replay.arrays()["sampler/set_at"][-1] = 0
    with pytest.raises(NeedReplayError, match="not in use has features"):
        replay.check_valid()
