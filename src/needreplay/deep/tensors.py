"""A batch of the memory as tensors on the agent's device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray
from needreplay.deep.networks import MOST_OF_A_PIXEL
from needreplay.replay.batch import Batch


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


def observed(obs: AnyArray, device: torch.device) -> Tensor:
    """Observations for the networks, as they are stored.

    But on a CPU large images are pixels from 0 to 1 with channels last in memory, which
    convolutions there are faster with.
    """
    if obs.ndim == 4 and obs.shape[-1] > 32 and obs.dtype == np.uint8 and device.type == "cpu":
        n_images, n_channels, height, width = obs.shape
        pixels = np.empty((n_images, height * width * n_channels), dtype=np.float32)
        spread_pixels(obs.reshape(n_images, n_channels, -1), pixels)
        channels_last = torch.from_numpy(pixels.reshape(n_images, height, width, n_channels))
        return channels_last.permute(0, 3, 1, 2)
    return to_device(obs, device)


@jit
def spread_pixels(images: AnyArray, pixels: AnyArray) -> None:
    """pixels[i, x n_channels + channel] = images[i, channel, x] / 255.

    One pass where torch takes three: to floats, to another layout, and a division. Four channels,
    which most stacks have, are written side by side, which a compiler can do in wide words.
    """
    n_images, n_channels, size = images.shape
    most, step = np.float32(MOST_OF_A_PIXEL), np.uint64(n_channels)
    for i in range(n_images):
        row, place = pixels[i], np.uint64(0)
        if n_channels == 4:
            c0, c1, c2, c3 = images[i, 0], images[i, 1], images[i, 2], images[i, 3]
            for x in range(size):
                place = np.uint64(4 * x)
                row[place] = np.float32(c0[x]) / most
                row[place + np.uint64(1)] = np.float32(c1[x]) / most
                row[place + np.uint64(2)] = np.float32(c2[x]) / most
                row[place + np.uint64(3)] = np.float32(c3[x]) / most
        else:
            for x in range(size):
                for channel in range(n_channels):
                    row[place + np.uint64(channel)] = np.float32(images[i, channel, x]) / most
                place += step


def transitions(batch: Batch, device: torch.device) -> Transitions:
    """All that a learner needs of ``batch``."""
    columns = batch.columns
    stored = columns.get("next_action")
    return Transitions(
        obs=observed(columns["obs"], device),
        action=to_device(columns["action"], device),
        reward=to_device(columns["reward"], device),
        next_obs=observed(columns["next_obs"], device),
        discount=to_device(columns["discount"], device),
        weight=to_device(batch.weights.astype(np.float32), device),
        next_action=None if stored is None else to_device(stored, device),
    )
