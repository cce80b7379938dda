"""TD-errors of DQN and double DQN, by hand, from tables in place of networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from needreplay.deep.dqn import QLearner
from needreplay.deep.settings import Base
from needreplay.deep.tensors import Transitions, transitions

from .walks import small_agent, taught


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
    errors = learner(base).errors(batch())
    assert errors.delta.tolist() == pytest.approx([0.5 + 0.9 * next_value - 2.0, 0.5 - 2.0])
    assert errors.next_action is not None
    assert errors.next_action.tolist() == [0, 0]
    assert errors.next_hidden is not None
    assert errors.hidden.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert errors.next_hidden.tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_the_gradient_is_that_of_the_value_alone() -> None:
    made = learner("double-dqn")
    made.errors(batch()).delta.sum().backward()  # type: ignore[no-untyped-call]
    grad = made.online.head.weight.grad
    assert grad is not None
    assert grad.tolist() == [[0.0, 0.0], [-2.0, 0.0]], "of Q(0, 1), and not of Q(1, ·)"


def test_plain_dqn_saves_the_pass_that_only_the_next_action_needs() -> None:
    errors = learner("dqn").errors(batch(), with_next_action=False)
    assert errors.next_action is None
    assert errors.next_hidden is None
    assert errors.delta[0].item() == pytest.approx(0.5 + 0.9 * 70.0 - 2.0)


def test_a_copied_target_has_the_online_values() -> None:
    made = learner("dqn")
    assert made.greedy(torch.eye(2)).tolist() == [1, 0]
    made.copy_to_target()
    assert made.errors(batch()).delta[0].item() == pytest.approx(0.5 + 0.9 * 5.0 - 2.0)


@pytest.mark.parametrize("base", ["dqn", "double-dqn"])
def test_observations_beside_the_batch_are_seen_as_if_alone(base: Any) -> None:
    agent = small_agent(sampler="per", base=base)
    taught(agent)
    batch = transitions(agent.replay.sample(4), agent.device)
    beside = torch.rand(2, 5)
    alone, together = agent.q.errors(batch), agent.q.errors(batch, beside=beside)
    assert together.beside is not None
    seen = agent.q.seen(beside)
    assert torch.allclose(together.beside.hidden, seen.hidden, atol=1e-6)
    assert torch.equal(together.beside.action, agent.q.online(beside).argmax(1))
    assert alone.beside is None
    for name in ("delta", "next_action", "hidden", "next_hidden"):
        assert torch.allclose(getattr(alone, name), getattr(together, name), atol=1e-6)
