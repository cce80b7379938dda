"""The buffer: what it takes, what it returns, and what it rejects."""

from __future__ import annotations

import os
import tracemalloc
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray
from needreplay.replay import (
    Batch,
    Episodes,
    LinearBeta,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers.base import Sampled

COLUMNS = {"obs": (np.float32, 3), "action": np.int64, "flag": np.bool_}


def item(i: int) -> dict[str, Any]:
    return {"obs": np.full(3, i, dtype=np.float32), "action": i, "flag": i % 2 == 0}


def make_buffer(capacity: int = 10, count: int = 10, **options: Any) -> ReplayBuffer:
    replay = ReplayBuffer(capacity, COLUMNS, **options)
    for i in range(count):
        replay.add(**item(i))
    return replay


def gains(replay: ReplayBuffer) -> dict[int, float]:
    sampler = replay.sampler
    assert isinstance(sampler, ProportionalSampler)
    ids = range(replay.oldest_id, replay.next_id)
    return {i: float(sampler.priorities[i % replay.capacity]) for i in ids}


def test_a_batch_holds_what_was_added() -> None:
    batch = make_buffer().sample(50)
    assert isinstance(batch, Batch)
    assert len(batch) == 50
    assert list(batch.keys()) == ["obs", "action", "flag"]
    np.testing.assert_array_equal(batch["action"], batch.ids)
    np.testing.assert_array_equal(batch["obs"], np.repeat(batch.ids[:, None], 3, axis=1))
    np.testing.assert_array_equal(batch["flag"], batch.ids % 2 == 0)
    assert batch["obs"].dtype == np.float32
    assert batch["flag"].dtype == np.bool_
    for column in ("obs", "action", "flag"):
        assert batch[column].flags.c_contiguous
        assert batch[column].flags.writeable


def test_a_batch_is_a_copy() -> None:
    replay = make_buffer()
    replay.sample(20)["obs"][:] = -1.0
    assert np.all(replay.sample(20)["obs"] >= 0)


def test_ids_go_on_where_slots_repeat() -> None:
    replay = make_buffer(capacity=4, count=11)
    assert len(replay) == 4
    assert (replay.oldest_id, replay.next_id) == (7, 11)
    batch = replay.sample(64)
    assert set(batch.ids) == {7, 8, 9, 10}
    np.testing.assert_array_equal(batch["action"], batch.ids)


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    one, many = make_buffer(7, 20), ReplayBuffer(7, COLUMNS)
    assert many.add(
        obs=np.repeat(np.arange(20.0)[:, None], 3, axis=1),
        action=np.arange(20),
        flag=np.arange(20) % 2 == 0,
    ) == range(20)
    many.check_valid()
    a, b = one.sample(40), many.sample(40)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a["obs"], b["obs"])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "f2", "f4", "f8", "c16", "?", "M8[s]", "U3"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (4, 40)])
def test_any_dtype_and_shape_comes_back(dtype: str, shape: tuple[int, ...]) -> None:
    values = stream(0, dtype, len(shape)).integers(0, 99, size=(9, *shape)).astype(dtype)
    replay = ReplayBuffer(9, {"odd": np.uint8, "x": (dtype, shape), "tail": "i1"})
    replay.add(odd=np.arange(9, dtype=np.uint8), x=values, tail=np.arange(9, dtype=np.int8))
    batch = replay.sample(30)
    np.testing.assert_array_equal(batch["x"], values[batch.ids])
    np.testing.assert_array_equal(batch["odd"], batch.ids)
    np.testing.assert_array_equal(batch["tail"], batch.ids)


