"""A batch of the memory as tensors on the agent's device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.memory.batch import Batch
from needreplay.types import AnyArray


class Transitions(NamedTuple):
    """One row for each transition."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    weight: Tensor
    next_action: Tensor | None
    """The action taken in s', where the memory keeps it."""


def to_device(array: AnyArray, device: torch.device) -> Tensor:
    """The array as a tensor: on the CPU it shares the array's memory."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def images_last(obs: Tensor, device: torch.device) -> Tensor:
    """Large images with channels last in memory, which convolutions on a CPU are faster with.

    As floats, once for all networks: numbers move to another layout faster than bytes do.
    """
    if obs.dim() == 4 and obs.shape[-1] > 32 and device.type == "cpu":
        return obs.float().contiguous(memory_format=torch.channels_last)
    return obs


def transitions(batch: Batch, device: torch.device) -> Transitions:
    """All that a learner needs of ``batch``."""
    columns = batch.columns
    stored = columns.get("next_action")
    return Transitions(
        obs=images_last(to_device(columns["obs"], device), device),
        action=to_device(columns["action"], device),
        reward=to_device(columns["reward"], device),
        next_obs=images_last(to_device(columns["next_obs"], device), device),
        discount=to_device(columns["discount"], device),
        weight=to_device(batch.weights.astype(np.float32), device),
        next_action=None if stored is None else to_device(stored, device),
    )
