"""The networks: Q(s, ·), and the deep successor network of the paper's figure 6.

``nature`` has the layers of Mnih et al. (2015) and of the paper's code, ``minatar`` those of Young
& Tian (2019), ``vector`` two dense layers. Integer observations are divided by ``INPUT_SCALE``;
floats are not scaled.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from needlab.core.imports import call_object, call_users
from needlab.deep.settings import DeepSettings
from needreplay._core.errors import NeedReplayError
from needreplay.need.networks import Kind, Shape, layers

MAX_PIXEL = 255.0
INPUT_SCALE: dict[str, float] = {"nature": MAX_PIXEL, "minatar": 1.0, "vector": 1.0}
_AXES: dict[str, int] = {"nature": 3, "minatar": 3, "vector": 1}


class QNetwork(nn.Module):
    """Q(s, ·): layers up to the last hidden one (``body``), and a linear head."""

    def __init__(self, network: str, shape: Shape, n_actions: int) -> None:
        super().__init__()
        check_shape(network, shape)
        self.network, self.shape = network, shape
        self.body, self.n_hidden = q_body(network, shape)
        self.head = nn.Linear(self.n_hidden, n_actions)
        self.input_scale = INPUT_SCALE.get(network, 1.0)

    def untrained(self) -> QNetwork:
        """Another one with the same layers, as it begins."""
        return QNetwork(self.network, self.shape, self.head.out_features)

    def hidden(self, obs: Tensor) -> Tensor:
        """The last hidden layer, after its ReLU."""
        features: Tensor = self.body(scaled(obs, self.input_scale))
        return features

    def normalized_hidden(self, obs: Tensor) -> Tensor:
        """The last hidden layer, normalized."""
        return normalized(self.hidden(obs))

    def forward(self, obs: Tensor) -> Tensor:
        """Q(s, a) for every action a, one row per observation."""
        values: Tensor = self.head(self.hidden(obs))
        return values


def normalized(hidden: Tensor) -> Tensor:
    """A layer's outputs, scaled in each row to mean 0 and variance 1."""
    return functional.layer_norm(hidden, hidden.shape[1:])


def scaled(obs: Tensor, scale: float) -> Tensor:
    """Observations as float32: integers divided by ``scale``, floats unchanged."""
    if obs.is_floating_point() or scale == 1.0:
        return obs.float()
    return obs.float() / scale


def check_shape(network: str, shape: Shape) -> None:
    """Raise for observations with the wrong number of axes; the user's own networks know theirs."""
    if len(shape) != _AXES.get(network, len(shape)):
        raise NeedReplayError(
            f"The network {network!r} takes observations with {_AXES[network]} axes, but these "
            f"have the shape {shape}; choose the network that fits the world."
        )


def own_body(network: str, shape: Shape) -> tuple[nn.Module, int]:
    """Layers that the user's function ``module:name`` makes, and how many features they give."""
    body, features = call_object(network, shape), None
    if isinstance(body, nn.Module):
        features = call_users(f"The module of {network!r}", body, torch.zeros(1, *shape))
    if not isinstance(features, Tensor) or features.ndim != 2:
        raise NeedReplayError(
            f"The network {network!r} must take the shape of an observation and return a torch "
            "module from observations (a float tensor) to rows of features."
        )
    return body, features.shape[1]


def q_body(network: str, shape: Shape) -> tuple[nn.Module, int]:
    """All layers below the head, and the number of units in the last of them."""
    if ":" in network:
        return own_body(network, shape)
    return layers(cast(Kind, network), shape)


class SuccessorNetwork(nn.Module):
    """φ = f(s) (encoder), m(s, a) = u_a(φ) (branches), g(φ) ≈ s (decoder).

    With a shared encoder there is only u: the features are the Q network's last hidden layer.
    """

    def __init__(self, settings: DeepSettings, shape: Shape, n_actions: int, n_shared: int) -> None:
        super().__init__()
        network, paper = settings.network, settings.paper
        check_shape(network, shape)
        own = settings.encoder == "own"
        nonnegative = paper.feature_sign == "nonnegative"
        self.n_features = paper.features if own else n_shared
        self.input_scale = INPUT_SCALE.get(network, 1.0)
        self.per_action = paper.successor_of == "pair"
        self.encoder = encoder(network, shape, self.n_features, nonnegative) if own else None
        self.branches = Branches(
            n_actions if self.per_action else 1,
            self.n_features,
            paper.features,
            nonnegative=nonnegative,
        )
        self.decoder = (
            decoder(network, shape, self.n_features, small=paper.decoder == "small")
            if own and paper.decoder != "none"
            else None
        )

    def features(self, obs: Tensor) -> Tensor:
        """φ(s) from the network's own encoder."""
        assert self.encoder is not None, "a shared encoder belongs to the Q network"
        features: Tensor = self.encoder(scaled(obs, self.input_scale))
        return features

    def successor(self, features: Tensor, action: Tensor) -> Tensor:
        """m(s, a) from φ(s); if m depends on the state only, the action has no effect."""
        branch = action if self.per_action else torch.zeros_like(action)
        m: Tensor = self.branches(features, branch)
        return m


