"""What need and the successor loss are computed from: which state, action, network and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from needlab.deep.dqn import obs_tensor, q_loss, to_transitions
from needlab.deep.successor import SuccessorLearner

from .walks import N_ACTIONS, small_agent, taught, walk

CPU = torch.device("cpu")


@pytest.mark.parametrize("need_row", ["greedy", "previous"])
@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
def test_need_looks_from_the_current_state_or_from_the_pair_before_it(
    sampler: str, encoder: str, need_row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(sampler=sampler, encoder=encoder, need_row=need_row)
    taught(agent)
    seen: list[Any] = []
    need = SuccessorLearner.need

    def recorded(self: SuccessorLearner, current: Any, *more: Any) -> Any:
        seen.append(current)
        return need(self, current, *more)

    monkeypatch.setattr(SuccessorLearner, "need", recorded)
    assert agent.successor is not None
    actions, not_greedy = set(), 0
    for step in walk("vector", 20, seed=5):
        agent.observe(*step[:5], truncated=False)
        obs = obs_tensor((step.next_obs if need_row == "greedy" else step.obs)[None], CPU)
        with torch.no_grad():
            greedy = int(agent.q.online(obs).argmax(1))
            action = greedy if need_row == "greedy" else step.action
            features = agent.successor.features(obs)
            expected = agent.successor.online.successor(features, torch.tensor([action]))
        agent.learn(step.next_obs)
        assert torch.allclose(seen[-1].features, features, atol=1e-5)
        assert torch.allclose(seen[-1].successor, expected, atol=1e-5)
        actions.add(action)
        not_greedy += step.action != greedy
    assert len(seen) == 20
    assert len(actions) > 1, "the walk must take different actions"
    assert not_greedy > 2, "the walk must take actions that are not greedy"


@pytest.mark.parametrize(("capacity", "n_step"), [(1_000, 1), (3_000, 1), (3_000, 3)])
def test_the_buffer_has_the_features_of_all_it_stores(capacity: int, n_step: int) -> None:
    """More new transitions than one pass takes, and more than the buffer can store."""
    agent = small_agent(
        sampler="per-sr-sampling", capacity=capacity, min_history=10_000, n_step=n_step
    )
    steps = list(walk("vector", 2_600))
    for step in steps:
        agent.observe(*step[:5], truncated=False)
    query = agent.need_query(steps[-1].next_obs)
    assert query is not None
    assert query.shape == (8,)
    store = agent.replay.sampler.features  # type: ignore[attr-defined]
    ids = np.arange(agent.replay.oldest_id, agent.replay.next_id)
    assert len(ids) == min(capacity, 2_600 - (n_step - 1) * (2_600 % 7 > 0))
    assert agent.successor is not None
    with torch.no_grad():
        obs = np.stack([steps[number].obs for number in ids])
        phi = agent.successor.features(obs_tensor(obs, CPU))
    squares = phi.square().sum(1, keepdim=True)
    expected = torch.where(squares > 0.0, phi / squares, torch.zeros(()))
    assert np.allclose(store.vectors[ids % capacity], expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_query_and_the_features_of_both_directions(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward: the query is m of the current pair, features are φ. Backward: the reverse."""
    agent = small_agent(sampler="per-sr-sampling", direction=direction)
    steps = list(walk("vector", 12))
    for step in steps[:-1]:
        agent.observe(*step[:5], truncated=False)
    given: list[tuple[list[int], Any]] = []
    monkeypatch.setattr(
        agent.replay, "set_features", lambda ids, rows: given.append((list(ids), rows.copy()))
    )
    assert agent.successor is not None
    with torch.no_grad():
        last = obs_tensor(steps[-1].obs[None], CPU)
        current = agent.successor.current(last, *reversed(agent.q.evaluate(last)))
        obs = obs_tensor(np.stack([step.obs for step in steps[:-1]]), CPU)
        phi = agent.successor.features(obs)
        actions = torch.tensor([step.action for step in steps[:-1]])
        m = agent.successor.online.successor(phi, actions)
    query = agent.need_query(steps[-1].obs)
    ((ids, rows),) = given
    assert ids == list(range(11))
    forward = direction == "forward"
    expected = current.successor if forward else current.features
    assert query is not None
    assert np.allclose(query, expected[0].numpy(), atol=1e-6)
    assert np.allclose(rows, (phi if forward else m).numpy(), atol=1e-6)
    assert not torch.allclose(m, phi, atol=1e-2)