def test_spaces_of_an_environment() -> None:
    space = gym.spaces.Dict({"place": gym.spaces.Box(-1, 1, (2,)), "mode": gym.spaces.Discrete(3)})
    replay = ReplayBuffer.for_spaces(
        space, gym.spaces.MultiDiscrete([2, 3]), capacity=50, n_step=2, discount=0.5,
        extra_columns={"log_prob": np.float32}, sampler=UniformSampler(),
    )  # fmt: skip
    space.seed(0)
    seen = [space.sample() for _ in range(20)]
    for t in range(19):
        replay.add(
            obs=seen[t], action=np.array([1, 2]), reward=1.0, next_obs=seen[t + 1],
            terminated=False, truncated=False, log_prob=-0.5 * t,
        )  # fmt: skip
    batch = replay.sample(30)
    for i, ident in enumerate(batch.ids):
        np.testing.assert_array_equal(batch["obs"]["place"][i], seen[ident]["place"])
        assert batch["next_obs"]["mode"][i] == seen[ident + 2]["mode"]
        assert batch["log_prob"][i] == -0.5 * ident
    np.testing.assert_array_equal(batch["reward"], 1.5)
    np.testing.assert_array_equal(batch["discount"], 0.25)
    assert batch["action"].shape == (30, 2)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"obs": np.zeros(3), "action": 1}, "flag missing"),
        ({**item(0), "done": True}, "done unknown"),
        ({**item(0), "obs": np.zeros(4)}, "obs has shape"),
        ({**item(0), "obs": 1.0}, "obs has shape"),
        ({**item(0), "action": 1.5}, "action is float64"),
        ({**item(0), "action": np.array([1, 2])}, "action has shape"),
        ({**item(0), "flag": 3}, "flag is int64"),
        ({**item(0), "flag": "yes"}, "flag is"),
        ({**item(0), "action": 2**70}, "action is"),
        ({**item(0), "obs": [[1, 2], [3]]}, "obs cannot be read"),
        ({"obs": np.zeros((2, 3)), "action": np.zeros(3, int), "flag": np.ones(2, bool)}, "shape"),
    ],
)
def test_what_add_rejects(values: dict[str, Any], said: str) -> None:
    replay = make_buffer(4, 6)
    before = replay._ring.rows.copy()
    with pytest.raises(NeedReplayError, match=said):
        replay.add(**values)
    np.testing.assert_array_equal(replay._ring.rows, before)
    assert replay.next_id == 6
    replay.check_valid()


def test_plain_numbers_and_lists_are_taken() -> None:
    replay = ReplayBuffer(3, {"small": np.uint8, "real": (np.float32, 2)})
    replay.add(small=255, real=[1, 2])
    replay.add(small=np.uint8(3), real=(0.5, 1))
    replay.add(small=[7, 8], real=[[1, 2], [3, 4]])
    assert replay.next_id == 4
    with pytest.raises(NeedReplayError, match="cannot hold"):
        replay.add(small=256, real=[1, 2])
    with pytest.raises(NeedReplayError, match="small is int64"):
        replay.add(small=[7, 256], real=[[1, 2], [3, 4]])


@pytest.mark.parametrize("capacity", [0, -3, 2.5, True])
def test_capacities_that_are_rejected(capacity: Any) -> None:
    with pytest.raises(NeedReplayError, match="capacity"):
        ReplayBuffer(capacity, COLUMNS)


@pytest.mark.parametrize("size", [0, -1, 2.0, None])
def test_sizes_that_are_rejected(size: Any) -> None:
    with pytest.raises(NeedReplayError, match="size is"):
        make_buffer().sample(size)


def test_an_empty_buffer_cannot_be_sampled() -> None:
    with pytest.raises(NeedReplayError, match="empty"):
        ReplayBuffer(3, COLUMNS).sample(1)


@pytest.mark.parametrize("option", [{"capacities": 3}, {"beta": 1.5}])
def test_options_that_are_rejected(option: dict[str, Any]) -> None:
    with pytest.raises(NeedReplayError):
        ReplayBuffer(3, COLUMNS, **option)


# Gains ------------------------------------------------------------------------------------------


def test_raw_gain_is_kept_and_its_exponent_applied_once() -> None:
    replay = make_buffer(4, 4, sampler=ProportionalSampler(0.5))
    replay.update_priorities(np.arange(4), np.array([4.0, 1.0, 0.0, 9.0]))
    assert gains(replay) == {0: 4.0, 1: 1.0, 2: 0.0, 3: 9.0}
    batch = replay.sample(200)
    expected = np.array([2.0, 1.0, 0.0, 3.0]) / 6.0
    np.testing.assert_allclose(batch.probabilities, expected[batch.ids], rtol=1e-14)


def test_an_update_for_an_overwritten_id_is_dropped_and_counted() -> None:
    replay = make_buffer(4, 6)
    replay.update_priorities(np.array([0, 1, 2, 5]), np.array([50.0, 60.0, 7.0, 8.0]))
    assert gains(replay) == {2: 7.0, 3: 1.0, 4: 1.0, 5: 8.0}
    assert replay.dropped == 2
    replay.add(**item(6))
    assert gains(replay)[6] == 8.0


