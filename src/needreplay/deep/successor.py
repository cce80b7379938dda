"""The deep successor network: features f, successor features u, decoder g (the paper's figure 6).

φ = f(s); m(s, a) = u_a(φ); g(φ) is s again. ``nature`` has the released layers, ``minatar`` and
``vector`` the same plan in small.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from needreplay.deep.networks import INPUT_SCALE, SameConv, SameDeconv, Shape, check_shape, scaled
from needreplay.deep.settings import DeepSettings, Network


class Branches(nn.Module):
    """u: a small network of its own for each action, all computed in three products.

    Per action dense h, h / 2 (ReLU), d (linear, or softplus where nothing may be negative), from d
    features with h hidden units.
    """

    def __init__(
        self, n_branches: int, n_features: int, n_hidden: int, *, nonnegative: bool
    ) -> None:
        super().__init__()
        sizes = [n_features, n_hidden, max(1, n_hidden // 2), n_features]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for n_in, n_out in pairwise(sizes):
            bound = n_in**-0.5
            weight = torch.empty(n_branches, n_in, n_out).uniform_(-bound, bound)
            bias = torch.empty(n_branches, 1, n_out).uniform_(-bound, bound)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))
        self.n_branches = n_branches
        self.nonnegative = nonnegative

    def forward(self, features: Tensor, branch: Tensor) -> Tensor:
        """m of each row of ``features``, by the branch that ``branch`` names for it."""
        single = self.n_branches == 1
        x = features if single else features.expand(self.n_branches, *features.shape)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.addmm(bias[0], x, weight[0]) if single else torch.baddbmm(bias, x, weight)
            x = functional.relu(x) if layer < last else x
        if not single:
            x = x.gather(0, branch.view(1, -1, 1).expand(1, *x.shape[1:])).squeeze(0)
        return functional.softplus(x) if self.nonnegative else x


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
        branch = action if self.per_action else torch.zeros_like(action)
        m: Tensor = self.branches(features, branch)
        return m


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
    )


def _quarter_third(size: int) -> int:
    """Rows after strides of 4 and 3 with 'same' padding: 84 becomes 7."""
    return math.ceil(math.ceil(size / 4) / 3)
