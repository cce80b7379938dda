"""Learning the deep successor representation, and need from it (Algorithm 3's other half)."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from needreplay.deep.losses import (
    Gradients,
    Losses,
    Reduction,
    decoder_loss,
    successor_error,
    successor_loss,
    successor_target,
)
from needreplay.deep.need import projected, projections
from needreplay.deep.networks import QNetwork, scaled
from needreplay.deep.settings import DeepSettings
from needreplay.deep.successor import SuccessorNetwork
from needreplay.deep.tensors import Transitions


class Present(NamedTuple):
    """Where need is asked from: one row of features φ(s) and successor features m(s, a)."""

    features: Tensor
    successor: Tensor


class SuccessorLearner:
    """A successor network, its target, and the Q network whose layers it may share."""

    def __init__(self, settings: DeepSettings, network: SuccessorNetwork, q: QNetwork) -> None:
        self.settings = settings
        self.online = network
        self.q = q
        self.has_target = settings.successor_target_period > 0
        self.target = copy.deepcopy(network).requires_grad_(False) if self.has_target else network
        self.updates = 0
        """How often it has learned; counts the decoder's period."""

    def features(self, obs: Tensor) -> Tensor:
        """φ(s), of the own encoder or of the Q network, which successor losses do not move."""
        if self.online.encoder is not None:
            return self.online.features(obs)
        with torch.no_grad():
            return self.q.hidden(obs)

    def greedy(self, obs: Tensor, features: Tensor) -> Tensor:
        """argmax_a Q(s, a); of a shared encoder ``features`` are all that it takes."""
        if self.online.encoder is not None:
            features = self.q.hidden(obs)
        best: Tensor = self.q.head(features).argmax(1)
        return best

    def present(self, obs: Tensor, action: Tensor, hidden: Tensor) -> Present:
        """φ and m of the pair that need is asked from; ``hidden`` is the Q network's layer at s."""
        features = hidden if self.online.encoder is None else self.online.features(obs)
        return Present(features, self.online.successor(features, action))

    def need(self, present: Present, features: Tensor, action: Tensor) -> Tensor:
        """How much the present leads to each transition's state, or that to the present."""
        if self.settings.direction == "forward":
            successor, onto = present.successor, features
        else:
            successor, onto = self.online.successor(features, action), present.features
        if torch.is_grad_enabled() or not features.is_cpu:
            return projected(successor, onto)
        need = features.new_empty(len(features))
        projections(successor.detach().numpy(), onto.detach().numpy(), need.numpy())
        return need

    def losses(
        self,
        batch: Transitions,
        features: Tensor,
        next_action: Tensor,
        next_shared: Tensor | None = None,
    ) -> Losses:
        """l_u and l_g of the batch, whose features (with their gradient) are given.

        ``next_shared`` are the features of s' where the encoder is shared, if they are known.
        Without ``successor_moves_features`` l_u moves u alone, and only l_g moves f.
        """
        settings = self.settings
        fixed = features if settings.successor_moves_features else features.detach()
        with torch.set_grad_enabled(settings.successor_moves_features and not self.has_target):
            next_features = self._next_features(batch.next_obs, next_shared)
            next_successor = self.target.successor(next_features, next_action)
        target = successor_target(
            fixed,
            next_features,
            next_successor,
            batch.discount,
            settings.discount,
            settings.successor_terminal,
        )
        reduction: Reduction = "mean" if settings.pixel_loss == "huber" else "sum"
        loss: Tensor | None = None
        gradients: Gradients = ()
        if self._by_kernels:
            predicted, gradients_by = self.online.successor_and_back(fixed, batch.action)
            gradients = gradients_by(successor_error(predicted, target, reduction))
        else:
            predicted = self.online.successor(fixed, batch.action)
            loss = successor_loss(predicted, target, reduction)
        if self.online.decoder is not None and self.updates % settings.decoder_period == 0:
            pixels = scaled(batch.obs, self.online.input_scale)
            l_g = decoder_loss(self.online.decoder(features), pixels, settings.pixel_loss)
            loss = l_g if loss is None else loss + l_g
        self.updates += 1
        return Losses(loss, gradients)

    @property
    def _by_kernels(self) -> bool:
        """Whether l_u moves u alone, and kernels can say how."""
        return self.online.branches.has_kernels and not self.settings.successor_moves_features

    def _next_features(self, obs: Tensor, shared: Tensor | None) -> Tensor:
        if self.target.encoder is not None:
            return self.target.features(obs)
        return self.features(obs) if shared is None else shared

    def copy_to_target(self) -> None:
        """The target has the online network's values from now on."""
        self.target.load_state_dict(self.online.state_dict())
