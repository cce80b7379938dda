"""``diagnose`` for a DQN of Stable-Baselines3, in one call."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3 import DQN
from torch import Tensor, nn

from needreplay._core.errors import NeedReplayError
from needreplay.integrations.sb3.buffer import PrioritizedReplayBuffer
from needreplay.need.diagnosis import Diagnosis
from needreplay.need.diagnosis import diagnose as _diagnose
from needreplay.replay import Batch


def diagnose(model: DQN, **options: Any) -> Diagnosis:
    """How local the updates of ``model`` are, and what predicts their effect.

    Args:
        model: a ``DQN`` of this package (plain, prioritized or with need).
        **options: ``need``, ``updates``, ``queries`` and ``seed``, as ``needreplay.need.diagnose``
            takes them.
    """
    replay = getattr(model, "replay_buffer", None)
    if not isinstance(model, DQN) or not isinstance(replay, PrioritizedReplayBuffer):
        raise NeedReplayError(
            f"model is {type(model).__name__}; diagnose takes a DQN of needreplay.integrations.sb3 "
            "that has learned. For another learner use needreplay.need.diagnose."
        )

    def loss(network: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            best = model.q_net_target(batch["next_obs"]).amax(1)
            target = batch["reward"] + batch["discount"] * best
        value = network(batch["obs"]).gather(1, batch["action"].reshape(-1, 1).long())[:, 0]
        found: Tensor = (target - value) ** 2 / 2
        return found

    buffer: Any = replay.buffer if replay.need is None else replay.need
    return _diagnose(model.q_net, loss, buffer, **options)
