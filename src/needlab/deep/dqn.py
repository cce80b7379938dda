"""DQN (Mnih et al. 2015) and double DQN (van Hasselt et al. 2016): batches, TD errors, the loss."""

from __future__ import annotations

import copy
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from needlab.deep.networks import MAX_PIXEL, QNetwork
from needlab.deep.settings import Base, DeepSettings
from needreplay._core.types import AnyArray
from needreplay.replay import Batch, ReplayBuffer


class Transitions(NamedTuple):
    """A batch as tensors on the agent's device, one row per transition."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    """γ^n, and 0 where the episode terminated"""
    weight: Tensor
    next_action: Tensor | None
    """the action taken in s', if the buffer stores it"""
    power: Tensor | None = None
    """γ^k of the k steps to s', also where the episode terminated; None: it is γ"""


def to_tensor(array: AnyArray, device: torch.device) -> Tensor:
    """The array as a tensor; on the CPU both share memory."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def is_channels_last(shape: tuple[int, ...], device: torch.device) -> bool:
    """Whether networks see such observations channels last: large images, on the CPU.

    Convolutions are faster so there.
    """
    return device.type == "cpu" and len(shape) == 3 and shape[-1] > 32


def obs_tensor(obs: AnyArray, device: torch.device) -> Tensor:
    """Observations for the networks, with the values that the buffer stores.

    Exception: on the CPU, large images become floats from 0 to 1 in the channels-last layout.
    """
    tensor = to_tensor(obs, device)
    if obs.dtype == np.uint8 and is_channels_last(obs.shape[1:], device):
        return tensor.contiguous(memory_format=torch.channels_last) / MAX_PIXEL
    return tensor


def to_transitions(
    batch: Batch, buffer: ReplayBuffer, settings: DeepSettings, device: torch.device
) -> Transitions:
    """The columns of ``batch`` that a learner needs, and γ^k with n-step returns."""
    columns, power = batch.columns, None
    next_action = columns.get("next_action")
    if settings.n_step > 1:
        # A transition of k steps to a terminal is followed by the k - 1 shorter ones to it.
        steps = [buffer.future(batch.ids, k) >= 0 for k in range(settings.n_step)]
        to_end = settings.discount ** np.sum(steps, 0)
        known = np.where(columns["discount"] > 0.0, columns["discount"], to_end)
        power = to_tensor(known.astype(np.float32), device)
    return Transitions(
        obs=obs_tensor(columns["obs"], device),
        action=to_tensor(columns["action"], device),
        reward=to_tensor(columns["reward"], device),
        next_obs=obs_tensor(columns["next_obs"], device),
        discount=to_tensor(columns["discount"], device),
        weight=to_tensor(batch.weights.astype(np.float32), device),
        next_action=None if next_action is None else to_tensor(next_action, device),
        power=power,
    )


def select(values: Tensor, action: Tensor) -> Tensor:
    """values[i, action[i]] for every row i."""
    return values.gather(1, action.unsqueeze(1)).squeeze(1)


def td_error(reward: Tensor, discount: Tensor, next_value: Tensor, value: Tensor) -> Tensor:
    """δ = r + γ V(s') − Q(s, a)."""
    return reward + discount * next_value - value


def huber(error: Tensor) -> Tensor:
    """error² / 2 up to |error| = 1, and |error| − 1/2 beyond."""
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none")


def q_loss(error: Tensor, weight: Tensor, need: Tensor | None) -> Tensor:
    """Mean of w_j · need_j · huber(δ_j): Algorithm 3's update, and PER's without need."""
    losses = weight * huber(error)
    return (losses if need is None else losses * need).mean()


def priority_of(error: Tensor, gain: Literal["abs", "sqrt-huber"], floor: float) -> Tensor:
    """|δ| + floor (Schaul et al. 2016) or sqrt(huber(δ) + 1e-10) (PSER's code)."""
    return error.abs() + floor if gain == "abs" else torch.sqrt(huber(error) + 1e-10)


class QPass(NamedTuple):
    """What the Q networks computed on a batch."""

    error: Tensor
    """δ of each transition, with its gradient"""
    hidden: Tensor
    """the last hidden layer at s, without gradient"""
    next_hidden: Tensor | None
    """the same at s', unless plain DQN skipped that pass"""
    next_greedy: Tensor | None
    """argmax_a Q(s', a), unless plain DQN skipped that pass"""


class QLearner:
    """A Q network and its target network; the optimizer belongs to the agent."""

    def __init__(self, base: Base, network: QNetwork) -> None:
        self.base = base
        self.online = network
        self.target = copy.deepcopy(network).requires_grad_(False)

    @torch.no_grad()
    def best_action(self, obs: Tensor) -> int:
        """argmax_a Q(s, a) of one row."""
        return int(self.online(obs).argmax(1))

    def td_errors(self, batch: Transitions) -> QPass:
        """δ = r + γ Q'(s', argmax_a Q(s', a)) − Q(s, a); plain DQN: max_a Q'(s', a)."""
        next_hidden = next_greedy = None
        with torch.no_grad():
            next_values = self.target(batch.next_obs)
            if self.base == "double-dqn":
                next_hidden = self.online.hidden(batch.next_obs)
                next_greedy = self.online.head(next_hidden).argmax(1)
                next_value = select(next_values, next_greedy)
            else:
                next_value = next_values.max(1).values
        hidden = self.online.hidden(batch.obs)
        value = select(self.online.head(hidden), batch.action)
        error = td_error(batch.reward, batch.discount, next_value, value)
        return QPass(error, hidden.detach(), next_hidden, next_greedy)

    def update_target(self) -> None:
        """Copy the online network to the target network."""
        self.target.load_state_dict(self.online.state_dict())
