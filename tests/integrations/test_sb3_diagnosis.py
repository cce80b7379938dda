"""``diagnose`` takes a DQN in one call, and rejects what it cannot diagnose."""

from __future__ import annotations

import pytest
import stable_baselines3
import torch

from needreplay._core.errors import NeedReplayError
from needreplay.integrations.sb3 import DQN, NeedReplay, PrioritizedReplay, diagnose

from .sb3_models import parameters, small


@pytest.mark.parametrize("replay", [PrioritizedReplay(), NeedReplay()])
def test_a_dqn_is_diagnosed_in_one_call(replay: PrioritizedReplay) -> None:
    model = DQN("MlpPolicy", "CartPole-v1", replay=replay, learning_starts=100, seed=0)
    model.learn(300)
    before = {name: value.clone() for name, value in parameters(model).items()}
    found = diagnose(model, updates=16, queries=4)
    assert found.effects.shape == (4, 16)
    assert 0.0 < found.locality < 1.0
    assert all(torch.equal(before[name], value) for name, value in parameters(model).items())
    again = diagnose(model, updates=16, queries=4)
    assert again.text() == found.text()


def test_other_models_are_named() -> None:
    with pytest.raises(NeedReplayError, match="model is SAC"):
        diagnose(small("SAC"))
    with pytest.raises(NeedReplayError, match="that has learned"):
        diagnose(stable_baselines3.DQN("MlpPolicy", "CartPole-v1"))
