"""Observations of any space as tensors that layers take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Space
from torch import Tensor

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, Observation


class Inputs:
    """Turns observations of a space into tensors.

    Args:
        space: of one observation.
        device: where tensors are.
    """

    def __init__(self, space: Space[Observation], device: torch.device) -> None:
        self._parts, self._device = _parts(space, ()), device
        self.shape: tuple[int, ...] = (sum(part.size for part in self._parts),)
        """Of an observation as layers get it."""
        if len(self._parts) == 1 and self._parts[0].is_image:
            shape = self._parts[0].shape
            self.shape = (shape[2], *shape[:2]) if self._parts[0].channels_last else shape

    def arrays(self, obs: Observation) -> tuple[list[AnyArray], bool]:
        """The arrays of observations, one row for each, and whether it was a batch."""
        arrays, is_batch = [], False
        for part in self._parts:
            array = np.asarray(part.pick(obs))
            is_batch = array.ndim > len(part.shape)
            if array.shape[is_batch:] != part.shape or array.ndim > len(part.shape) + 1:
                raise NeedReplayError(
                    f"An observation has shape {array.shape}; this model was made for "
                    f"{part.shape}, or a batch of them."
                )
            arrays.append(array if is_batch else array[None])
        return arrays, is_batch

    def tensor(self, obs: Observation) -> tuple[Tensor, bool]:
        """Observations of shape (rows, *``shape``), and whether it was a batch."""
        arrays, is_batch = self.arrays(obs)
        parts = [
            part.tensor(array, self._device)
            for part, array in zip(self._parts, arrays, strict=True)
        ]
        if len(self.shape) == 1 and (len(parts) > 1 or parts[0].ndim > 2):
            return torch.cat([rows.flatten(1) for rows in parts], 1), is_batch
        return parts[0], is_batch


class _Part(NamedTuple):
    """One array of an observation."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    scale: float
    """what integers are divided by"""
    counts: AnyArray | None
    """of numbered values: how many there are of each, for one-hot codes"""
    start: AnyArray | int
    channels_last: bool

    @property
    def size(self) -> int:
        """Numbers of an observation."""
        return math.prod(self.shape) if self.counts is None else int(self.counts.sum())

    @property
    def is_image(self) -> bool:
        """Whether these are planes of numbers."""
        return self.counts is None and len(self.shape) == 3

    def pick(self, obs: Observation) -> Observation:
        """This array of an observation."""
        for key in self.path:
            obs = obs[key]
        return obs

    def tensor(self, array: AnyArray, device: torch.device) -> Tensor:
        """Floats, one row for each observation."""
        if self.counts is not None:
            places = array.reshape(len(array), -1) - np.reshape(self.start, -1)
            places = places + np.concatenate([[0], np.cumsum(self.counts)[:-1]])
            codes = torch.zeros(len(array), int(self.counts.sum()), device=device)
            return codes.scatter_(1, torch.from_numpy(places.astype(np.int64)).to(device), 1.0)
        rows = torch.from_numpy(np.array(array, dtype=np.float32)).to(device)
        if self.scale != 1.0:
            rows = rows / self.scale
        if not self.shape:
            return rows.unsqueeze(1)
        return rows.movedim(-1, 1) if self.channels_last else rows


def _parts(space: Space[Observation], path: tuple[str, ...]) -> list[_Part]:
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        return [part for key, each in inner.items() for part in _parts(each, (*path, key))]
    shape, counts = getattr(space, "shape", None), getattr(space, "nvec", None)
    if counts is None and shape == () and hasattr(space, "n"):
        counts = space.n
    if counts is not None:
        start = getattr(space, "start", 0)
        return [_Part(path, shape or (), 1.0, np.ravel(counts), start, False)]
    dtype = getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "biuf":
        where = f" at {'/'.join(path)!r}" if path else ""
        raise NeedReplayError(
            f"observation_space{where} is {space!r}; a need model takes Box, Discrete, "
            "MultiDiscrete, MultiBinary and Dicts of these. Leave the rest out with a wrapper."
        )
    scale = 1.0
    if np.dtype(dtype).kind in "iu" and hasattr(space, "high"):
        scale = max(1.0, float(np.max(np.abs(np.asarray(space.high, dtype=np.float64)))))
    channels_last = len(shape) == 3 and shape[2] < min(shape[:2])
    return [_Part(path, tuple(shape), scale, None, 0, channels_last)]
