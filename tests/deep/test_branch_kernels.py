"""The successor branches in numba and in plain torch agree, with their gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from needreplay.deep.branch_kernels import can_run
from needreplay.deep.networks import Branches, SuccessorNetwork

from .walks import small_agent, taught

SIZES = [(6, 128, 64), (3, 4, 8), (2, 5, 3), (4, 7, 1), (1, 6, 9)]


def result(made: Branches, pull: torch.Tensor, *inputs: torch.Tensor) -> tuple[Any, Any]:
    """The output, and the gradient of the parameters if ``pull`` is the output's."""
    out = made(*inputs)
    (gradient,) = torch.autograd.grad(out, [made.packed], pull)
    return out.detach(), gradient


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("n_branches", "n_features", "n_hidden"), SIZES)
def test_kernels_and_torch_agree(
    n_branches: int,
    n_features: int,
    n_hidden: int,
    nonnegative: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    made = Branches(n_branches, n_features, n_hidden, nonnegative=nonnegative)
    features = torch.relu(torch.randn(11, n_features))
    branch, pull = torch.randint(0, n_branches, (11,)), torch.randn(11, n_features)
    assert can_run(features, made.packed)
    out, gradient = result(made, pull, features, branch)
    with torch.no_grad():
        assert torch.equal(made(features, branch), out)
    monkeypatch.setattr(Branches, "use_kernels", False)
    torch_out, torch_gradient = result(made, pull, features, branch)
    assert torch.allclose(out, torch_out, atol=1e-5)
    assert torch.allclose(gradient, torch_gradient, atol=1e-5)


def test_a_branch_without_rows_gets_no_gradient() -> None:
    made = Branches(3, 6, 8, nonnegative=False)
    branch = torch.ones(11, dtype=torch.int64)
    _, gradient = result(made, torch.ones(11, 6), torch.rand(11, 6), branch)
    assert not gradient[[0, 2]].any()
    assert gradient[1].any()


@pytest.mark.parametrize("branch", [-1, 3, 500])
def test_an_unknown_branch_is_refused(branch: int) -> None:
    made = Branches(3, 8, 8, nonnegative=True)
    with torch.no_grad(), pytest.raises(IndexError, match="action"):
        made(torch.rand(2, 8), torch.tensor([0, branch]))


def test_large_branches_other_devices_and_gradients_of_features_use_torch() -> None:
    small, large = (Branches(2, n, 64, nonnegative=True).packed for n in (128, 1024))
    features = torch.rand(2, 128)
    assert can_run(features, small)
    assert not can_run(features, large)
    assert not can_run(features.to("meta"), small)
    assert not can_run(features.requires_grad_(), small)
    with torch.no_grad():
        assert can_run(features, small)


LOSSES = [
    {},
    {"successor_terminal": "last"},
    {"successor_terminal": "unmasked", "pixel_loss": "huber"},
    {"encoder": "shared"},
    {"encoder": "shared", "successor_of": "state"},
    {"decoder": "none", "feature_sign": "any", "negative": "clip"},
    {"successor_target_period": 0, "successor_batch": "another"},
    {"sampler": "per-sr-sampling", "direction": "backward"},
]


@pytest.mark.parametrize("changed", LOSSES, ids=str)
def test_an_agent_learns_the_same_with_and_without_kernels(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    initial = successor_after(0, changed)
    with_kernels = successor_after(12, changed)
    monkeypatch.setattr(Branches, "use_kernels", False)
    without = successor_after(12, changed)
    assert not torch.allclose(with_kernels.branches.packed, initial.branches.packed, atol=1e-4)
    for one, other in zip(with_kernels.parameters(), without.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def successor_after(steps: int, changed: dict[str, Any]) -> SuccessorNetwork:
    agent = small_agent(**changed)
    taught(agent, steps)
    assert agent.successor is not None
    return agent.successor.online
