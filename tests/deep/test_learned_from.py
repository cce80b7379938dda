"""What need and the successor loss are computed from: which state, action, network and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from needreplay.deep.losses import q_loss
from needreplay.deep.successor_learner import SuccessorLearner
from needreplay.deep.telling import AskedFrom
from needreplay.deep.tensors import observed, transitions

from .walks import N_ACTIONS, small_agent, taught, walk

CPU = torch.device("cpu")


@pytest.mark.parametrize("encoder", ["own", "shared"])
def test_need_is_asked_from_the_present_state_and_its_greedy_action(encoder: str) -> None:
    agent = small_agent(encoder=encoder)
    taught(agent)
    assert agent.successor is not None
    chosen = set()
    for step in walk("vector", 40, seed=5):
        obs = observed(step.obs[None], CPU)
        with torch.no_grad():
            now = agent.algorithm.present(agent.successor, AskedFrom(obs, None), agent.q.seen(obs))
            greedy = agent.q.online(obs).argmax(1)
            of_each = [
                agent.successor.online.successor(now.features, torch.tensor([action]))
                for action in range(N_ACTIONS)
            ]
            assert torch.equal(now.features, agent.successor.features(obs))
        assert torch.equal(now.successor, of_each[int(greedy)])
        assert not torch.equal(of_each[0], of_each[1])
        chosen.add(int(greedy))
    assert len(chosen) > 1, "the walk must tell actions apart"


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
def test_need_of_the_previous_pair_is_asked_from_what_was_seen_and_done_there(
    sampler: str, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(
        sampler=sampler, encoder=encoder, need_row="previous", feature_sign="nonnegative"
    )
    taught(agent)
    asked: list[Any] = []
    need = SuccessorLearner.need

    def noted(self: SuccessorLearner, now: Any, *more: Any) -> Any:
        asked.append(now)
        return need(self, now, *more)

    monkeypatch.setattr(SuccessorLearner, "need", noted)
    others = 0
    for step in walk("vector", 12, seed=5):
        agent.observe(*step[:5], truncated=False)
        obs = observed(step.obs[None], CPU)
        assert agent.successor is not None
        with torch.no_grad():
            features = agent.successor.features(obs)
            expected = agent.successor.online.successor(features, torch.tensor([step.action]))
            others += step.action != int(agent.q.greedy(obs))
        agent.learn(step.next_obs)
        assert torch.allclose(asked[-1].features, features, atol=1e-5)
        assert torch.allclose(asked[-1].successor, expected, atol=1e-5)
    assert len(asked) == 12
    assert others > 2, "the walk must do what is not greedy"


@pytest.mark.parametrize("capacity", [1_000, 3_000])
def test_all_that_waits_is_told_however_much_it_is(capacity: int) -> None:
    """More than goes through the network at a time, and more than the memory keeps."""
    agent = small_agent(sampler="per-sr-sampling", capacity=capacity, min_history=10_000)
    steps = list(walk("vector", 2_600))
    for step in steps:
        agent.observe(*step[:5], truncated=False)
    query = agent.query(steps[-1].next_obs)
    store = agent.replay.sampler.features  # type: ignore[attr-defined]
    kept = steps[-capacity:]
    assert agent.successor is not None
    with torch.no_grad():
        phi = agent.successor.features(observed(np.stack([step.obs for step in kept]), CPU))
    slots = np.arange(2_600 - len(kept), 2_600) % capacity
    squares = phi.square().sum(1, keepdim=True)
    expected = torch.where(squares > 0.0, phi / squares, torch.zeros(()))
    assert np.allclose(store.vectors[slots], expected.numpy(), rtol=1e-4, atol=1e-5)
    assert query is not None
    assert query.shape == (8,)


def told(direction: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any], list[Any]]:
    """An agent that sampled by need, what the memory was asked, and what it was told."""
    agent = small_agent(sampler="per-sr-sampling", direction=direction)
    steps = list(walk("vector", 12))
    for step in steps[:-1]:
        agent.observe(*step[:5], truncated=False)
    asked: list[Any] = []
    features: list[Any] = []
    sample, tell = agent.replay.sample, agent.replay.set_features

    def sampled(size: int, **options: Any) -> Any:
        asked.append(options["need"].copy())
        return sample(size, **options)

    def set_features(ids: Any, rows: Any) -> None:
        features.append((list(ids), rows.copy()))
        tell(ids, rows)

    monkeypatch.setattr(agent.replay, "sample", sampled)
    monkeypatch.setattr(agent.replay, "set_features", set_features)
    assert isinstance(agent.successor, SuccessorLearner)
    with torch.no_grad():
        last = observed(steps[-1].obs[None], CPU)
        now = agent.algorithm.present(agent.successor, AskedFrom(last, None), agent.q.seen(last))
        obs = observed(np.stack([step.obs for step in steps[:-1]]), CPU)
        phi = agent.successor.features(obs)
        actions = torch.tensor([step.action for step in steps[:-1]])
        m = agent.successor.online.successor(phi, actions)
    agent.replay.sample(4, need=agent.query(steps[-1].obs), beta=1.0)
    return (now, phi.numpy(), m.numpy()), asked, features


def test_forward_need_asks_with_m_and_tells_features(monkeypatch: pytest.MonkeyPatch) -> None:
    (now, phi, _), asked, features = told("forward", monkeypatch)
    assert np.allclose(asked[0], now.successor[0].numpy(), atol=1e-6)
    ((ids, rows),) = features
    assert ids == list(range(11))
    assert np.allclose(rows, phi, atol=1e-6)


def test_backward_need_asks_with_features_and_tells_m(monkeypatch: pytest.MonkeyPatch) -> None:
    (now, phi, m), asked, features = told("backward", monkeypatch)
    assert np.allclose(asked[0], now.features[0].numpy(), atol=1e-6)
    ((ids, rows),) = features
    assert ids == list(range(11))
    assert np.allclose(rows, m, atol=1e-6)
    assert not np.allclose(m, phi, atol=1e-2)


def test_the_successor_loss_takes_m_of_the_next_state_from_the_target_network() -> None:
    agent = small_agent(decoder="none", successor_terminal="masked")
    taught(agent)
    made = agent.successor
    assert made is not None
    with torch.no_grad():
        for p in made.target.parameters():
            p.add_(0.5)
    batch = transitions(agent.replay.sample(4), CPU)
    next_action = torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        phi = made.features(batch.obs)
        next_m = made.target.successor(made.target.features(batch.next_obs), next_action)
    numbers = made.online.branches.numbers
    error = phi + batch.discount[:, None] * next_m - made.online.successor(phi, batch.action)
    (expected,) = torch.autograd.grad(error.square().sum() / 4, [numbers])
    made.losses(batch, made.features(batch.obs), next_action).backward()
    assert numbers.grad is not None
    assert torch.allclose(numbers.grad, expected, atol=1e-6)
    assert expected.abs().max() > 0.1


def test_a_shared_encoder_hands_on_what_the_q_network_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_agent(encoder="shared")
    taught(agent)
    seen: list[tuple[Any, ...]] = []
    losses = SuccessorLearner.losses

    def noted(self: SuccessorLearner, batch: Any, features: Any, *more: Any) -> Any:
        with torch.no_grad():
            expected = self.q.hidden(batch.obs), self.q.hidden(batch.next_obs)
        seen.append((features, more[1], *expected))
        return losses(self, batch, features, *more)

    monkeypatch.setattr(SuccessorLearner, "losses", noted)
    taught(agent, 3)
    assert len(seen) == 3
    for features, next_features, now, then in seen:
        assert torch.allclose(features, now, atol=1e-6)
        assert torch.allclose(next_features, then, atol=1e-6)
        assert not torch.allclose(now, then, atol=1e-3)


@pytest.mark.parametrize(
    ("negative", "expected"),
    [
        ("offset", [0.0, 1.0, 3.0, 4.0]),
        ("fallback", [1.0, 1.0, 1.0, 1.0]),
        ("clip", [0.0, 0.0, 2.0, 3.0]),
    ],
)
def test_the_q_loss_gets_need_with_negatives_dealt_with(
    negative: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(feature_sign="any", negative=negative, scale="raw")
    raw = torch.tensor([-1.0, 0.0, 2.0, 3.0])
    monkeypatch.setattr(SuccessorLearner, "need", lambda *_: raw)
    given: list[Any] = []

    def noted(error: Any, weight: Any, need: Any) -> Any:
        given.append(need.tolist())
        return q_loss(error, weight, need)

    monkeypatch.setattr("needreplay.deep.algorithm.q_loss", noted)
    taught(agent, 10)
    assert given
    assert all(need == expected for need in given)


def test_a_stored_next_action_is_the_one_the_successor_loss_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = small_agent(successor_action="stored")
    seen: list[tuple[list[int], list[int]]] = []
    losses = SuccessorLearner.losses

    def noted(self: SuccessorLearner, batch: Any, features: Any, action: Any, *more: Any) -> Any:
        seen.append((action.tolist(), batch.next_action.tolist()))
        return losses(self, batch, features, action, *more)

    monkeypatch.setattr(SuccessorLearner, "losses", noted)
    for number, step in enumerate(walk("vector", 20)):
        agent.observe(*step[:5], truncated=False, next_action=number % N_ACTIONS)
        agent.learn(step.next_obs)
    assert all(taken == stored for taken, stored in seen)
    assert len({action for taken, _ in seen for action in taken}) == N_ACTIONS
