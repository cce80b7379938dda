"""Q networks: an encoder with one hidden dense layer, and a linear head.

``nature`` is that of Mnih et al. (2015), ``minatar`` that of Young & Tian (2019), ``vector`` two
dense layers. Whole numbers come as they are stored and are divided by ``input_scale``; floats are
taken as they are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from needreplay.core.errors import NeedReplayError
from needreplay.deep.settings import Network

Shape = tuple[int, ...]

_RANK: dict[Network, int] = {"nature": 3, "minatar": 3, "vector": 1}
MOST_OF_A_PIXEL = 255.0
INPUT_SCALE: dict[Network, float] = {"nature": MOST_OF_A_PIXEL, "minatar": 1.0, "vector": 1.0}
"""What observations in whole numbers are divided by."""


class QNetwork(nn.Module):
    """Q(s, ·), and the features of its last hidden layer."""

    def __init__(self, network: Network, shape: Shape, n_actions: int) -> None:
        super().__init__()
        check_shape(network, shape)
        self.body, self.n_hidden = q_body(network, shape)
        self.head = nn.Linear(self.n_hidden, n_actions)
        self.input_scale = INPUT_SCALE[network]

    def hidden(self, obs: Tensor) -> Tensor:
        """The last hidden layer, after its ReLU."""
        features: Tensor = self.body(scaled(obs, self.input_scale))
        return features

    def forward(self, obs: Tensor) -> Tensor:
        """Q(s, a) for every action a, one row for each observation."""
        values: Tensor = self.head(self.hidden(obs))
        return values


def scaled(obs: Tensor, scale: float) -> Tensor:
    """Observations as floats: whole numbers divided by ``scale``, floats as they are."""
    if obs.is_floating_point() or scale == 1.0:
        return obs.float()
    return obs.float() / scale


def check_shape(network: Network, shape: Shape) -> None:
    """Refuse observations that a network is not made for."""
    if len(shape) != _RANK[network]:
        raise NeedReplayError(
            f"The network {network!r} takes observations of {_RANK[network]} axes, but these have "
            f"the shape {shape}; choose the network that suits the world."
        )


def q_body(network: Network, shape: Shape) -> tuple[nn.Module, int]:
    """All layers below the head, and how many units the last of them has."""
    if network == "vector":
        return nn.Sequential(
            nn.Linear(shape[0], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()
        ), 128
    channels = shape[0]
    if network == "minatar":
        convolutions = nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten())
        n_hidden = 128
    else:
        convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        n_hidden = 512
    n_flat = convolutions(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(convolutions, nn.Linear(n_flat, n_hidden), nn.ReLU()), n_hidden


class SameConv(nn.Module):
    """A convolution whose output has ceil(input / stride) rows, padded as TensorFlow's 'same'."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(n_in, n_out, kernel, stride=stride)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """Pad below and to the right by the odd cell, where the padding is odd."""
        before_h, after_h = self._padding(x.shape[-2])
        before_w, after_w = self._padding(x.shape[-1])
        padded = nn.functional.pad(x, (before_w, after_w, before_h, after_h))
        out: Tensor = self.convolution(padded)
        return out

    def _padding(self, size: int) -> tuple[int, int]:
        rows = math.ceil(size / self.stride)
        total = max(0, (rows - 1) * self.stride + self.kernel - size)
        return total // 2, total - total // 2


class Crop(nn.Module):
    """The first rows and columns of an image."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns

    def forward(self, x: Tensor) -> Tensor:
        """Cut off what is below and to the right."""
        return x[..., : self.rows, : self.columns]


class SameDeconv(nn.Module):
    """A transposed convolution to ``stride`` times the rows, cropped as TensorFlow's 'same'."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.ConvTranspose2d(n_in, n_out, kernel, stride=stride)
        self.before = (kernel - stride) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """What is left of the full output when the border is cut off."""
        height, width = x.shape[-2] * self.stride, x.shape[-1] * self.stride
        full: Tensor = self.convolution(x)
        cut = self.before
        return full[..., cut : cut + height, cut : cut + width]
