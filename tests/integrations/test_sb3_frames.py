"""Frames of stacks, and observations, that are stored once; buffers that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

from needreplay import NeedReplayError
from needreplay.integrations.sb3 import NeedReplay, PrioritizedReplay
from needreplay.replay import storage

from .sb3_models import Walk, parameters, small

POLICY = {"net_arch": [8], "features_extractor_kwargs": {"features_dim": 8}}


def images(channels: int = 1, stack: int = 4) -> Any:
    space = spaces.Box(0, 255, (36, 36, channels), dtype=np.uint8)
    env = VecFrameStack(make_vec_env(lambda: Walk(length=7, obs=space), 2, seed=0), stack)
    return VecTransposeImage(env)


def trained(replay: Any, env: Any = None, **options: Any) -> Any:
    env = images() if env is None else env
    policy = {"policy": "CnnPolicy", "policy_kwargs": POLICY} if env.observation_space.shape else {}
    return small("DQN", env, replay=replay, buffer_size=100, **policy, **options).learn(160)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_stacks_whose_frames_are_stored_once_are_the_same(n_steps: int, channels: int) -> None:
    """The same columns after a wrap-around, in less than a third of the memory."""
    plain, once = (
        trained(PrioritizedReplay(frame_stack=stack), images(channels), n_steps=n_steps)
        for stack in (0, 4)
    )
    assert once.replay_buffer.buffer.next_id > 100
    sizes = [each.replay_buffer.buffer.nbytes for each in (plain, once)]
    assert sizes[0] > 3 * sizes[1]
    found, expected = (
        {
            name: np.asarray(column)
            for name, column in each.replay_buffer.buffer.read(np.arange(150 - 40, 150)).items()
        }
        for each in (once, plain)
    )
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name].reshape(column.shape), column)
    samples = once.replay_buffer.sample(8)
    assert tuple(samples.observations.shape) == (8, 4 * channels, 36, 36)


def test_observations_that_are_stored_once_are_the_same() -> None:
    """Until the buffer is full the same samples, and so the same network, bit for bit."""
    plain, once = (
        small("DQN", n_steps=2, optimize_memory_usage=saving).learn(150) for saving in (False, True)
    )
    ones, others = parameters(plain), parameters(once)
    assert all((ones[key] == others[key]).all() for key in ones)


def test_need_learns_from_stacks_that_are_stored_once() -> None:
    model = trained(NeedReplay(frame_stack=4))
    assert model.replay_buffer.need.model.updates == model._n_updates // 4 > 3


def test_a_buffer_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its observations take 2 x 4 x 36 x 36 bytes a transition, or one frame."""
    monkeypatch.setattr(storage, "memory", lambda: 100 * 36 * 36 + 10.0)
    with pytest.raises(NeedReplayError, match=r"buffer_size is 100: .*frame_stack=4"):
        trained(PrioritizedReplay())
    trained(PrioritizedReplay(frame_stack=4))
