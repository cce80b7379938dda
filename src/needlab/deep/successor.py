"""Learning the deep successor representation, and need from it (the other half of Algorithm 3)."""

from __future__ import annotations

import copy
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from needlab.deep.dqn import Transitions
from needlab.deep.need import project
from needlab.deep.networks import QNetwork, SuccessorNetwork, scaled
from needlab.deep.settings import DeepSettings


def decoder_loss(decoded: Tensor, obs: Tensor, kind: Literal["squared", "huber"]) -> Tensor:
    """l_g = |s − g(φ)|² (equation 9); ``huber``: the mean Huber loss on 0..255, as released."""
    if kind == "huber":
        return functional.huber_loss(decoded * 255.0, obs * 255.0)
    return (decoded - obs).square().sum() / len(obs)


def successor_target(
    features: Tensor,
    next_features: Tensor,
    next_successor: Tensor,
    discount: Tensor,
    gamma: float | Tensor,
    terminal: Literal["masked", "last", "unmasked"],
) -> Tensor:
    """φ(s) + γ m(s', a'): φ(s) of the online network, φ(s') and m of the target network.

    At a terminal: φ(s) if ``masked``; φ(s) + γ φ(s') if ``last``, because s' is visited once; no
    exception if ``unmasked``. With n-step returns γ is γ^k, one for each transition: k is n, or the
    steps that were left in the episode.
    """
    if isinstance(gamma, Tensor):
        gamma = gamma.unsqueeze(1)
    if terminal == "unmasked":
        return features + gamma * next_successor
    bootstrap = discount.unsqueeze(1) * next_successor
    if terminal == "last":
        terminated = (discount == 0.0).unsqueeze(1)
        bootstrap = torch.where(terminated, gamma * next_features, bootstrap)
    return features + bootstrap


def successor_loss(predicted: Tensor, target: Tensor, reduction: Literal["sum", "mean"]) -> Tensor:
    """l_u = |φ + γ m' − m|² (equation 10): summed over features, or their mean as released."""
    squares = (target - predicted).square()
    return squares.mean() if reduction == "mean" else squares.sum() / len(predicted)


class Current(NamedTuple):
    """Where need looks from: one row of features φ(s) and of successor features m(s, a)."""

    features: Tensor
    successor: Tensor


class SuccessorLearner:
    """A successor network, its target network, and the Q network whose layers it may share."""

    def __init__(self, settings: DeepSettings, network: SuccessorNetwork, q: QNetwork) -> None:
        self.settings = settings
        self.online = network
        self.q = q
        self.has_target = settings.successor_target_period > 0
        self.target = copy.deepcopy(network).requires_grad_(False) if self.has_target else network
        self.updates = 0
        """losses computed so far, for ``decoder_period``"""

    def features(self, obs: Tensor) -> Tensor:
        """φ(s); a shared encoder's features carry no gradient."""
        if self.online.encoder is not None:
            return self.online.features(obs)
        with torch.no_grad():
            return self.q.hidden(obs)

    def current(self, obs: Tensor, action: Tensor, hidden: Tensor) -> Current:
        """φ and m of the pair that need looks from; ``hidden`` is the Q network's layer at s."""
        with torch.set_grad_enabled(self.settings.need_moves_features):
            features = hidden if self.online.encoder is None else self.online.features(obs)
        with torch.no_grad():
            return Current(features, self.online.successor(features, action))

    def need(self, current: Current, features: Tensor, action: Tensor) -> Tensor:
        """How soon and often the current pair leads to each transition's state; or the reverse.

        With ``need_moves_features`` 1 / |φ|² carries a gradient into the encoder.
        """
        with torch.set_grad_enabled(self.settings.need_moves_features):
            if self.settings.direction == "forward":
                return project(current.successor, features)
            return project(self.online.successor(features, action), current.features)

    def loss(
        self,
        batch: Transitions,
        features: Tensor,
        next_action: Tensor,
        next_shared: Tensor | None = None,
    ) -> Tensor:
        """l_u + l_g of the batch.

        Without ``successor_moves_features``, l_u trains u only and l_g alone trains f.

        Args:
            batch: the transitions.
            features: φ(s) of the batch, with their gradient.
            next_action: a' of the target φ(s) + γ m(s', a').
            next_shared: φ(s') from a shared encoder, if already known.
        """
        settings = self.settings
        phi = features if settings.successor_moves_features else features.detach()
        with torch.set_grad_enabled(settings.successor_moves_features and not self.has_target):
            if self.target.encoder is not None:
                next_features = self.target.features(batch.next_obs)
            elif next_shared is None:
                next_features = self.features(batch.next_obs)
            else:
                next_features = next_shared
            next_successor = self.target.successor(next_features, next_action)
        target = successor_target(
            phi,
            next_features,
            next_successor,
            batch.discount,
            settings.discount if batch.power is None else batch.power,
            settings.successor_terminal,
        )
        reduction: Literal["sum", "mean"] = "mean" if settings.pixel_loss == "huber" else "sum"
        loss = successor_loss(self.online.successor(phi, batch.action), target, reduction)
        if self.online.decoder is not None and self.updates % settings.decoder_period == 0:
            pixels = scaled(batch.obs, self.online.input_scale)
            loss = loss + decoder_loss(self.online.decoder(features), pixels, settings.pixel_loss)
        self.updates += 1
        return loss

    def update_target(self) -> None:
        """Copy the online network to the target network."""
        self.target.load_state_dict(self.online.state_dict())
