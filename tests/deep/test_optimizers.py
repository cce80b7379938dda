"""Adam as torch has it, RMSProp as TensorFlow has it, by hand; one optimiser, two step sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from needreplay.deep.optimizers import (
    CenteredRMSProp,
    LeanAdam,
    clear_gradients,
    make_optimizer,
)
from needreplay.deep.presets import deep_preset


def walk(optimizer: torch.optim.Optimizer, gradients: list[list[torch.Tensor | None]]) -> None:
    """A step for each row: one gradient, or none, for each parameter."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for row in gradients:
        for p, gradient in zip(parameters, row, strict=True):
            p.grad = gradient
        optimizer.step()


def test_lean_adam_is_torchs_fused_adam_bit_for_bit() -> None:
    chance = torch.Generator().manual_seed(0)
    shapes = [(7, 5), (5,), (3, 2, 2), (11,)]
    start = [torch.randn(shape, generator=chance) for shape in shapes]
    rows: list[list[torch.Tensor | None]] = [
        [torch.randn(shape, generator=chance) for shape in shapes] for _ in range(6)
    ]
    # The second group rests in one step, as where the two networks learn apart.
    rows[2][2:] = None, None

    def groups() -> list[dict[str, Any]]:
        own = [tensor.clone().requires_grad_() for tensor in start]
        return [{"params": own[:2], "lr": 0.01}, {"params": own[2:], "lr": 0.05}]

    lean = LeanAdam(groups(), lr=0.1, eps=1e-4)
    theirs = torch.optim.Adam(groups(), lr=0.1, eps=1e-4, fused=True)
    walk(lean, rows[:4])
    walk(theirs, rows[:4])
    # Each goes on with what the other has kept.
    kept, their_kept = lean.state_dict(), theirs.state_dict()
    lean.load_state_dict(their_kept)
    theirs.load_state_dict(kept)
    walk(lean, rows[4:])
    walk(theirs, rows[4:])
    for group, their_group in zip(lean.param_groups, theirs.param_groups, strict=True):
        for p, q in zip(group["params"], their_group["params"], strict=True):
            assert torch.equal(p, q)
            assert lean.state[p]["step"] == theirs.state[q]["step"]


def test_cleared_gradients_are_none() -> None:
    p = torch.ones(2, requires_grad=True)
    optimizer = LeanAdam([p], lr=0.1, eps=1e-8)
    p.sum().backward()  # type: ignore[no-untyped-call]
    assert p.grad is not None
    clear_gradients(optimizer)
    assert p.grad is None


def test_two_steps_of_centred_rmsprop_by_hand() -> None:
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


def test_a_parameter_without_gradient_stays() -> None:
    p = torch.tensor([1.0], requires_grad=True)
    CenteredRMSProp([p], lr=0.1).step()
    assert p.item() == 1.0


def test_the_step_cut_concerns_the_q_network_alone() -> None:
    settings = deep_preset("corrected", "minatar", "per-sr", step_cut=0.25, learning_rate=0.4)
    q, m = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    groups = make_optimizer(settings, [q], [m]).param_groups
    assert [group["lr"] for group in groups] == [0.1, 0.4]
