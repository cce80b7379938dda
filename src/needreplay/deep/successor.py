"""The deep successor network: features f, successor features u, decoder g (the paper's figure 6).

φ = f(s); m(s, a) = u_a(φ); g(φ) is s again. ``nature`` has the released layers, ``minatar`` and
``vector`` the same plan in small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from needreplay.deep.branches import Branches
from needreplay.deep.losses import Gradients
from needreplay.deep.networks import (
    INPUT_SCALE,
    Crop,
    SameConv,
    SameDeconv,
    Shape,
    check_shape,
    scaled,
)
from needreplay.deep.settings import DeepSettings, Network

Back = Callable[[Tensor], Gradients]


class SuccessorNetwork(nn.Module):
    """f, u and g. With a shared encoder there is only u: features come from the Q network."""

    def __init__(self, settings: DeepSettings, shape: Shape, n_actions: int, n_shared: int) -> None:
        super().__init__()
        check_shape(settings.network, shape)
        own = settings.encoder == "own"
        nonnegative = settings.feature_sign == "nonnegative"
        self.n_features = settings.features if own else n_shared
        self.input_scale = INPUT_SCALE[settings.network]
        self.per_action = settings.successor_of == "pair"
        self.encoder = (
            encoder(settings.network, shape, self.n_features, nonnegative) if own else None
        )
        self.branches = Branches(
            n_actions if self.per_action else 1,
            self.n_features,
            settings.features,
            nonnegative=nonnegative,
        )
        self.decoder = (
            decoder(settings.network, shape, self.n_features, small=settings.decoder == "small")
            if own and settings.decoder != "none"
            else None
        )

    def features(self, obs: Tensor) -> Tensor:
        """φ(s) of the network's own encoder."""
        assert self.encoder is not None, "a shared encoder belongs to the Q network"
        features: Tensor = self.encoder(scaled(obs, self.input_scale))
        return features

    def successor(self, features: Tensor, action: Tensor) -> Tensor:
        """m(s, a) of features φ(s); the action does not matter where m is of the state alone."""
        m: Tensor = self.branches(features, self._branch(action))
        return m

    def successor_and_back(self, features: Tensor, action: Tensor) -> tuple[Tensor, Back]:
        """m(s, a) by kernels, and the way from a loss's gradient by m to that of u's parameters."""
        passed = self.branches.passed(features, self._branch(action))
        return self.branches.signed(passed.linear), partial(self.branches.gradients, passed)

    def _branch(self, action: Tensor) -> Tensor:
        return action if self.per_action else torch.zeros_like(action)


def encoder(network: Network, shape: Shape, n_features: int, nonnegative: bool) -> nn.Module:
    """f: observations to features, linear at the end, or with a ReLU where nothing is negative."""
    layers: list[nn.Module]
    if network == "vector":
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
        rows, columns = _quarter_third(shape[1]), _quarter_third(shape[2])
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


def decoder(network: Network, shape: Shape, n_features: int, *, small: bool) -> nn.Module:
    """g: features back to observations divided by ``input_scale``; linear at the end.

    ``small`` has a quarter of the channels.
    """
    part = 4 if small else 1
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
    rows, columns = _quarter_third(shape[1]), _quarter_third(shape[2])
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


def _quarter_third(size: int) -> int:
    """Rows after strides of 4 and 3 with 'same' padding: 84 becomes 7."""
    return math.ceil(math.ceil(size / 4) / 3)
