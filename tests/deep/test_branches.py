"""The successor branches by kernels against the same by torch, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from needreplay.core.errors import NeedReplayError
from needreplay.deep.branches import Branches
from needreplay.deep.need import projected, projections
from needreplay.deep.successor import SuccessorNetwork

from .walks import small_agent, taught

SIZES = [(6, 128, 64), (3, 4, 8), (2, 5, 3), (4, 7, 1), (1, 6, 9)]


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("n_branches", "n_features", "n_hidden"), SIZES)
def test_kernels_and_torch_agree(
    n_branches: int, n_features: int, n_hidden: int, nonnegative: bool
) -> None:
    torch.manual_seed(0)
    made = Branches(n_branches, n_features, n_hidden, nonnegative=nonnegative)
    features = torch.relu(torch.randn(11, n_features))
    branch, pulled = torch.randint(0, n_branches, (11,)), torch.randn(11, n_features)
    by_torch = made(features, branch)
    (by_torch * pulled).sum().backward()
    passed = made.passed(features, branch)
    ((parameter, gradient),) = made.gradients(passed, pulled)
    assert parameter is made.numbers
    assert parameter.grad is not None
    assert torch.allclose(made.signed(passed.linear), by_torch, atol=1e-5)
    assert torch.allclose(gradient, parameter.grad, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(made(features, branch), made.signed(passed.linear))


def test_a_branch_that_no_row_takes_is_not_moved() -> None:
    made = Branches(3, 6, 8, nonnegative=False)
    passed = made.passed(torch.rand(11, 6), torch.ones(11, dtype=torch.int64))
    ((_, gradient),) = made.gradients(passed, torch.ones(11, 6))
    assert not gradient[[0, 2]].any()
    assert gradient[1].any()


@pytest.mark.parametrize("branch", [-1, 3, 500])
def test_a_branch_that_there_is_not_is_refused(branch: int) -> None:
    made = Branches(3, 8, 8, nonnegative=True)
    with torch.no_grad(), pytest.raises(NeedReplayError, match=f"Action {branch} of row 1"):
        made(torch.rand(2, 8), torch.tensor([0, branch]))


def test_large_branches_are_left_to_torch() -> None:
    assert Branches(2, 128, 64, nonnegative=True).has_kernels
    assert not Branches(2, 512, 512, nonnegative=True).has_kernels
    assert not Branches(2, 128, 64, nonnegative=True).to("meta").has_kernels


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
def test_an_agent_learns_the_same_by_kernels_as_by_torch(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = successor_after(0, changed)
    by_kernels = successor_after(12, changed)
    monkeypatch.setattr(Branches, "has_kernels", False)
    by_torch = successor_after(12, changed)
    assert not torch.allclose(by_kernels.branches.numbers, begun.branches.numbers, atol=1e-4)
    for one, other in zip(by_kernels.parameters(), by_torch.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def successor_after(steps: int, changed: dict[str, Any]) -> SuccessorNetwork:
    agent = small_agent(**changed)
    taught(agent, steps)
    assert agent.successor is not None
    return agent.successor.online


@pytest.mark.parametrize(("n_successors", "n_features"), [(1, 5), (5, 1), (5, 5)])
def test_projections_are_the_projected_need(n_successors: int, n_features: int) -> None:
    rng = np.random.default_rng(0)
    m = rng.normal(size=(n_successors, 7)).astype(np.float32)
    features = rng.normal(size=(n_features, 7)).astype(np.float32)
    features[-1] = 0.0
    need = np.full(5, np.nan, dtype=np.float32)
    projections(m, features, need)
    expected = projected(torch.from_numpy(m), torch.from_numpy(features)).numpy()
    np.testing.assert_allclose(need, np.broadcast_to(expected, 5), rtol=1e-5)
    assert need[-1] == 0.0
