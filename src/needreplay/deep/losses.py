"""What is minimised: the Q-loss, and the two losses of the deep successor network.

Yuan & Mattar, equations 10 (l_g), 11 (l_u) and Algorithm 3; each a few lines on tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

Reduction = Literal["sum", "mean"]

Gradients = Sequence[tuple[Tensor, Tensor]]
"""Parameters, each with its gradient."""


class Losses(NamedTuple):
    """What one step of the optimiser goes down."""

    loss: Tensor | None
    """what torch has to go back through, if anything"""
    gradients: Gradients = ()
    """what is known without that; of other parameters than the loss has"""

    def plus(self, loss: Tensor) -> Losses:
        """These and one more loss, so that one way back serves both."""
        return self._replace(loss=loss if self.loss is None else loss + self.loss)

    def backward(self) -> None:
        """Every parameter that the losses move has its gradient from now on."""
        if self.loss is not None:
            self.loss.backward()  # type: ignore[no-untyped-call]
        for parameter, gradient in self.gradients:
            parameter.grad = gradient


def chosen(values: Tensor, action: Tensor) -> Tensor:
    """values[i, action[i]] for every row i."""
    return values.gather(1, action.unsqueeze(1)).squeeze(1)


def td_errors(reward: Tensor, discount: Tensor, next_value: Tensor, value: Tensor) -> Tensor:
    """δ = r + γ V(s') − Q(s, a); the discount is 0 where the episode terminated."""
    return reward + discount * next_value - value


def huber(error: Tensor) -> Tensor:
    """error² / 2 up to |error| = 1, and |error| − 1/2 beyond."""
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none")


def q_loss(error: Tensor, weight: Tensor, need: Tensor | None) -> Tensor:
    """Mean of w_j · need_j · huber(δ_j): Algorithm 3's update, and PER's where need is 1."""
    losses = weight * huber(error)
    return (losses if need is None else losses * need).mean()


def gain_of(error: Tensor, kind: Literal["abs", "sqrt-huber"], floor: float) -> Tensor:
    """What the memory is told: |δ| + floor (Schaul et al.) or sqrt(huber(δ) + 1e-10) (PSER)."""
    if kind == "abs":
        return error.abs() + floor
    return torch.sqrt(huber(error) + 1e-10)


def decoder_loss(decoded: Tensor, obs: Tensor, kind: Literal["squared", "huber"]) -> Tensor:
    """l_g = |s − g(φ)|², summed over s; or the mean Huber loss on pixels, as released (0..255)."""
    if kind == "huber":
        return functional.huber_loss(decoded * 255.0, obs * 255.0)
    return (decoded - obs).square().sum() / len(obs)


def successor_target(
    features: Tensor,
    next_features: Tensor,
    next_successor: Tensor,
    discount: Tensor,
    gamma: float,
    terminal: Literal["masked", "last", "unmasked"],
) -> Tensor:
    """φ(s) + γ m(s', a'); at a terminal as ``terminal`` says.

    ``masked``: φ(s). ``last``: φ(s) + γ φ(s'), for s' is visited once and left no more.
    ``unmasked``: as if the episode went on.
    """
    if terminal == "unmasked":
        return features + gamma * next_successor
    carried = discount.unsqueeze(1) * next_successor
    if terminal == "last":
        ended = (discount == 0.0).unsqueeze(1)
        carried = torch.where(ended, gamma * next_features, carried)
    return features + carried


def successor_loss(predicted: Tensor, target: Tensor, reduction: Reduction) -> Tensor:
    """l_u = |φ + γ m' − m|², summed over features (as printed) or their mean (as released)."""
    squares = (target - predicted).square()
    return squares.mean() if reduction == "mean" else squares.sum() / len(predicted)


def successor_error(predicted: Tensor, target: Tensor, reduction: Reduction) -> Tensor:
    """∂ l_u / ∂ m = 2 (m − φ − γ m') over the number of rows, or of numbers."""
    count = predicted.numel() if reduction == "mean" else len(predicted)
    return (predicted - target) * (2.0 / count)
