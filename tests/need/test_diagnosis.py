"""The diagnosis of updates: exact shares in tables, hand-worked effects, nothing is touched."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from gymnasium import spaces
from torch import nn

from needreplay import ReplayBuffer
from needreplay._core.errors import NeedReplayError
from needreplay.need import NeedBuffer, diagnose
from needreplay.need.diagnosis import NEXT_STEPS, _rank_correlations, _ranks

N = 30
GAMMA = 0.9


def ring_buffer(steps: int = 600, n_states: int = N) -> ReplayBuffer:
    """Walks 0 -> 1 -> ... -> 29 from random starts, 20 steps an episode, one-hot observations."""
    space = spaces.Box(0.0, 1.0, (n_states,), np.float32)
    buffer = ReplayBuffer.for_spaces(space, spaces.Discrete(2), capacity=steps, discount=GAMMA)
    rng, eye = np.random.default_rng(0), np.eye(n_states, dtype=np.float32)
    state = 0
    for step in range(steps):
        if step % 20 == 0:
            state = int(rng.integers(n_states))
        after = (state + 1) % n_states
        buffer.add(
            obs=eye[state],
            action=int(rng.integers(2)),
            reward=float(after == 0),
            next_obs=eye[after],
            terminated=False,
            truncated=step % 20 == 19,
        )
        state = after
    return buffer


def loss(network: nn.Module, batch: Any) -> torch.Tensor:
    """Half the squared TD error."""
    with torch.no_grad():
        target = batch["reward"] + GAMMA * network(batch["next_obs"]).amax(1)
    value = network(batch["obs"]).gather(1, batch["action"].reshape(-1, 1).long())[:, 0]
    found: torch.Tensor = (target - value) ** 2 / 2
    return found


def true_need(views: Any, columns: Any) -> Any:
    """γ^d of the ring, with d the steps from a view to a transition's state."""
    seen, stored = views.argmax(1), columns["obs"].argmax(1)
    return GAMMA ** ((stored[None] - seen[:, None]) % N)


def table(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(N, 2, bias=False)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(N, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )


def test_in_a_table_all_of_an_update_stays_and_need_predicts_where() -> None:
    """In the table locality is 1, and gain x need knows which states come next."""
    buffer = ring_buffer()
    local = diagnose(table(), loss, buffer, need=true_need)
    wide = diagnose(network(), loss, buffer, need=true_need)
    assert local.locality == pytest.approx(1.0)
    assert (local.shares <= 1.0 + 1e-9).all()
    assert wide.locality < 0.6
    assert local.advantage > 0.3 > wide.advantage
    assert wide.gain > 0.6


def test_effects_are_those_worked_by_hand() -> None:
    """A bias alone: an update moves all values of an action by step · δ, so gain is all.

    Of the 30 states 5 are near, so the share is 5/30 where the episode has two steps either way.
    """

    class Bias(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.tensor([0.3, -0.2]))

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return self.bias.expand(len(obs), 2)

    found = diagnose(Bias(), loss, ring_buffer(), need=true_need, updates=64)
    assert found.gain == pytest.approx(1.0, abs=0.01)
    assert found.shares.max() == pytest.approx(5 / N, abs=1e-6)
    assert found.shares.min() == pytest.approx(3 / N, abs=1e-6)
    step = found.effects[0] / found.gains
    np.testing.assert_allclose(step, step[0], rtol=1e-3)
    # The loss is δ² / 2, so its root is |δ| / √2, and ∂Q is 1: the own value moves by .1 · δ.
    np.testing.assert_allclose(step[0], 0.1 * np.sqrt(2.0), rtol=1e-3)


def test_nothing_is_touched_and_the_same_seed_gives_the_same() -> None:
    buffer, module = ring_buffer(), network()
    before, batches = copy.deepcopy(module.state_dict()), buffer.batches
    first = diagnose(module, loss, buffer, need=true_need, updates=16, seed=3)
    second = diagnose(module, loss, buffer, need=true_need, updates=16, seed=3)
    assert first.text() == second.text()
    np.testing.assert_array_equal(first.effects, second.effects)
    assert buffer.batches == batches
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert all(each.grad is None for each in module.parameters())


def test_need_is_the_buffers_own_or_learned_on_the_side() -> None:
    space = spaces.Box(0.0, 1.0, (N,), np.float32)
    own = NeedBuffer.for_spaces(space, spaces.Discrete(2), capacity=600, discount=GAMMA)
    plain = ring_buffer()
    columns = plain.read(np.arange(600))
    for row in range(600):
        step = {name: columns[name][row] for name in ("obs", "action", "reward", "next_obs")}
        own.add(**step, terminated=False, truncated=row % 20 == 19)
    for buffer in (own, plain):
        found = diagnose(table(), loss, buffer, updates=32, queries=4)
        assert found.needs.shape == (4, 32)
        assert "Of the change that one update makes, 100% falls within 2 steps" in found.text()


def test_rank_correlations_share_ties() -> None:
    """1, 1, 2 has the ranks 1.5, 1.5, 3; against 1, 2, 3 that is √3 / 2."""
    np.testing.assert_allclose(_ranks(np.array([[1.0, 1.0, 2.0]])), [[-0.5, -0.5, 1.0]])
    found = _rank_correlations(
        np.array([[1.0, 1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]),
        np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]),
    )
    np.testing.assert_allclose(found, [np.sqrt(3.0) / 2.0, -1.0, 0.0])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"q_network": nn.ReLU()}, "q_network has no parameters"),
        ({"loss": lambda net, batch: loss(net, batch).repeat(2)}, "one loss for each transition"),
        ({"loss": lambda net, batch: loss(net, batch) * np.nan}, "negative, not finite"),
        ({"loss": lambda net, batch: -loss(net, batch)}, "negative, not finite"),
        ({"loss": lambda *_: torch.ones(1)}, "do not depend on the network"),
        ({"need": lambda *_: np.ones(3)}, r"must return \[query, transition\]"),
        ({"updates": 1}, "updates"),
        ({"buffer": ring_buffer(60)}, f"at least {2 * NEXT_STEPS}"),
    ],
)
def test_what_cannot_be_diagnosed_is_named(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"q_network": table(), "loss": loss, "need": true_need}
    given["buffer"] = ring_buffer()
    given |= changed
    with pytest.raises(NeedReplayError, match=said):
        diagnose(given.pop("q_network"), given.pop("loss"), given.pop("buffer"), **given)
