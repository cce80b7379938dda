"""Reading by place, clearing, loading into another buffer, and LAP."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from every_sampler import SAMPLERS
from gymnasium.spaces import Box, Dict, Discrete

from needreplay import (
    FeatureNeedSampler,
    Hindsight,
    NeedReplayError,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
    Sequences,
    UniformSampler,
)
from needreplay.replay.save import opened
from needreplay.replay.transfer import load_rows

PLACE = Box(-np.inf, np.inf, (2,), np.float32)


def make(capacity: int, sampler: Any = None, space: Any = PLACE, **options: Any) -> ReplayBuffer:
    options = {"n_envs": 2, "n_step": 2, "autoreset": "same_step", **options}
    return ReplayBuffer.for_spaces(
        space, Discrete(9), capacity=capacity, sampler=sampler, **options
    )


def fill(replay: ReplayBuffer, time: int, seed: int = 0, space: Any = PLACE) -> None:
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.random((2, time, 2, *space.shape), dtype=np.float32)
    ended = rng.random((2, time, 2)) < 0.1
    for t in range(time):
        if t:
            obs[t][~ended[:, t - 1].any(0)] = next_obs[t - 1][~ended[:, t - 1].any(0)]
        if len(space.shape) == 3:  # stacks of two
            next_obs[t][:, 0] = obs[t][:, 1]
    replay.add(
        obs=obs,
        next_obs=next_obs,
        action=rng.integers(9, size=(time, 2)),
        reward=rng.normal(size=(time, 2)),
        terminated=ended[0],
        truncated=ended[1],
    )
    ids = np.arange(replay.oldest_id, replay.next_id)
    replay.update_priorities(ids, rng.random(len(ids)))


# Reading -----------------------------------------------------------------------------------------


def test_places_are_those_of_a_list() -> None:
    replay = ReplayBuffer(5, {"x": np.int64, "of": {"y": (np.int64, (2,))}})
    for x in range(8):
        replay.add(x=x, of={"y": [x, -x]})
    kept = [3, 4, 5, 6, 7]
    assert [step["x"] for step in replay] == kept
    assert [step["of"]["y"].tolist() for step in replay] == [[x, -x] for x in kept]
    for place in (0, 4, -1, -5, np.int64(2)):
        assert replay[place]["x"] == kept[place]
        assert replay[place]["of"]["y"].tolist() == [kept[place], -kept[place]]
    many: Any
    for many in (slice(None), slice(1, -1), slice(None, None, -2), slice(9, 3)):
        assert replay[many]["x"].tolist() == kept[many]
    assert replay[[0, -1, 2]]["x"].tolist() == [3, 7, 5]
    assert replay[np.array(kept) > 5]["x"].tolist() == [6, 7]
    assert replay[[]]["x"].tolist() == []
    wrong: Any
    for wrong in (5, -6, [0, 7]):
        with pytest.raises(IndexError, match="is asked for, but 5 are stored"):
            replay[wrong]
    for wrong in ("x", 1.0, None, np.array([True])):
        with pytest.raises(NeedReplayError, match="A buffer has no item"):
            replay[wrong]
    assert [*ReplayBuffer(5, {"x": np.int64})] == []


def test_iteration_says_what_was_overwritten() -> None:
    replay = ReplayBuffer(600, {"x": np.int64})
    replay.add(x=np.arange(600))
    steps = iter(replay)
    assert next(steps)["x"] == 0
    replay.add(x=np.arange(300))
    with pytest.raises(
        NeedReplayError,
        match=r"ids are from 256 to 511, but transitions 300 to.*with buffer\.locked",
    ):
        list(steps)


# Clearing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("time", [10, 40])
def test_a_cleared_buffer_is_a_new_one(sampler: Any, time: int) -> None:
    replay, fresh = make(30, sampler()), make(30, sampler())
    fill(replay, time)
    late = np.arange(replay.oldest_id, replay.next_id)
    end, episodes = replay.next_id, replay.batches
    replay.clear()
    assert (len(replay), replay.batches) == (0, episodes)
    replay.check_valid()
    with pytest.raises(NeedReplayError, match="buffer is empty"):
        replay.sample(1)
    for each in (replay, fresh):
        fill(each, 12, seed=1)
        each.check_valid()
    assert replay.oldest_id >= end
    dropped = replay.dropped
    replay.update_priorities(late, np.full(len(late), 9.0))
    assert replay.dropped == dropped + len(late)
    left, right = (r.sampler.arrays() for r in (replay, fresh))
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)
    for name, column in replay[:].items():
        np.testing.assert_array_equal(column, fresh[:][name])
    file = io.BytesIO()
    replay.save(file)
    file.seek(0)
    again = make(30, sampler())
    again.load(file)
    assert (again.oldest_id, again.next_id) == (replay.oldest_id, replay.next_id)


@pytest.mark.parametrize("name", ["sequences", "hindsight", "frames"])
def test_clearing_what_is_made_of_rows(name: str) -> None:
    goals = Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), PLACE))
    every: dict[str, dict[str, Any]] = {
        "sequences": {"sequences": Sequences(3)},
        "hindsight": {"hindsight": Hindsight(2, "final", lambda a, *_: a[:, 0]), "space": goals},
        "frames": {"frame_stack": 2, "space": Box(0, 1, (2, 2), np.float32)},
    }
    options = every[name]
    replay = make(20, n_envs=1, **options)

    def steps(seed: int) -> None:
        rng = np.random.default_rng(seed)
        stack = rng.random((2, 2), dtype=np.float32)
        for t in range(25):
            after = np.stack([stack[1], rng.random(2, dtype=np.float32)])
            obs, next_obs = (
                x
                if name == "frames"
                else x[0]
                if name == "sequences"
                else dict.fromkeys(goals, x[0])
                for x in (stack, after)
            )
            replay.add(
                obs=obs,
                next_obs=next_obs,
                action=t % 9,
                reward=1.0,
                terminated=t % 5 == 4,
                truncated=False,
            )
            stack = rng.random((2, 2), dtype=np.float32) if t % 5 == 4 else after

    steps(0)
    assert len(replay)
    replay.clear()
    assert len(replay) == 0
    replay.check_valid()
    steps(1)
    replay.check_valid()
    fresh, replay = replay, make(20, n_envs=1, **options)
    steps(1)
    assert len(fresh) == len(replay)
    for name in ("action", "discount", "reward"):
        np.testing.assert_array_equal(fresh[:][name], replay[:][name])


# Loading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("saved", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("capacity", [12, 30, 100])
def test_rows_and_priorities_are_loaded(sampler: Any, saved: Any, capacity: int) -> None:
    old, new, file = make(30, saved()), make(capacity, sampler()), io.BytesIO()
    fill(old, 40)
    old.save(file)
    file.seek(0)
    if capacity != 30 or old.sampler.name != new.sampler.name:
        with pytest.raises(NeedReplayError, match="was saved with"):
            new.load(file)
    file.seek(0)
    fill(new, 9, seed=3)
    new.load(file, strict=False)
    new.check_valid()
    count = min(30, capacity)
    assert len(new) == count
    for name, column in old[-count:].items():
        np.testing.assert_array_equal(column, new[:][name])
    held, priorities = (
        old.sampler.arrays().get("priorities"),
        new.sampler.arrays().get("priorities"),
    )
    ids = np.arange(old.next_id - count, old.next_id)
    if held is not None and priorities is not None:
        np.testing.assert_array_equal(priorities[:count], held[ids % 30])
    following, there = old.future(ids, 1), np.arange(new.oldest_id, new.next_id)
    shifted = np.where(following >= 0, following - ids[0] + there[0], -1)
    np.testing.assert_array_equal(new.future(there, 1), shifted)
    np.testing.assert_array_equal(old.episodes(ids), new.episodes(there))
    for each in (old, new):  # open windows go on
        fill(each, 3, seed=5)
        each.check_valid()
    for name, column in old[-6:].items():
        np.testing.assert_array_equal(column, new[-6:][name])


def test_pser_keeps_priorities_and_links() -> None:
    """Half of 8 is passed back, and overwritten by 1; loading passes nothing back again."""
    old, new = (
        make(n, PSERSampler(1.0, retained=0.0, decay=0.5), n_envs=1, n_step=1) for n in (9, 5)
    )
    old.add(
        obs=np.zeros((3, 2), np.float32),
        next_obs=np.zeros((3, 2), np.float32),
        action=np.zeros(3, int),
        reward=np.zeros(3),
        terminated=np.arange(3) == 2,
        truncated=np.zeros(3, bool),
    )
    old.update_priorities([0, 1, 2], [0.5, 0.5, 8.0])
    old.update_priorities([1], [1.0])
    file = io.BytesIO()
    old.save(file)
    file.seek(0)
    new.load(file, strict=False)
    sampler: Any = new.sampler
    assert sampler.priorities[:3].tolist() == [2.0, 1.0, 8.0]
    new.check_valid()
    new.update_priorities([2], [16.0])
    assert sampler.priorities[:3].tolist() == [4.0, 8.0, 16.0]


@pytest.mark.parametrize("capacity", [12, 30, 100])
def test_frames_are_loaded(capacity: int) -> None:
    stacks, file = Box(0, 1, (2, 1, 3), np.float32), io.BytesIO()
    old, new = (make(n, None, stacks, frame_stack=2) for n in (30, capacity))
    fill(old, 40, space=stacks)
    old.save(file)
    file.seek(0)
    new.load(file, strict=False)
    new.check_valid()
    assert len(new) >= min(len(old), capacity) - 4
    for name, column in old[-len(new) :].items():
        np.testing.assert_array_equal(column, new[:][name])


def test_what_cannot_be_loaded_is_one_sentence() -> None:
    def loaded(old: ReplayBuffer, new: ReplayBuffer) -> None:
        file = io.BytesIO()
        old.save(file)
        file.seek(0)
        new.load(file, strict=False)

    old = make(30)
    fill(old, 20)
    for other in (make(30, n_step=3), make(30, n_envs=1), make(30, space=Box(0, 1, (3,)))):
        with pytest.raises(NeedReplayError, match="only capacity and sampler may differ"):
            loaded(old, other)
    with pytest.raises(NeedReplayError, match="for buffers of transitions"):
        loaded(old, make(30, sequences=Sequences(2)))

    class Own(UniformSampler):
        name = "own"

    with pytest.raises(NeedReplayError, match="The file's sampler is 'own', which is none"):
        loaded(make(30, Own()), old)
    assert len(old) == 30
    file = io.BytesIO()
    old.save(file)
    file.seek(0)
    with opened(file) as saved:
        for capacity in ("x", None, -1, 1.5):
            saved.settings["capacity"] = capacity
            with pytest.raises(NeedReplayError, match=r"contradicts itself|capacity is"):
                load_rows(old, saved)
    assert len(old) == 30


# LAP ---------------------------------------------------------------------------------------------

ERRORS = np.array([0.0, 0.3, 1.0, 1.5, 4.0, 0.9, 2.0, 9.0])


@pytest.mark.parametrize("uniform_mix", [0.0, 0.25])
def test_lap_by_the_paper(uniform_mix: float) -> None:
    """P(i) = max(|error|^alpha, 1) / sum; chi-square at 7 degrees of freedom, 1e-6."""
    sampler = ProportionalSampler(
        0.4, priority_floor=1.0, stratified=False, uniform_mix=uniform_mix
    )
    replay, draws = ReplayBuffer(8, {"x": np.float64}, sampler=sampler, beta=1.0), 40_000
    replay.add(x=ERRORS)
    replay.update_priorities(np.arange(8), ERRORS)
    replay.check_valid()
    expected = np.maximum(ERRORS**0.4, 1.0)
    expected = (1 - uniform_mix) * expected / expected.sum() + uniform_mix / 8
    batch = replay.sample(draws)
    np.testing.assert_allclose(batch.probabilities, expected[batch.ids])
    counts = np.bincount(batch.ids, minlength=8)
    assert ((counts - draws * expected) ** 2 / (draws * expected)).sum() < 43.0
    assert (batch.weights == 1.0).all()
    assert (replay.sample(9, beta=0.7).weights == 1.0).all()
    assert sampler.priorities.tolist() == ERRORS.tolist()


def test_laps_gradient_is_that_of_pal() -> None:
    """Huber's loss sampled by LAP has the expected gradient of PAL, uniformly sampled: d|d|^(a-1).

    Up to the factor N / sum; worked out for |error| above and below 1.
    """
    sampler = ProportionalSampler(0.4, priority_floor=1.0)
    replay = ReplayBuffer(8, {"x": np.float64}, sampler=sampler)
    replay.add(x=ERRORS)
    replay.update_priorities(np.arange(8), ERRORS)
    probability = np.zeros(8)
    batch = replay.sample(10_000)
    probability[batch.ids] = batch.probabilities * batch.weights
    huber = np.minimum(ERRORS, 1.0)
    pal = np.where(ERRORS <= 1.0, ERRORS, ERRORS**0.4)
    np.testing.assert_allclose(probability * huber, pal / np.maximum(ERRORS**0.4, 1.0).sum())


def test_a_floor_is_kept_and_checked() -> None:
    file = io.BytesIO()
    lap = ReplayBuffer(8, {"x": np.float64}, sampler=ProportionalSampler(priority_floor=2.0))
    lap.add(x=ERRORS)
    lap.save(file)
    file.seek(0)
    with pytest.raises(NeedReplayError, match=r"sampler.priority_floor 2.0, but this buffer has 0"):
        ReplayBuffer(8, {"x": np.float64}).load(file)
    for other in (UniformSampler, RankSampler, PSERSampler, lambda **o: FeatureNeedSampler(2, **o)):
        made: Any = other
        with pytest.raises(NeedReplayError, match=r"no priority_floor; LAP is Proportional"):
            made(priority_floor=1.0)
    with pytest.raises(NeedReplayError, match=r"RankSampler 'exacct'.* Did you mean 'exact'"):
        RankSampler(exacct=True)  # type: ignore[call-arg]
    with pytest.raises(NeedReplayError, match="priority_floor is -1"):
        ProportionalSampler(priority_floor=-1)
    assert repr(lap.sampler) == "ProportionalSampler(priority_floor=2.0)"
