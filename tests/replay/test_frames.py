"""Frames stored once: stacks equal to Gymnasium's, whatever wraps around, in little memory."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray
from needreplay.replay import (
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers.base import Sampler

STACK = 4


class Pictures(gym.Env[AnyArray, np.int64]):
    """Random frames, with few values so that equal frames happen; random ends."""

    observation_space = gym.spaces.Box(0, 255, (3, 5), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, name: str, ends: float, values: int) -> None:
        self._rng = stream(0, "pictures", name)
        self._ends = ends
        self._values = values

    def _frame(self) -> AnyArray:
        if self._values < 256:
            return np.full((3, 5), self._rng.integers(self._values), dtype=np.uint8)
        return self._rng.integers(0, 256, size=(3, 5), dtype=np.uint8)

    def reset(self, **_: Any) -> tuple[AnyArray, dict[str, Any]]:
        return self._frame(), {}

    def step(self, _: np.int64) -> tuple[AnyArray, float, bool, bool, dict[str, Any]]:
        ended, truncated = self._rng.random() < self._ends, self._rng.random() < self._ends
        return self._frame(), 0.0, bool(ended), bool(truncated), {}


def wrapped(name: str, ends: float, padding: str, values: int) -> gym.Env[AnyArray, np.int64]:
    return gym.wrappers.FrameStackObservation(
        Pictures(name, ends, values), STACK, padding_type=padding
    )


def run(
    replay: ReplayBuffer, envs: list[gym.Env[AnyArray, np.int64]], steps: int
) -> dict[int, tuple[AnyArray, AnyArray, bool]]:
    """Fill the buffer; each action's (number's) stacks, and whether it ended an episode."""
    given: dict[int, tuple[AnyArray, AnyArray, bool]] = {}
    number = 0
    now = [env.reset()[0] for env in envs]
    rng = stream(1, "check")
    for _ in range(steps):
        obs, then, ended, truncated, actions = [], [], [], [], []
        for e, env in enumerate(envs):
            next_obs, _, terminated, cut, _ = env.step(np.int64(0))
            given[number] = (now[e], next_obs, terminated or cut)
            obs.append(now[e])
            then.append(next_obs)
            ended.append(terminated)
            truncated.append(cut)
            actions.append(number)
            number += 1
            now[e] = env.reset()[0] if terminated or cut else next_obs
        replay.add(
            obs=np.array(obs), action=np.array(actions), reward=np.zeros(len(envs)),
            next_obs=np.array(then), terminated=np.array(ended), truncated=np.array(truncated),
        )  # fmt: skip
        if len(replay) and rng.random() < 0.2:
            replay.check_valid()
            check_batch(replay, given)
    return given


def check_batch(replay: ReplayBuffer, given: dict[int, tuple[AnyArray, AnyArray, bool]]) -> None:
    batch = replay.sample(16)
    for i, action in enumerate(batch["action"]):
        obs, next_obs, _ = given[int(action)]
        np.testing.assert_array_equal(batch["obs"][i], obs)
        if replay._writer.episodes.n_step == 1:  # type: ignore[attr-defined]
            np.testing.assert_array_equal(batch["next_obs"][i], next_obs)


@pytest.mark.parametrize("ends", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("padding", ["reset", "zero"])
@pytest.mark.parametrize("values", [2, 256])
def test_stacks_are_those_of_gymnasiums_wrapper(
    ends: float, n_envs: int, padding: str, values: int
) -> None:
    envs = [wrapped(f"{e}", ends, padding, values) for e in range(n_envs)]
    replay = make_buffer(60, UniformSampler(), n_envs=n_envs, autoreset="same_step")
    run(replay, envs, 400 // n_envs)
    assert len(replay) > 10
    assert replay.next_id >= 390


@pytest.mark.parametrize(
    "sampler",
    [UniformSampler(), ProportionalSampler(0.6), RankSampler(), PSERSampler(), RecencySampler(2)],
)
@pytest.mark.parametrize("capacity", [1, 2, 7, 30])
def test_short_episodes_cost_capacity_not_correctness(sampler: Sampler, capacity: int) -> None:
    replay = make_buffer(capacity, sampler)
    run(replay, [wrapped("short", 0.6, "zero", 256)], 300)
    assert 1 <= len(replay) <= capacity


@pytest.mark.parametrize("n_step", [2, 3])
def test_n_step_stacks(n_step: int) -> None:
    replay = make_buffer(50, UniformSampler(), n_step=n_step)
    given = run(replay, [wrapped("n-step", 0.05, "reset", 256)], 300)
    batch = replay.sample(200)
    for i, action in enumerate(batch["action"]):
        last = int(action)
        while not given[last][2] and last < int(action) + n_step - 1:
            last += 1
        np.testing.assert_array_equal(batch["next_obs"][i], given[last][1])


@pytest.mark.parametrize("n_step", [1, 2])
def test_single_steps_share_the_frames_of_obs_and_next_obs(n_step: int) -> None:
    replay = make_buffer(20, UniformSampler(), n_step=n_step)
    row = stacks(10)
    for obs, next_obs in itertools.pairwise(row):
        replay.add(**step(obs, next_obs))
    batch = replay.sample(8)
    assert np.shares_memory(batch["obs"], batch["next_obs"]) == (n_step == 1)
    tensors = batch.torch()  # whatever their strides
    for name, ahead in (("obs", 0), ("next_obs", n_step)):
        np.testing.assert_array_equal(tensors[name].numpy(), row[batch.ids + ahead])


def make_buffer(capacity: int, sampler: Sampler, **options: Any) -> ReplayBuffer:
    space = gym.spaces.Box(0, 255, (STACK, 3, 5), np.uint8)
    return ReplayBuffer.for_spaces(
        space,
        gym.spaces.Discrete(2),
        capacity=capacity,
        frame_stack=STACK,
        sampler=sampler,
        **options,
    )


def step(obs: AnyArray, next_obs: AnyArray, **more: Any) -> dict[str, Any]:
    values = {"action": 0, "reward": 0.0, "terminated": False, "truncated": False}
    return {"obs": obs, "next_obs": next_obs, **values, **more}


def stacks(count: int) -> AnyArray:
    """``count`` stacks in a row of an episode without padding."""
    frames = stream(5, "frames").integers(0, 256, size=(count + STACK, 3, 5), dtype=np.uint8)
    return np.stack([frames[t : t + STACK] for t in range(count)])


@pytest.mark.parametrize(("padded", "frames"), [(4, 2), (2, 4), (1, 5)])
def test_repeated_first_frames_are_stored_once(padded: int, frames: int) -> None:
    replay = make_buffer(10, UniformSampler())
    row = stacks(9)
    obs = np.concatenate([np.repeat(row[0][:1], padded, axis=0), row[1][: STACK - padded]])
    next_obs = np.concatenate([obs[1:], row[8][-1:]])
    replay.add(**step(obs, next_obs))
    assert replay._writer.arrays()["numbers"][0] == frames
    batch = replay.sample(1)
    np.testing.assert_array_equal(batch["obs"][0], obs)
    np.testing.assert_array_equal(batch["next_obs"][0], next_obs)


def test_a_loss_of_life_shares_its_frames() -> None:
    replay = make_buffer(10, UniformSampler())
    row = stacks(4)
    replay.add(**step(row[0], row[1]))
    before = replay._writer.arrays()["numbers"][0]
    replay.add(**step(row[1], row[2], terminated=True))
    replay.add(**step(row[2], row[3]))
    assert replay._writer.arrays()["numbers"][0] == before + 2


def test_the_first_observation_of_the_next_episode_is_rejected_as_the_last_of_this() -> None:
    replay = make_buffer(10, UniformSampler())
    row = stacks(9)
    replay.add(**step(row[0], row[1]))
    numbers = replay._writer.arrays()["numbers"].copy()
    with pytest.raises(NeedReplayError, match="final_obs"):
        replay.add(**step(row[1], row[8], truncated=True))
    assert len(replay) == 1
    np.testing.assert_array_equal(replay._writer.arrays()["numbers"], numbers)
    replay.add(**step(row[1], row[2]))
    np.testing.assert_array_equal(np.unique(replay.sample(50)["obs"], axis=0).shape[0], 2)


def test_next_step_autoreset_passes_over_the_reset_step() -> None:
    replay = make_buffer(10, UniformSampler(), autoreset="next_step")
    row = stacks(9)
    replay.add(**step(row[0], row[1], terminated=True))
    replay.add(**step(row[1], row[6]))
    replay.add(**step(row[6], row[7]))
    assert len(replay) == 2
    assert {int(s[0, 0, 0]) for s in replay.sample(50)["obs"]} == {
        int(row[0][0, 0, 0]),
        int(row[6][0, 0, 0]),
    }


@pytest.mark.parametrize("wrong", ["shape", "dtype"])
def test_frames_of_another_shape_or_dtype_are_rejected(wrong: str) -> None:
    replay = make_buffer(10, UniformSampler())
    row = stacks(2)
    bad = row[0][:3] if wrong == "shape" else row[0].astype(np.float32)
    with pytest.raises(NeedReplayError, match="nothing was stored"):
        replay.add(**step(bad, row[1]))
    assert len(replay) == 0


def test_a_space_that_is_no_stack_is_rejected() -> None:
    with pytest.raises(NeedReplayError, match="first axis"):
        ReplayBuffer.for_spaces(
            gym.spaces.Box(0, 255, (84, 84), np.uint8),
            gym.spaces.Discrete(2),
            capacity=5,
            frame_stack=4,
        )


def test_a_sampler_that_cannot_clear_is_rejected() -> None:
    class Stubborn(UniformSampler):
        """Cannot do with fewer slots."""

        clear = None  # type: ignore[assignment]

    with pytest.raises(NeedReplayError, match="clear"):
        make_buffer(5, Stubborn())


def test_atari_frames_take_at_most_7200_bytes_a_transition() -> None:
    capacity = 10_000
    replay = ReplayBuffer.for_spaces(
        gym.spaces.Box(0, 255, (4, 84, 84), np.uint8),
        gym.spaces.Discrete(18),
        capacity=capacity,
        frame_stack=4,
    )
    assert replay.nbytes / capacity <= 7200
