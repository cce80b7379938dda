"""The recency sampler against ages counted by hand: overwritten, cleared, and written again."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray
from needreplay.replay import RecencySampler, ReplayBuffer


def make_buffer(capacity: int, *settings: Any, **options: Any) -> ReplayBuffer:
    sampler = RecencySampler(*settings, **options)
    return ReplayBuffer(capacity, {"x": np.int64}, sampler=sampler, seed=2)


def exact(replay: ReplayBuffer, priorities: dict[int, float] | None = None) -> FloatArray:
    """By definition, oldest first: priority^alpha (m / (m + 1))^age, and the uniform share."""
    sampler: Any = replay.sampler
    ids = np.arange(replay.oldest_id, replay.next_id)
    gains = np.array([(priorities or {}).get(id_, 1.0) for id_ in ids.tolist()])
    q = sampler.mean_age / (sampler.mean_age + 1.0)
    masses = gains**sampler.alpha * q ** (ids[-1] - ids)
    mix = sampler.uniform_mix
    probabilities: FloatArray = (1.0 - mix) * masses / masses.sum() + mix / len(ids)
    return probabilities


def said(replay: ReplayBuffer) -> FloatArray:
    """P of each stored transition as the sampler has it, oldest first."""
    sampler: Any = replay.sampler
    slots = np.arange(replay.oldest_id, replay.next_id) % replay.capacity
    masses = sampler.arrays()["tree"]
    mix = sampler.uniform_mix
    probabilities: FloatArray = (1.0 - mix) * masses[slots] / masses[-1] + mix / len(slots)
    return probabilities


def check_samples(replay: ReplayBuffer, expected: FloatArray, size: int = 20_000) -> None:
    batch = replay.sample(size)
    places = batch.ids - replay.oldest_id
    np.testing.assert_allclose(batch.probabilities, expected[places], rtol=1e-10)
    counts = np.bincount(places, minlength=len(expected))
    likely = expected * size >= 5
    observed = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(expected[likely], expected[~likely].sum()) * size
    assert chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-3
    replay.check_valid()


def test_four_transitions_by_hand() -> None:
    """With a mean age of 1 each is half as likely as the next."""
    replay = make_buffer(4, 1)
    replay.add(x=np.arange(4))
    np.testing.assert_allclose(said(replay), np.array([1, 2, 4, 8]) / 15, rtol=1e-14)
    replay.add(x=0)  # overwrites the oldest
    np.testing.assert_allclose(said(replay), np.array([1, 2, 4, 8]) / 15, rtol=1e-14)
    check_samples(replay, np.array([1, 2, 4, 8]) / 15)
    replay.update_priorities([1], [9.0])  # alpha is 0
    np.testing.assert_allclose(said(replay), np.array([1, 2, 4, 8]) / 15, rtol=1e-14)


def test_the_mean_age_of_a_long_buffer() -> None:
    replay = make_buffer(5000, 100)
    replay.add(x=np.arange(5000))
    assert said(replay) @ np.arange(5000)[::-1] == pytest.approx(100.0, rel=1e-9)


@pytest.mark.parametrize("mix", [0.0, 0.25])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("adds", [(7,), (30,), (12, 25, 1, 1), (30, 30, 17), (100,), (5, 64, 3)])
def test_samples_after_batched_adds_and_updates(
    adds: tuple[int, ...], alpha: float, mix: float
) -> None:
    """Up to several times around the buffer, with new priorities in between."""
    replay, rng = make_buffer(30, 6.0, alpha=alpha, uniform_mix=mix), stream(1, "recency", *adds)
    priorities: dict[int, float] = {}
    for count in adds:
        largest = max(1.0, *priorities.values(), 1.0)
        priorities |= dict.fromkeys(replay.add(x=np.arange(count)), largest)
        some = rng.choice(np.arange(replay.oldest_id, replay.next_id), len(replay) // 2 + 1)
        chosen = {int(id_): float(rng.random()) for id_ in some}
        replay.update_priorities(list(chosen), list(chosen.values()))
        priorities |= chosen
    np.testing.assert_allclose(said(replay), exact(replay, priorities), rtol=1e-12)
    check_samples(replay, exact(replay, priorities))


@pytest.mark.parametrize(("mean_age", "capacity"), [(0.2, 20), (2.0, 50), (0.5, 7), (40.0, 300)])
def test_many_adds_write_the_leaves_again_and_stay_exact(mean_age: float, capacity: int) -> None:
    replay, rng = make_buffer(capacity, mean_age, alpha=1.0), stream(2, "recency")
    clock = replay.arrays()["sampler/clock"]
    rewritten, before = 0, 0
    for _ in range(400):
        replay.add(x=np.arange(int(rng.integers(1, 3 * capacity))))
        rewritten += int(clock[1] < before)
        before = int(clock[1])
        np.testing.assert_allclose(said(replay), exact(replay), rtol=1e-10)
        assert 1e-200 <= replay.arrays()["sampler/tree"][-1] <= 1e200
    replay.check_valid()
    assert rewritten > 3
    check_samples(replay, exact(replay))


@pytest.mark.parametrize("capacity", [1, 2, 5, 9])
def test_ages_after_clears(capacity: int) -> None:
    """The oldest are cleared, as frame stacks do, and slots are filled again."""
    rng, sampler = stream(3, "recency", capacity), RecencySampler(2.0)
    sampler.allocate(capacity)
    oldest, end = 0, 0
    for _ in range(300):
        if rng.random() < 0.4 and oldest < end:
            count = int(rng.integers(1, end - oldest + 1))
            sampler.clear(np.arange(oldest, oldest + count) % capacity)
            oldest += count
        else:
            slot = np.array([end % capacity])
            sampler.place(slot, np.array([-1]))
            sampler.set_priorities(slot, np.ones(1))
            end += 1
            oldest = max(oldest, end - capacity)
        sampler.check_valid()
        expected = np.zeros(capacity)
        stored = np.arange(oldest, end)
        expected[stored % capacity] = (2 / 3) ** (end - 1.0 - stored)
        tree = sampler.arrays()["tree"]
        if len(stored):
            found = tree[:capacity] / tree[-1]
            np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)


def test_priorities_of_any_size_keep_their_shares() -> None:
    """Only what is 1e300 times less likely than the rest may be lost."""
    replay = make_buffer(3, 1.0, alpha=1.0)
    replay.add(x=np.arange(3))
    for scale in (1e100, 1e-99, 1e100):
        replay.update_priorities(range(3), np.array([1.0, 0.5, 0.25]) * scale)
        np.testing.assert_allclose(said(replay), 1 / 3, rtol=1e-12)
        replay.check_valid()
    replay.update_priorities(range(3), [1e-100, 1e-100, 1e100])
    np.testing.assert_allclose(said(replay)[2], 1.0, rtol=1e-12)
    replay.update_priorities([2], [0.0])
    np.testing.assert_allclose(said(replay), [1 / 3, 2 / 3, 0.0], rtol=1e-12)


def test_old_transitions_are_found_where_newer_ones_have_no_priority() -> None:
    """Their weights are far below the smallest float, until the leaves are written again."""
    replay = make_buffer(20_000, 1.0, alpha=0.5)
    replay.add(x=np.arange(20_000))
    replay.update_priorities(np.arange(20_000), np.r_[4.0, 1.0, np.zeros(19_998)])
    assert set(replay.sample(100).ids) == {0, 1}
    np.testing.assert_allclose(said(replay)[:3], [0.5, 0.5, 0.0], rtol=1e-9)
    replay.update_priorities([19_999], [1.0])
    assert set(replay.sample(100).ids) == {19_999}
    assert replay.sampler.fallbacks == 0  # type: ignore[attr-defined]
    replay.check_valid()


def test_a_clear_leaves_a_transition_whose_leaf_was_too_small() -> None:
    """By hand: beside 1e100 / 2^899 the next, 1e-100 / 2^898, is 0 until the leaves are written."""
    sampler = RecencySampler(1.0, alpha=1.0)
    sampler.allocate(900)
    sampler.set_priorities(np.arange(900), np.ones(900))
    sampler.set_priorities(np.arange(900), np.r_[1e100, 1e-100, np.zeros(898)])
    assert set(sampler.sample(20, stream(4, "recency")).slots) == {0}
    sampler.clear(np.array([0]))
    assert set(sampler.sample(20, stream(5, "recency")).slots) == {1}
    assert sampler.fallbacks == 0
    sampler.check_valid()


def test_a_long_mean_age_is_uniform_and_a_short_one_the_newest() -> None:
    replay = make_buffer(50, 1e100)
    replay.add(x=np.arange(70))
    np.testing.assert_allclose(said(replay), 1 / 50, rtol=1e-12)
    replay = make_buffer(50, 1e-100)
    for _ in range(70):
        replay.add(x=0)
        assert set(replay.sample(20).ids) == {replay.next_id - 1}
    replay.check_valid()


@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_saved_loaded_and_pickled_buffers_go_on_alike(mix: float, tmp_path: Path) -> None:
    """Bit for bit, also when the leaves are written again later."""
    old = make_buffer(30, 1.5, alpha=0.4, uniform_mix=mix)
    old.add(x=np.arange(20))
    for _ in range(40):
        old.add(x=np.arange(7))
    old.update_priorities(old.sample(9).ids, np.linspace(0.1, 3.0, 9))
    old.save(tmp_path / "buffer")
    loaded = make_buffer(30, 1.5, alpha=0.4, uniform_mix=mix)
    loaded.load(tmp_path / "buffer")
    pickled = pickle.loads(pickle.dumps(old))
    for _ in range(200):
        batches = []
        for replay in (old, loaded, pickled):
            replay.add(x=np.arange(3))
            batches.append(replay.sample(5))
            replay.update_priorities(batches[-1].ids, np.arange(5.0))
        for batch in batches[1:]:
            np.testing.assert_array_equal(batch.ids, batches[0].ids)
            np.testing.assert_array_equal(batch.weights, batches[0].weights)
    for replay in (loaded, pickled):
        for name, array in old.arrays().items():
            np.testing.assert_array_equal(replay.arrays()[name], array)
    other = make_buffer(30, 1.6, alpha=0.4, uniform_mix=mix)
    with pytest.raises(NeedReplayError, match="mean_age"):
        other.load(tmp_path / "buffer")


@pytest.mark.parametrize(
    ("array", "place", "value", "message"),
    [
        ("clock", 0, 4, "clock"),
        ("clock", 0, -1, "clock"),
        ("clock", 1, -1, "clock"),
        ("base", 0, np.nan, "clock"),
        ("clock", 0, 1, "not the last"),
        ("clock", 1, 7, "leaf"),
        ("base", 0, 0.1, "leaf"),
        ("priorities", 1, 2.0, "power"),
        ("gains", 1, 2.0, "children"),
    ],
)
def test_check_valid_sees_what_contradicts_itself(
    array: str, place: int, value: float, message: str
) -> None:
    sampler = RecencySampler(2.0, alpha=1.0)
    sampler.allocate(4)
    sampler.set_priorities(np.arange(3), np.ones(3))
    sampler.check_valid()
    sampler.arrays()[array][place] = value
    with pytest.raises(NeedReplayError, match=message):
        sampler.check_valid()


@pytest.mark.parametrize("mix", [0.0, 0.25])
def test_weights_correct_for_gain_alone_unless_asked(mix: float) -> None:
    """As for need: with "gain", weights are PER's of the same priorities and share."""
    rng = np.random.default_rng(0)
    priorities = rng.uniform(0.1, 2.0, 60)
    for correct_for in ("gain", "both"):
        sampler = RecencySampler(5.0, alpha=0.6, correct_for=correct_for, uniform_mix=mix)
        replay = ReplayBuffer(50, {"x": np.int64}, sampler=sampler, seed=1)
        replay.update_priorities(replay.add(x=np.arange(60)), priorities)
        batch = replay.sample(200, beta=1.0)
        stored = priorities[10:] ** 0.6
        ages = np.arange(49, -1, -1)
        recent = stored * (5.0 / 6.0) ** ages if correct_for == "both" else stored
        p = (1.0 - mix) * recent / recent.sum() + mix / 50
        expected = 1.0 / p[batch.ids - 10]
        np.testing.assert_allclose(batch.weights, expected / expected.max(), rtol=1e-9)
        both = stored * (5.0 / 6.0) ** ages
        exact = (1.0 - mix) * both / both.sum() + mix / 50
        np.testing.assert_allclose(batch.probabilities, exact[batch.ids - 10], rtol=1e-9)
        replay.check_valid()
    with pytest.raises(NeedReplayError, match="correct_for"):
        RecencySampler(5.0, correct_for="need")  # type: ignore[arg-type]
