"""Errors, gains and losses, with numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

from needreplay.deep.losses import (
    decoder_loss,
    gain_of,
    huber,
    q_loss,
    successor_loss,
    successor_target,
    td_errors,
)


def test_td_error_by_hand() -> None:
    error = td_errors(
        tensor([1.0, 1.0]), tensor([0.5, 0.0]), tensor([4.0, 4.0]), tensor([2.0, 2.0])
    )
    assert error.tolist() == [1.0, -1.0]


def test_huber_by_hand() -> None:
    assert huber(tensor([0.5, -1.0, 3.0])).tolist() == [0.125, 0.5, 2.5]


def test_q_loss_is_weighed_by_importance_and_need() -> None:
    error, weight = tensor([2.0, -1.0]), tensor([0.5, 1.0])
    assert q_loss(error, weight, None).item() == pytest.approx((0.5 * 1.5 + 0.5) / 2)
    need = tensor([3.0, 0.0])
    assert q_loss(error, weight, need).item() == pytest.approx(0.5 * 1.5 * 3.0 / 2)


@pytest.mark.parametrize("zero", ["weight", "need"])
def test_weights_or_need_of_zero_give_zero_gradients(zero: str) -> None:
    error = tensor([2.0, -0.3, 0.7], requires_grad=True)
    factors = {"weight": torch.ones(3), "need": torch.ones(3)}
    factors[zero] = torch.zeros(3)
    q_loss(error, factors["weight"], factors["need"]).backward()  # type: ignore[no-untyped-call]
    assert error.grad is not None
    assert error.grad.tolist() == [0.0, 0.0, 0.0]


def test_gains_by_hand() -> None:
    error = tensor([-2.0, 0.0])
    assert gain_of(error, "abs", 0.5).tolist() == [2.5, 0.5]
    assert gain_of(error, "sqrt-huber", 0.5).tolist() == pytest.approx([1.5**0.5, 1e-5])


def test_decoder_losses_by_hand() -> None:
    decoded, obs = tensor([[0.0, 1.0], [0.5, 0.5]]), tensor([[1.0, 1.0], [0.5, 0.0]])
    assert decoder_loss(decoded, obs, "squared").item() == pytest.approx((1.0 + 0.25) / 2)
    # On pixels: errors of 255 and 127.5, Huber 254.5 and 127, and two zeros.
    assert decoder_loss(decoded, obs, "huber").item() == pytest.approx((254.5 + 127.0) / 4)


@pytest.mark.parametrize(
    ("terminal", "ended_row"),
    [
        ("masked", [1.0, 2.0]),
        ("last", [1.0 + 0.9 * 3.0, 2.0]),
        ("unmasked", [1.0 + 0.9 * 10.0, 2.0]),
    ],
)
def test_the_successor_target_and_what_it_is_at_a_terminal(
    terminal: str, ended_row: list[float]
) -> None:
    features = tensor([[1.0, 2.0], [1.0, 2.0]])
    next_features = tensor([[3.0, 0.0], [3.0, 0.0]])
    next_successor = tensor([[10.0, 0.0], [10.0, 0.0]])
    discount = tensor([0.9, 0.0])
    target = successor_target(
        features,
        next_features,
        next_successor,
        discount,
        0.9,
        terminal,  # type: ignore[arg-type]
    )
    assert target[0].tolist() == pytest.approx([10.0, 2.0])
    assert target[1].tolist() == pytest.approx(ended_row)


def test_successor_loss_by_hand() -> None:
    predicted, target = torch.zeros(2, 2), tensor([[1.0, 1.0], [2.0, 0.0]])
    assert successor_loss(predicted, target, "sum").item() == 3.0
    assert successor_loss(predicted, target, "mean").item() == 1.5
