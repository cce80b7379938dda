"""Learning the deep successor representation, and need from it (Algorithm 3's other half)."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from needreplay.deep.losses import decoder_loss, successor_loss, successor_target
from needreplay.deep.need import projected
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

    def present(self, obs: Tensor, action: Tensor | None = None) -> Present:
        """φ and m of the state that need is asked from, with its greedy action unless one is given.

        Of a shared encoder one pass serves both.
        """
        hidden = None
        if action is None:
            with torch.no_grad():
                hidden = self.q.hidden(obs)
                action = self.q.head(hidden).argmax(1)
        shared = self.online.encoder is None and hidden is not None
        features = hidden if shared else self.features(obs)
        assert features is not None
        return Present(features, self.online.successor(features, action))

    def need(self, present: Present, features: Tensor, action: Tensor) -> Tensor:
        """How much the present leads to each transition's state, or that to the present."""
        if self.settings.direction == "forward":
            return projected(present.successor, features)
        return projected(self.online.successor(features, action), present.features)

    def loss(
        self,
        batch: Transitions,
        features: Tensor,
        next_action: Tensor,
        next_shared: Tensor | None = None,
    ) -> Tensor:
        """l_u + l_g of the batch, whose features (with their gradient) are given.

        ``next_shared`` are the features of s' where the encoder is shared, if they are known.
        Without ``successor_moves_features`` l_u moves u alone, and only l_g moves f.
        """
        settings = self.settings
        fixed = features if settings.successor_moves_features else features.detach()
        predicted = self.online.successor(fixed, batch.action)
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
        loss = successor_loss(
            predicted, target, "mean" if settings.pixel_loss == "huber" else "sum"
        )
        if self.online.decoder is not None and self.updates % settings.decoder_period == 0:
            pixels = scaled(batch.obs, self.online.input_scale)
            loss = loss + decoder_loss(self.online.decoder(features), pixels, settings.pixel_loss)
        self.updates += 1
        return loss

    def _next_features(self, obs: Tensor, shared: Tensor | None) -> Tensor:
        if self.target.encoder is not None:
            return self.target.features(obs)
        return self.features(obs) if shared is None else shared

    def copy_to_target(self) -> None:
        """The target has the online network's values from now on."""
        self.target.load_state_dict(self.online.state_dict())