def test_of_equal_ids_the_last_counts() -> None:
    replay = make_buffer(4, 4)
    replay.update_priorities(np.array([1, 2, 1, 1, 2]), np.array([5.0, 6.0, 7.0, 8.0, 9.0]))
    replay.check_valid()
    assert gains(replay) == {0: 1.0, 1: 8.0, 2: 9.0, 3: 1.0}
    replay.add(**item(4))
    assert gains(replay)[4] == 9.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-300, 1e201])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_gain_that_is_no_gain_is_rejected_with_all_others(bad: float, where: int) -> None:
    replay = make_buffer(4, 6)
    replay.update_priorities(np.array([2, 3]), np.array([3.0, 0.5]))
    before = {name: array.copy() for name, array in replay.arrays().items()}
    gain = np.array([1.0, 2.0, 3.0])
    gain[where] = bad
    with pytest.raises(NeedReplayError, match=rf"priorities\[{where}\]"):
        replay.update_priorities(np.array([0, 4, 5]), gain)
    for name, array in replay.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    assert replay.dropped == 0


@pytest.mark.parametrize(
    ("ids", "gain", "said"),
    [
        ([0, 1], [1.0], "shape"),
        ([0, 1], [[1.0, 2.0]], "shape"),
        ([[0, 1]], [[1.0, 2.0]], "vector"),
        ([0.0, 1.0], [1.0, 2.0], "integers"),
        ([0, 6], [1.0, 2.0], "never existed"),
        ([-1, 0], [1.0, 2.0], "never existed"),
        ([0, 1], ["a", "b"], "numbers"),
        (3, 1.0, "vector"),
    ],
)
def test_updates_of_a_wrong_kind_are_rejected(ids: Any, gain: Any, said: str) -> None:
    replay = make_buffer(6, 6)
    with pytest.raises(NeedReplayError, match=said):
        replay.update_priorities(ids, gain)
    assert set(gains(replay).values()) == {1.0}


def test_updates_in_other_dtypes_and_of_nothing() -> None:
    replay = make_buffer(4, 4)
    replay.update_priorities(np.array([0], np.int32), np.array([2.0], np.float32))
    replay.update_priorities([1], [3])
    replay.update_priorities(range(2, 3), [4.5])
    replay.update_priorities([], [])
    assert gains(replay) == {0: 2.0, 1: 3.0, 2: 4.5, 3: 1.0}


def test_new_transitions_get_the_largest_gain_so_far() -> None:
    replay = make_buffer(3, 3)
    replay.update_priorities(np.arange(3), np.array([8.0, 0.5, 2.0]))
    for ident in (3, 4):  # the first has overwritten the gain of 8
        replay.add(**item(ident))
        assert gains(replay)[ident] == 8.0
        replay.update_priorities([ident], [0.25])
    replay.check_valid()


# Weights ----------------------------------------------------------------------------------------


def test_weights_by_the_batchs_maximum() -> None:
    replay = make_buffer(10, 10, sampler=ProportionalSampler(1.0))
    replay.update_priorities(np.arange(10), np.arange(1.0, 11.0))
    batch = replay.sample(5, beta=0.7)
    raw = (10 * batch.probabilities) ** -0.7
    np.testing.assert_allclose(batch.weights, raw / raw.max(), rtol=1e-13)
    assert batch.weights.max() == 1.0


