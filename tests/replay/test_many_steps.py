"""``add`` of many steps, or of one environment, stores what one step of all at a time stores."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from every_sampler import SAMPLERS, differing
from gymnasium.spaces import Box, Dict, Discrete

from needreplay import (
    Hindsight,
    NeedReplayError,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
    Sequences,
)

PLACE = Box(-np.inf, np.inf, (3,), np.float32)
GOALS = Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), PLACE))


def steps(time: int, n_envs: int, seed: int, space: Any = PLACE) -> dict[str, Any]:
    """Random steps with an axis of time and one of environments."""
    rng = np.random.default_rng(seed)
    shape = time, n_envs
    ended = rng.random((2, *shape)) < 0.1

    def obs() -> Any:
        if space is GOALS:
            return {key: rng.random((*shape, 3), dtype=np.float32) for key in GOALS.spaces}
        return rng.random((*shape, *space.shape), dtype=np.float32)

    return {
        "obs": obs(),
        "next_obs": obs(),
        "action": rng.integers(9, size=shape),
        "reward": rng.normal(size=shape),
        "terminated": ended[0],
        "truncated": ended[1],
    }


def part(values: Any, *at: Any) -> Any:
    if isinstance(values, dict):
        return {name: part(value, *at) for name, value in values.items()}
    return values[at]


def make(n_envs: int, space: Any = PLACE, **options: Any) -> ReplayBuffer:
    options = {"capacity": 60, "n_step": 3, "autoreset": "same_step", **options}
    return ReplayBuffer.for_spaces(space, Discrete(9), n_envs=n_envs, **options)


def assert_same(one: ReplayBuffer, other: ReplayBuffer) -> None:
    assert (one.oldest_id, one.next_id) == (other.oldest_id, other.next_id)
    assert differing(one, other) == []
    one.check_valid()
    other.check_valid()
    if one.sampler.name in ("recency", "rank"):
        left, right = (r.sampler.sample(50, np.random.default_rng(0)) for r in (one, other))
        np.testing.assert_array_equal(left.slots, right.slots)
        np.testing.assert_allclose(left.probabilities, right.probabilities)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("capacity", [2, 60, 5_000])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_many_steps_are_stored_as_one_by_one(
    sampler: Any, capacity: int, autoreset: Any, n_envs: int
) -> None:
    """Blocks of 1,024 steps, and more in a call; every array is the same, bit for bit."""
    time = 1_200 if capacity == 5_000 else 70
    one, other = (
        make(n_envs, sampler=sampler(), capacity=capacity, autoreset=autoreset) for _ in "ab"
    )
    values = steps(time, n_envs, seed=capacity)
    if one.sampler.name in ("state need", "exhaustive need"):
        values["state"] = np.arange(time * n_envs).reshape(time, n_envs) % 4
    if one.sampler.name == "feature need":
        values["features"] = np.random.default_rng(0).normal(size=(time, n_envs, 2))
    for t in range(time):
        one.add(**part(values, t))
    cut = time // 3
    ids = [other.add(**part(values, at)) for at in (slice(0, cut), slice(cut, None))]
    assert [ids[0].start, ids[0].stop, ids[1].stop] == [0, ids[1].start, one.next_id]
    assert_same(one, other)
    if n_envs == 1:  # the axis of environments can be left out
        third = make(1, sampler=sampler(), capacity=capacity, autoreset=autoreset)
        third.add(**part(values, slice(None), 0))
        assert_same(one, third)


@pytest.mark.parametrize("sampler", ["features", "states"])
@pytest.mark.parametrize("capacity", [5, 60, 5_000])
def test_only_some_steps_have_features_or_a_state(sampler: str, capacity: int) -> None:
    """Windows that are open from one call to the next keep what they have."""
    rng = np.random.default_rng(0)
    one, other = (make(2, sampler=SAMPLERS[sampler](), capacity=capacity) for _ in "ab")
    for call in range(6):
        time = int(rng.integers(1, 1_500))
        values = steps(time, 2, seed=call)
        if call % 3 > 0:
            if sampler == "features":
                values["features"] = rng.normal(size=(time, 2, 2))
            else:
                values["state"] = rng.integers(4, size=(time, 2))
        for t in range(time):
            one.add(**part(values, t))
        other.add(**values)
        assert_same(one, other)


@pytest.mark.parametrize(
    ("space", "options"),
    [
        (PLACE, {"sequences": Sequences(4, burn_in=1)}),
        (PLACE, {"sequences": Sequences(4, across_episodes=True), "sampler": PSERSampler()}),
        (GOALS, {"hindsight": Hindsight(2, "future", lambda a, g, _: (a - g)[:, 0])}),
    ],
    ids=["sequences", "across", "hindsight"],
)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_entries_of_many_steps(space: Any, options: Any, n_envs: int) -> None:
    one, other = (make(n_envs, space, **copy.deepcopy(options)) for _ in "ab")
    values = steps(80, n_envs, 0, space)
    for t in range(80):
        one.add(**part(values, t))
    other.add(**values)
    assert_same(one, other)
    assert len(one) > 5


@pytest.mark.parametrize("many", [1, 40, 3_000])
def test_ranks_of_many_steps_among_other_priorities(many: int) -> None:
    """New rows replace old ones all over the order; they enter it together."""
    rng = np.random.default_rng(0)
    one, other = (make(1, sampler=RankSampler(), capacity=4_000, n_step=1) for _ in "ab")
    for replay in (one, other):
        replay.add(**part(steps(4_000, 1, 0), slice(None), 0))
    for call in range(4):
        gains = rng.integers(20, size=4_000) / 10.0 if call % 2 else rng.random(4_000)
        values = part(steps(many, 1, call), slice(None), 0)
        for replay in (one, other):
            replay.update_priorities(np.arange(replay.oldest_id, replay.next_id), gains)
        for t in range(many):
            one.add(**part(values, t))
        other.add(**values)
        assert_same(one, other)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_frames_of_many_steps(autoreset: Any) -> None:
    one, other = (
        make(2, Box(0, 1, (2, 3), np.float32), frame_stack=2, autoreset=autoreset) for _ in "ab"
    )
    values = steps(50, 2, 0, Box(0, 1, (2, 3)))
    for name in ("terminated", "truncated"):
        values[name][20, 0] = True
    values["next_obs"][:, :, 0] = values["obs"][:, :, 1]
    for t in range(50):
        one.add(**part(values, t))
    other.add(**values)
    assert_same(one, other)
    values["next_obs"][7, 1] = -1.0
    fresh = make(2, Box(0, 1, (2, 3), np.float32), frame_stack=2, autoreset="same_step")
    with pytest.raises(NeedReplayError, match=r"not obs shifted by one frame.*step 7 of this call"):
        fresh.add(**values)
    fresh.check_valid()


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_one_environment_among_several(sampler: Any, frames: bool, autoreset: Any) -> None:
    """Each environment has the rows that a buffer of its own has, in any order of environments."""
    space = Box(0, 1, (2, 3), np.float32) if frames else PLACE
    options = {"frame_stack": 2 if frames else 0, "autoreset": autoreset, "capacity": 500}
    replay = make(3, space, sampler=sampler(), **options)
    own = [make(1, space, sampler=sampler(), **options) for _ in range(3)]
    values = steps(40, 3, 1, space)
    if frames:
        values["next_obs"][:, :, 0] = values["obs"][:, :, 1]
    if replay.sampler.name == "feature need":
        values["features"] = np.random.default_rng(0).normal(size=(40, 3, 2))
    rng, at = np.random.default_rng(0), [0, 0, 0]
    mine: list[list[int]] = [[], [], []]
    while min(at) < 30:
        env = int(rng.integers(3))
        count = int(rng.integers(1, 4))
        some = slice(at[env], at[env] + count) if count > 1 else at[env]
        step = part(values, some, env)
        mine[env] += replay.add(env=env, **step)
        own[env].add(**step)
        at[env] = min(at[env] + count, 39)
    replay.check_valid()
    for env in range(3):
        ids = np.arange(own[env].next_id)
        alone, among = own[env].read(ids), replay.read(mine[env])
        for name in alone:
            np.testing.assert_array_equal(alone[name], among[name])
        number, step = own[env].episodes(ids)
        of_all = replay.episodes(mine[env])
        np.testing.assert_array_equal(step, of_all[1])
        np.testing.assert_array_equal(np.diff(number) > 0, np.diff(of_all[0]) > 0)
        assert len(replay.cut(env)) == len(own[env].cut())
        if replay.sampler.name == "feature need":
            np.testing.assert_array_equal(own[env].features(ids), replay.features(mine[env]))


def test_mistakes_are_one_sentence() -> None:
    replay = make(3)
    values = steps(5, 3, 0)
    for env in (3, -1, 1.5, True, "a"):
        with pytest.raises(NeedReplayError, match=r"env is .*a whole number from 0 to 2"):
            replay.add(env=env, **part(values, 0, 0))
    with pytest.raises(NeedReplayError, match=r"action has shape \(\), but add takes \(3,\)"):
        replay.add(env=1, **{**part(values, 0, 0), "obs": values["obs"][0]})
    with pytest.raises(NeedReplayError, match=r"reward has shape \(4, 3\), but add takes \(5, 3\)"):
        replay.add(**{**values, "reward": values["reward"][:4]})
    with pytest.raises(NeedReplayError, match=r"obs has shape \(5, 2, 3\)"):
        replay.add(**part(values, slice(None), slice(0, 2)))
    swapped = {name: np.swapaxes(column, 0, 1) for name, column in values.items()}
    with pytest.raises(NeedReplayError, match=r"first an axis of time, .*the 3 environments"):
        replay.add(**swapped)
    with pytest.raises(NeedReplayError, match=r"\(5,\), but add takes \(3,\) here: an axis"):
        replay.add(env=0, **{**part(values, slice(0, 3), 0), "action": np.zeros(5, int)})
    with pytest.raises(NeedReplayError, match=r"obs has shape \(0, 3, 3\)"):
        replay.add(**part(values, slice(0, 0)))
    assert (len(replay), replay.next_id) == (0, 0)
    with pytest.raises(NeedReplayError, match="leave out env"):
        make(1, extra_columns={"env": np.int64})
    plain = ReplayBuffer(5, {"env": np.int64})
    plain.add(env=3)
    assert plain.read([0])["env"] == 3
