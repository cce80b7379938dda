"""RMSProp with TensorFlow's step, by hand; one optimizer, two step sizes."""

from __future__ import annotations

import pytest
import torch

from needlab.deep.optimizers import CenteredRMSProp, make_optimizer
from needlab.deep.presets import deep_preset


def test_two_steps_of_centered_rmsprop_by_hand() -> None:
    p = torch.tensor([1.0], requires_grad=True)
    optimizer = CenteredRMSProp([p], lr=0.1, decay=0.9, eps=0.01)
    value, mean, square = 1.0, 0.0, 1.0
    for gradient in (2.0, -1.0):
        p.grad = torch.tensor([gradient])
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.9 * square + 0.1 * gradient**2
        value -= 0.1 * gradient / (square - mean**2 + 0.01) ** 0.5
    assert p.item() == pytest.approx(value, rel=1e-6)


def test_a_parameter_without_gradient_does_not_move() -> None:
    p = torch.tensor([1.0], requires_grad=True)
    CenteredRMSProp([p], lr=0.1).step()
    assert p.item() == 1.0


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_the_step_cut_applies_to_the_q_network_only(optimizer: str) -> None:
    settings = deep_preset(
        "corrected", "minatar", "per-sr", step_cut=0.25, learning_rate=0.4, optimizer=optimizer
    )
    q, m = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    made = make_optimizer(settings, [q])
    made.add_param_group({"params": [m], "lr": settings.learning_rate})
    groups = made.param_groups
    assert [group["lr"] for group in groups] == [0.1, 0.4]
    assert [group["eps"] for group in groups] == [settings.optimizer_eps] * 2
