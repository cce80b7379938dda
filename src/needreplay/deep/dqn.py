"""Double DQN (van Hasselt et al. 2016) and DQN (Mnih et al. 2015): values, errors, the target."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from needreplay.deep.losses import chosen, td_errors
from needreplay.deep.networks import QNetwork
from needreplay.deep.settings import Base
from needreplay.deep.tensors import Transitions


class Seen(NamedTuple):
    """What the online network makes of observations."""

    hidden: Tensor
    """its last hidden layer, without gradient"""
    action: Tensor
    """argmax_a Q(s, a)"""


class Errors(NamedTuple):
    """TD-errors of a batch, and what else came out of the passes that made them."""

    delta: Tensor
    """δ of every transition, with its gradient"""
    next_action: Tensor | None
    """argmax_a Q(s', a), where it was asked for or is part of the target"""
    hidden: Tensor
    """the last hidden layer at s, without gradient"""
    next_hidden: Tensor | None
    """the same at s', where the next action is known"""
    beside: Seen | None
    """of the observations that were given beside the batch"""


class QLearner:
    """A Q network and its target; the optimiser is the agent's."""

    def __init__(self, base: Base, network: QNetwork) -> None:
        self.base = base
        self.online = network
        self.target = copy.deepcopy(network).requires_grad_(False)

    def greedy(self, obs: Tensor) -> Tensor:
        """argmax_a Q(s, a) for every row."""
        with torch.no_grad():
            best: Tensor = self.online(obs).argmax(1)
            return best

    def seen(self, obs: Tensor) -> Seen:
        """One pass of the online network, without gradient."""
        with torch.no_grad():
            hidden = self.online.hidden(obs)
            return Seen(hidden, self.online.head(hidden).argmax(1))

    def errors(
        self, batch: Transitions, *, with_next_action: bool = True, beside: Tensor | None = None
    ) -> Errors:
        """δ = r + γ Q'(s', argmax_a Q(s', a)) − Q(s, a), and in plain DQN max_a Q'(s', a).

        Plain DQN without ``with_next_action`` saves the pass of s' through the online network.
        Observations ``beside`` the batch go through that pass too, which saves one for them alone.
        """
        next_hidden = next_action = seen_beside = None
        if with_next_action or beside is not None or self.base == "double-dqn":
            size = len(batch.next_obs)
            seen = self.seen(
                batch.next_obs if beside is None else torch.cat((batch.next_obs, beside))
            )
            next_hidden, next_action = seen.hidden[:size], seen.action[:size]
            if beside is not None:
                seen_beside = Seen(seen.hidden[size:], seen.action[size:])
        with torch.no_grad():
            next_values = self.target(batch.next_obs)
            if self.base == "double-dqn":
                assert next_action is not None
                next_value = chosen(next_values, next_action)
            else:
                next_value = next_values.max(1).values
        hidden = self.online.hidden(batch.obs)
        value = chosen(self.online.head(hidden), batch.action)
        delta = td_errors(batch.reward, batch.discount, next_value, value)
        return Errors(delta, next_action, hidden.detach(), next_hidden, seen_beside)

    def copy_to_target(self) -> None:
        """The target has the online network's values from now on."""
        self.target.load_state_dict(self.online.state_dict())
