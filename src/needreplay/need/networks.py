"""Layers over observations, for need models: rows of numbers, small planes, and frames.

``nature`` has the layers of Mnih et al. (2015), ``minatar`` those of Young & Tian (2019),
``vector`` two dense layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from needreplay._core.errors import NeedReplayError

__all__ = ["Kind", "Shape", "Standardized", "given_features", "kind_for", "layers", "need_layers"]

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


def need_layers(shape: Shape, *, contrastive: bool) -> tuple[nn.Module, int]:
    """The layers of a need model, and how many features there are.

    Those of contrastive learners have half the filters, which is as accurate and cheaper, and are
    normalized, which is more accurate (docs/need.md).
    """
    kind = kind_for(shape)
    body, n_hidden = layers(kind, shape, half=contrastive)
    if contrastive:
        body.insert(-1, nn.LayerNorm(n_hidden, elementwise_affine=False))
        body.append(nn.LayerNorm(n_hidden, elementwise_affine=False))
    return (Standardized(body, shape) if kind == "nature" else body), n_hidden


def given_features(
    features: Callable[[Tensor], Tensor], example: Tensor
) -> tuple[Callable[[Tensor], Tensor], int]:
    """A user's own features of observations, not trained, and how many there are."""
    with torch.no_grad():
        found = features(example)
    if found.ndim != 2:
        raise NeedReplayError(
            f"features returned shape {tuple(found.shape)} for one observation; it must return a "
            "row of numbers for each."
        )
    # Not the function itself: if it is a module, it would be trained with the model.
    return functools.partial(features), found.shape[1]


class Standardized(nn.Module):
    """Layers that see a frame minus the mean frame, divided by one standard deviation.

    Most of a frame never changes. On raw pixels the layers tell frames apart by a thousandth of
    their output, and need stays at chance.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, body: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(()))

    def forward(self, frames: Tensor) -> Tensor:
        """The features of frames."""
        return self.body((frames - self.mean) / self.deviation)  # type: ignore[no-any-return]

    def fit(self, frames: Tensor) -> None:
        """Take mean and deviation from these; once, so that stored vectors keep their meaning."""
        self.mean.copy_(frames.mean(0))
        self.deviation.copy_(frames.std(0).mean().clamp(min=0.01))
