"""Batches as tensors, and TD errors and losses of DQN and double DQN by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, tensor

from needlab.deep.dqn import (
    QLearner,
    Transitions,
    huber,
    obs_tensor,
    priority_of,
    q_loss,
    td_error,
)
from needlab.deep.networks import QNetwork, scaled
from needlab.deep.settings import Base


class QTable(nn.Module):
    """Q(s, ·) of states given as rows of the identity; the hidden layer is the state itself."""

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.head = nn.Linear(len(values), len(values[0]), bias=False)
        self.head.weight.data = torch.tensor(values).T

    def hidden(self, obs: Tensor) -> Tensor:
        return obs

    def forward(self, obs: Tensor) -> Tensor:
        values: Tensor = self.head(obs)
        return values


def learner(base: Base) -> QLearner:
    """Online: Q(0, ·) = 1, 2 and Q(1, ·) = 5, 3. Target: 10, 20 and 40, 70."""
    online: Any = QTable([[1.0, 2.0], [5.0, 3.0]])
    made = QLearner(base, online)
    made.target.head.weight.data = torch.tensor([[10.0, 20.0], [40.0, 70.0]]).T
    return made


def batch() -> Transitions:
    """From state 0 by action 1 to state 1, and the same where the episode ended."""
    states = torch.eye(2)
    return Transitions(
        obs=states[[0, 0]],
        action=torch.tensor([1, 1]),
        reward=torch.tensor([0.5, 0.5]),
        next_obs=states[[1, 1]],
        discount=torch.tensor([0.9, 0.0]),
        weight=torch.ones(2),
        next_action=None,
    )


@pytest.mark.parametrize(
    ("base", "next_value"),
    [("dqn", 70.0), ("double-dqn", 40.0)],
)
def test_td_errors_by_hand(base: Base, next_value: float) -> None:
    """DQN takes the target's largest value; double DQN its value of the online network's choice."""
    errors = learner(base).td_errors(batch())
    assert errors.error.tolist() == pytest.approx([0.5 + 0.9 * next_value - 2.0, 0.5 - 2.0])
    assert errors.hidden.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    if base == "dqn":
        assert errors.next_hidden is errors.next_greedy is None
    else:
        assert errors.next_hidden is not None
        assert errors.next_greedy is not None
        assert errors.next_hidden.tolist() == [[0.0, 1.0], [0.0, 1.0]]
        assert errors.next_greedy.tolist() == [0, 0]


def test_the_gradient_is_that_of_the_value_alone() -> None:
    made = learner("double-dqn")
    made.td_errors(batch()).error.sum().backward()  # type: ignore[no-untyped-call]
    grad = made.online.head.weight.grad
    assert grad is not None
    assert grad.tolist() == [[0.0, 0.0], [-2.0, 0.0]], "of Q(0, 1), and not of Q(1, ·)"


def test_an_updated_target_has_the_online_values() -> None:
    made = learner("dqn")
    assert [made.best_action(torch.eye(2)[i : i + 1]) for i in range(2)] == [1, 0]
    made.update_target()
    assert made.td_errors(batch()).error[0].item() == pytest.approx(0.5 + 0.9 * 5.0 - 2.0)


def test_td_error_by_hand() -> None:
    error = td_error(tensor([1.0, 1.0]), tensor([0.5, 0.0]), tensor([4.0, 4.0]), tensor([2.0, 2.0]))
    assert error.tolist() == [1.0, -1.0]


def test_huber_by_hand() -> None:
    assert huber(tensor([0.5, -1.0, 3.0])).tolist() == [0.125, 0.5, 2.5]


def test_q_loss_is_weighted_by_importance_and_need() -> None:
    error, weight = tensor([2.0, -1.0]), tensor([0.5, 1.0])
    assert q_loss(error, weight, None).item() == pytest.approx((0.5 * 1.5 + 0.5) / 2)
    need = tensor([3.0, 0.0])
    assert q_loss(error, weight, need).item() == pytest.approx(0.5 * 1.5 * 3.0 / 2)


@pytest.mark.parametrize("zero", ["weight", "need"])
def test_weights_or_need_of_0_give_gradients_of_0(zero: str) -> None:
    error = tensor([2.0, -0.3, 0.7], requires_grad=True)
    factors = {"weight": torch.ones(3), "need": torch.ones(3)}
    factors[zero] = torch.zeros(3)
    q_loss(error, factors["weight"], factors["need"]).backward()  # type: ignore[no-untyped-call]
    assert error.grad is not None
    assert error.grad.tolist() == [0.0, 0.0, 0.0]


def test_priorities_by_hand() -> None:
    error = tensor([-2.0, 0.0])
    assert priority_of(error, "abs", 0.5).tolist() == [2.5, 0.5]
    assert priority_of(error, "sqrt-huber", 0.5).tolist() == pytest.approx([1.5**0.5, 1e-5])


CPU = torch.device("cpu")


@pytest.mark.parametrize("n_channels", [3, 4])
def test_large_images_become_floats_from_0_to_1_with_channels_last(n_channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, n_channels, 40, 36), dtype=np.uint8)
    made = obs_tensor(images, CPU)
    assert torch.allclose(made, torch.from_numpy(images).float() / 255.0, rtol=1e-6)
    assert made.is_contiguous(memory_format=torch.channels_last)


def test_the_network_gives_the_same_values_for_both_forms() -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 4, 84, 84), dtype=np.uint8)
    network = QNetwork("nature", (4, 84, 84), 3)
    with torch.no_grad():
        stored, scaled_before = network(torch.from_numpy(images)), network(obs_tensor(images, CPU))
    assert torch.allclose(stored, scaled_before, atol=1e-5)
    assert stored.abs().max() > 1e-3


@pytest.mark.parametrize(
    "obs",
    [
        np.ones((2, 4, 10, 10), dtype=np.uint8),
        np.ones((2, 4, 84, 84), dtype=np.float32),
        np.ones((2, 8), dtype=np.float32),
    ],
)
def test_other_observations_share_the_array_s_memory(obs: np.ndarray) -> None:
    made = obs_tensor(obs, CPU)
    obs[0] = 0
    assert made[0].abs().max() == 0


def test_only_integers_are_scaled() -> None:
    assert scaled(torch.tensor([0.5], dtype=torch.float64), 255.0).tolist() == [0.5]
    assert scaled(torch.tensor([51], dtype=torch.uint8), 255.0).item() == pytest.approx(0.2)
