"""``ReplayBuffer.future`` against a plain list of each environment's episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.replay import ReplayBuffer, UniformSampler

STEPS = 150


@pytest.mark.filterwarnings("ignore::needreplay.NeedReplayWarning")  # observations are random
@pytest.mark.parametrize("frame_stack", [0, 3])
@pytest.mark.parametrize("n_step", [1, 4])
@pytest.mark.parametrize(("n_envs", "autoreset"), [(1, "same_step"), (3, "next_step")])
def test_future_against_a_plain_model(
    n_envs: int, autoreset: Any, n_step: int, frame_stack: int, tmp_path: Path
) -> None:
    """Across the ring's end, with overwritten slots, open windows, and ends of both kinds."""
    shape = (frame_stack, 2) if frame_stack else (1,)
    buffer, other = (
        ReplayBuffer.for_spaces(
            (np.float64, shape),
            np.int64,
            capacity=64,
            n_envs=n_envs,
            n_step=n_step,
            frame_stack=frame_stack,
            autoreset=autoreset,
        )
        for _ in range(2)
    )
    e: Any
    rng = np.random.default_rng(n_envs)
    number = 0
    place: dict[Any, Any] = {}
    obs = np.zeros((n_envs, *shape))
    episode: Any = np.arange(n_envs)
    time: Any = np.zeros(n_envs, dtype=int)
    resets: Any = np.zeros(n_envs, dtype=bool)
    for e in range(n_envs):
        number += 1
        obs[e] = number
    for _ in range(STEPS):
        next_obs = obs.copy()
        ends = rng.random((2, n_envs)) < 0.08
        for e in range(n_envs):
            number += 1
            if frame_stack:
                next_obs[e, :-1] = obs[e, 1:]
            next_obs[e, -1] = number
            if not resets[e]:
                place[obs[e].flat[-1]] = episode[e], time[e]
        ends &= ~resets
        given = {"obs": obs, "next_obs": next_obs, "action": np.zeros(n_envs, dtype=int)}
        flags = {"terminated": ends[0], "truncated": ends[1], "reward": np.zeros(n_envs)}
        buffer.add(**given, **flags)
        time += ~resets
        ended = ends.any(0)
        obs = next_obs.copy()
        for e in np.flatnonzero(ended if autoreset == "same_step" else resets):
            number += 1
            obs[e], episode[e], time[e] = number, episode.max() + 1, 0
        resets = ended if autoreset == "next_step" else resets
    assert buffer.oldest_id > 0
    buffer.save(tmp_path / "buffer")
    other.load(tmp_path / "buffer")
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    where = {place[o.flat[-1]]: i for i, o in zip(ids, buffer.read(ids)["obs"], strict=True)}
    assert len(where) == len(ids)
    for of in (buffer, other):
        numbers, times = of.episodes(ids)
        for (which, t), i in where.items():
            assert times[i - ids[0]] == t
            assert {numbers[j - ids[0]] for (w, _), j in where.items() if w == which} == {
                numbers[i - ids[0]]
            }
        # Each begins later than those before it: numbers grow with the first transition.
        begun = [
            numbers[i - ids[0]] for (_, t), i in sorted(where.items(), key=lambda x: x[1]) if t == 0
        ]
        assert begun == list(range(begun[0], begun[0] + len(begun)))
    lengths = []
    for steps in (0, 1, 2, 5, 1000):
        expected: Any = [-1] * len(ids)
        for (which, t), i in where.items():
            expected[i - ids[0]] = where.get((which, t + steps), -1)
        np.testing.assert_array_equal(buffer.future(ids, steps), expected)
        np.testing.assert_array_equal(other.future(ids, steps), expected)
        lengths.append(sum(i >= 0 for i in expected))
    assert lengths[0] == len(ids) > lengths[1] > lengths[2] > lengths[3] > lengths[4] == 0
    mixed = rng.integers(0, 4, len(ids))
    each = [buffer.future([i], int(k))[0] for i, k in zip(ids, mixed, strict=True)]
    np.testing.assert_array_equal(buffer.future(ids, mixed), each)


def test_a_ring_smaller_than_one_step_of_all_environments() -> None:
    buffer = ReplayBuffer.for_spaces(
        np.float64,
        np.int64,
        capacity=2,
        n_envs=3,
        autoreset="same_step",
        sampler=UniformSampler(),
    )
    no = np.zeros(3, dtype=bool)
    for _ in range(4):
        three = np.zeros(3)
        buffer.add(
            obs=three,
            next_obs=three,
            action=three.astype(int),
            reward=three,
            terminated=no,
            truncated=no,
        )
        assert buffer.future([buffer.oldest_id, buffer.next_id - 1], 1).tolist() == [-1, -1]


def test_what_is_rejected() -> None:
    buffer = ReplayBuffer.for_spaces(np.float64, np.int64, capacity=4)
    buffer.add(obs=0.0, next_obs=1.0, action=0, reward=0.0, terminated=False, truncated=False)
    wrong: Any
    for wrong in (-1, 0.5, [1, 2], "one", None):
        with pytest.raises(NeedReplayError, match="steps is"):
            buffer.future([0], wrong)
    with pytest.raises(NeedReplayError, match="are stored"):
        buffer.future([1], 0)
    plain = ReplayBuffer(4, {"obs": np.float64})
    plain.add(obs=0.0)
    with pytest.raises(NeedReplayError, match="make it with episodes"):
        plain.future([0], 1)
    with pytest.raises(NeedReplayError, match="make it with episodes"):
        plain.episodes([0])
    with pytest.raises(NeedReplayError, match="are stored"):
        buffer.episodes([1])