class Branches(nn.Module):
    """u: per action, three dense layers from d features over h and h / 2 units to d.

    ReLU between layers; softplus at the end if successor features must not be negative. A weight is
    (branch, n_in, n_out) and a bias (branch, 1, n_out), so that one product serves all branches.
    """

    def __init__(
        self, n_branches: int, n_features: int, n_hidden: int, *, nonnegative: bool
    ) -> None:
        super().__init__()
        self.nonnegative = nonnegative
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for n_in, n_out in pairwise((n_features, n_hidden, max(1, n_hidden // 2), n_features)):
            bound = n_in**-0.5
            self.weights.append(torch.empty(n_branches, n_in, n_out).uniform_(-bound, bound))
            self.biases.append(torch.empty(n_branches, 1, n_out).uniform_(-bound, bound))

    def forward(self, features: Tensor, branch: Tensor) -> Tensor:
        """Row i of ``features`` through branch ``branch[i]``."""
        x = features.expand(len(self.weights[0]), *features.shape)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, functional.relu(x) if layer else x, weight)
        x = x.gather(0, branch.view(1, -1, 1).expand(1, *x.shape[1:])).squeeze(0)
        return functional.softplus(x) if self.nonnegative else x


def encoder(network: str, shape: Shape, n_features: int, nonnegative: bool) -> nn.Module:
    """f: observations to features; linear at the end, or a ReLU if ``nonnegative``."""
    layers: list[nn.Module]
    if ":" in network:
        body, n_hidden = own_body(network, shape)
        layers = [body, nn.Linear(n_hidden, n_features)]
    elif network == "vector":
        layers = [nn.Linear(shape[0], 64), nn.ReLU(), nn.Linear(64, n_features)]
    elif network == "minatar":
        n_flat = 16 * (shape[1] - 2) * (shape[2] - 2)
        layers = [
            nn.Conv2d(shape[0], 16, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(n_flat, n_features),
        ]
    else:
        rows, columns = _rows_after_strides(shape[1]), _rows_after_strides(shape[2])
        layers = [
            SameConv(shape[0], 32, 8, 4),
            nn.ReLU(),
            SameConv(32, 64, 6, 3),
            nn.ReLU(),
            SameConv(64, 64, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * rows * columns, n_features),
        ]
    return nn.Sequential(*layers, *([nn.ReLU()] if nonnegative else []))


def decoder(network: str, shape: Shape, n_features: int, *, small: bool) -> nn.Module:
    """g: features to scaled observations; linear at the end. ``small``: a quarter of the width."""
    part = 4 if small else 1
    if ":" in network:
        network = "vector" if len(shape) == 1 else "minatar"
    if network == "vector":
        width = 64 // part
        return nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, shape[0]))
    if network == "minatar":
        width = 128 // part
        return nn.Sequential(
            nn.Linear(n_features, width),
            nn.ReLU(),
            nn.Linear(width, math.prod(shape)),
            nn.Unflatten(1, shape),
        )
    rows, columns = _rows_after_strides(shape[1]), _rows_after_strides(shape[2])
    wide, narrow = 64 // part, 32 // part
    return nn.Sequential(
        nn.Linear(n_features, rows * columns * 4),
        nn.ReLU(),
        nn.Unflatten(1, (4, rows, columns)),
        SameDeconv(4, wide, 3, 1),
        nn.ReLU(),
        SameDeconv(wide, wide, 6, 3),
        nn.ReLU(),
        SameDeconv(wide, narrow, 8, 4),
        nn.ReLU(),
        SameConv(narrow, shape[0], 4, 1),
        Crop(shape[1], shape[2]),
    )


def _rows_after_strides(size: int) -> int:
    """Rows after strides of 4 and 3 with 'same' padding: 84 becomes 7."""
    return math.ceil(math.ceil(size / 4) / 3)


class SameConv(nn.Module):
    """A convolution with ceil(input / stride) output rows, padded like TensorFlow's 'same'."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(n_in, n_out, kernel, stride=stride)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """If the padding is odd, the extra cell is below and to the right."""
        before_h, after_h = self._padding(x.shape[-2])
        before_w, after_w = self._padding(x.shape[-1])
        padded = functional.pad(x, (before_w, after_w, before_h, after_h))
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
    """A transposed convolution to ``stride`` times the rows, cropped like TensorFlow's 'same'."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.ConvTranspose2d(n_in, n_out, kernel, stride=stride)
        self.before = (kernel - stride) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Crop the border of the full output."""
        height, width = x.shape[-2] * self.stride, x.shape[-1] * self.stride
        full: Tensor = self.convolution(x)
        cut = self.before
        return full[..., cut : cut + height, cut : cut + width]