def test_beta_is_annealed_by_batches() -> None:
    replay = make_buffer(
        4, 4, sampler=ProportionalSampler(1.0), beta=LinearBeta(0.0, 1.0, batches=2)
    )
    replay.update_priorities(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    for beta in (0.0, 0.5, 1.0, 1.0):
        batch = replay.sample(8)
        relative = batch.probabilities.min() / batch.probabilities
        np.testing.assert_allclose(batch.weights, relative**beta)
    assert replay.batches == 4
    np.testing.assert_array_equal(replay.sample(8, beta=0.0).weights, 1.0)
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(NeedReplayError, match="beta"):
            replay.sample(8, beta=wrong)


def test_corrected_probabilities_make_the_weights() -> None:
    class ByGainAndNeed(UniformSampler):
        """Weights shall correct for gain alone."""

        def sample(self, size: int, rng: Any, need: AnyArray | None = None) -> Sampled:
            drawn = super().sample(size, rng)
            corrected = np.asarray(drawn.slots + 1.0, dtype=np.float64)
            assert need is not None
            return Sampled(drawn.slots, drawn.probabilities, False, corrected)

    batch = make_buffer(sampler=ByGainAndNeed()).sample(20, need=np.array(2.0), beta=1.0)
    np.testing.assert_allclose(batch.weights, (batch.ids + 1.0).min() / (batch.ids + 1.0))
    np.testing.assert_array_equal(batch.probabilities, 0.1)
    assert not batch.normalized


# What is set by id -------------------------------------------------------------------------------


def test_features_and_states_are_set_by_id() -> None:
    got: list[tuple[str, list[int], list[Any]]] = []

    class Listening(UniformSampler):
        """Records what it gets."""

        def set_features(self, slots: AnyArray, features: AnyArray) -> None:
            got.append(("features", slots.tolist(), features.tolist()))

        def set_state(self, slots: AnyArray, states: AnyArray) -> None:
            got.append(("state", slots.tolist(), states.tolist()))

    replay = make_buffer(4, 6, sampler=Listening())
    replay.set_features(np.array([1, 5, 4, 5]), np.array([[1.0], [2.0], [3.0], [4.0]]))
    replay.set_states([2], [7])
    assert got == [("features", [0, 1], [[3.0], [4.0]]), ("state", [2], [7])]
    assert replay.dropped == 1
    with pytest.raises(NeedReplayError, match="one per id"):
        replay.set_features([2, 3], np.zeros((3, 1)))
    with pytest.raises(NeedReplayError, match="never existed"):
        replay.set_states([99], [7])
    with pytest.raises(NeedReplayError, match="set_features"):
        make_buffer().set_features([2], np.zeros((1, 1)))


# Seeds ------------------------------------------------------------------------------------------


def test_samples_follow_from_the_seed() -> None:
    for seed in (1, 2):
        ids = make_buffer(sampler=UniformSampler(), seed=seed).sample(30).ids
        uniforms = stream(seed, "replay", "draws").random(30)
        np.testing.assert_array_equal(ids, (uniforms * 10).astype(int))


def test_more_transitions_at_once_than_fit() -> None:
    columns = {"obs": np.float32, "action": np.int64}
    episodes = Episodes(n_envs=3, autoreset="same_step")
    replay = ReplayBuffer(2, columns, episodes=episodes, sampler=PSERSampler())
    for t in range(3):
        replay.add(
            obs=np.full(3, t), action=np.arange(3), reward=np.zeros(3), next_obs=np.zeros(3),
            terminated=np.zeros(3, bool), truncated=np.zeros(3, bool),
        )  # fmt: skip
        replay.check_valid()
        assert len(replay) == 2
        assert set(replay.sample(20)["action"]) == {1, 2}


def test_an_update_of_pser_passes_priorities_back() -> None:
    episodes = Episodes()
    columns = {"obs": np.float32, "action": np.int64}
    sampler = PSERSampler(alpha=1.0, retained=0.0, decay=0.5, window=2)
    replay = ReplayBuffer(10, columns, episodes=episodes, sampler=sampler)
    for i in range(4):
        replay.add(
            obs=float(i), action=i, reward=0.0, next_obs=i + 1.0, terminated=False, truncated=False
        )
    replay.update_priorities([0, 1, 2, 3], [0.0, 0.0, 0.0, 0.0])
    replay.update_priorities([3], [8.0])
    assert gains(replay) == {0: 0.0, 1: 2.0, 2: 4.0, 3: 8.0}


def test_ten_million_gains_do_not_drift() -> None:
    replay = ReplayBuffer(1000, {"x": np.int8}, sampler=ProportionalSampler(1.0))
    replay.add(x=np.zeros(1000, dtype=np.int8))
    rng = stream(0, "drift")
    uncompiled = os.environ.get("NUMBA_DISABLE_JIT") == "1"
    for _ in range(10 if uncompiled else 10_000):
        replay.update_priorities(rng.permutation(1000), 10.0 ** rng.integers(-6, 7, 1000))
    # small gains at the end: whatever large ones had left behind would show
    replay.update_priorities(np.arange(1000), 1e-6 * rng.random(1000))
    tree = replay.arrays()["sampler/tree"]
    exact = float(np.sum(tree[:1000].astype(np.longdouble)))
    assert abs(tree[-1] - exact) <= 1e-12 * exact
    replay.check_valid()


def test_what_follows_from_other_things_is_counted_but_not_saved() -> None:
    make_buffer(100_000, 0, sampler=RankSampler())  # what is compiled or imported is no part of it
    sampler = RankSampler()
    tracemalloc.start()
    replay = make_buffer(100_000, 0, sampler=sampler)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    saved = sum(array.nbytes for array in replay.arrays().values())
    assert replay.nbytes == saved + 8 * 100_000
    assert replay.nbytes <= kept <= 1.01 * replay.nbytes