@pytest.mark.parametrize("sampler", ["per", "per-sr", "per-sr-sampling"])
def test_the_buffer_is_sampled_with_the_current_query(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(sampler=sampler)
    taught(agent)
    needs: list[Any] = []
    sample = agent.replay.sample

    def recorded(size: int, **options: Any) -> Any:
        needs.append(options["need"])
        return sample(size, **options)

    step = next(walk("vector", 1, seed=9))
    expected = agent.need_query(step.obs)
    monkeypatch.setattr(agent.replay, "sample", recorded)
    agent.learn(step.obs)
    if sampler == "per-sr-sampling":
        assert np.allclose(needs[0], expected, atol=1e-6)  # type: ignore[arg-type]
    else:
        assert needs == [None]


def test_the_successor_loss_takes_m_of_the_next_state_from_the_target_network() -> None:
    agent = small_agent(decoder="none", successor_terminal="masked")
    taught(agent)
    made = agent.successor
    assert made is not None
    with torch.no_grad():
        for p in made.target.parameters():
            p.add_(0.5)
    batch = to_transitions(agent.replay.sample(4), CPU)
    next_action = torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        phi = made.features(batch.obs)
        next_m = made.target.successor(made.target.features(batch.next_obs), next_action)
    first = made.online.branches.weights[0]
    error = phi + batch.discount[:, None] * next_m - made.online.successor(phi, batch.action)
    (expected,) = torch.autograd.grad(error.square().sum() / 4, [first])
    made.online.zero_grad()
    made.loss(batch, made.features(batch.obs), next_action).backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None
    assert torch.allclose(first.grad, expected, atol=1e-6)
    assert expected.abs().max() > 0.1


def test_a_shared_encoder_hands_on_what_the_q_network_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_agent(encoder="shared")
    taught(agent)
    seen: list[tuple[Any, ...]] = []
    losses = SuccessorLearner.loss

    def noted(self: SuccessorLearner, batch: Any, features: Any, *more: Any) -> Any:
        with torch.no_grad():
            expected = self.q.hidden(batch.obs), self.q.hidden(batch.next_obs)
        seen.append((features, more[1], *expected))
        return losses(self, batch, features, *more)

    monkeypatch.setattr(SuccessorLearner, "loss", noted)
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
def test_the_q_loss_gets_need_with_negatives_removed(
    negative: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(feature_sign="any", negative=negative, scale="raw")
    raw = torch.tensor([-1.0, 0.0, 2.0, 3.0])
    monkeypatch.setattr(SuccessorLearner, "need", lambda *_: raw)
    given: list[Any] = []

    def noted(error: Any, weight: Any, need: Any) -> Any:
        given.append(need.tolist())
        return q_loss(error, weight, need)

    monkeypatch.setattr("needlab.deep.agent.q_loss", noted)
    taught(agent, 10)
    assert given
    assert all(need == expected for need in given)


def test_a_stored_next_action_is_the_one_the_successor_loss_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = small_agent(successor_action="stored")
    seen: list[tuple[list[int], list[int]]] = []
    losses = SuccessorLearner.loss

    def noted(self: SuccessorLearner, batch: Any, features: Any, action: Any, *more: Any) -> Any:
        seen.append((action.tolist(), batch.next_action.tolist()))
        return losses(self, batch, features, action, *more)

    monkeypatch.setattr(SuccessorLearner, "loss", noted)
    for number, step in enumerate(walk("vector", 20)):
        agent.observe(*step[:5], truncated=False, next_action=number % N_ACTIONS)
        agent.learn(step.next_obs)
    assert all(taken == stored for taken, stored in seen)
    assert len({action for taken, _ in seen for action in taken}) == N_ACTIONS
