"""Layers over observations, for need models: rows of numbers, small planes, and frames.

``nature`` has the layers of Mnih et al. (2015), ``minatar`` those of Young & Tian (2019),
``vector`` two dense layers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import nn

__all__ = ["Kind", "Shape", "kind_for", "layers"]

Shape: TypeAlias = tuple[int, ...]
"""The shape of an observation."""
Kind: TypeAlias = Literal["vector", "minatar", "nature"]
"""The names of the layers."""

LARGE_IMAGE = 36
"""Images of at least so many rows and columns get the layers of Mnih et al. (2015)."""


def kind_for(shape: Shape) -> Kind:
    """The layers that fit observations of this shape (images: channels first)."""
    if len(shape) == 1:
        return "vector"
    return "nature" if min(shape[1:]) >= LARGE_IMAGE else "minatar"


def layers(kind: Kind, shape: Shape, *, half: bool = False) -> tuple[nn.Sequential, int]:
    """Layers from observations to rows of features, and how many features there are.

    ``half``: convolutions with half as many filters.
    """
    if kind == "vector":
        return nn.Sequential(
            nn.Linear(shape[0], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()
        ), 128
    channels, unit = shape[0], 8 if half else 16
    if kind == "minatar":
        convolutions = nn.Sequential(nn.Conv2d(channels, unit, 3), nn.ReLU(), nn.Flatten())
        n_hidden = 128
    else:
        convolutions = nn.Sequential(
            nn.Conv2d(channels, 2 * unit, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(2 * unit, 4 * unit, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(4 * unit, 4 * unit, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        n_hidden = 512
    n_flat = convolutions(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(convolutions, nn.Linear(n_flat, n_hidden), nn.ReLU()), n_hidden
