"""What need and the successor loss are computed from: which state, action, network and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from needlab.deep.dqn import obs_tensor, q_loss, to_transitions
from needlab.deep.successor import PaperNeed

from .walks import N_ACTIONS, paper_need, query_of, small_agent, taught, walk

CPU = torch.device("cpu")


@pytest.mark.parametrize("need_row", ["greedy", "previous"])
@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
def test_need_is_seen_from_the_current_state_or_from_the_pair_before_it(
    sampler: str, encoder: str, need_row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(sampler=sampler, encoder=encoder, need_row=need_row)
    taught(agent)
    need = paper_need(agent)
    seen: list[Any] = []
    queries = PaperNeed._queries

    def recorded(self: PaperNeed, *args: Any) -> Any:
        seen.append(queries(self, *args))
        return seen[-1]

    monkeypatch.setattr(PaperNeed, "_queries", recorded)
    actions, not_greedy = set(), 0
    for step in walk("vector", 20, seed=5):
        agent.observe(*step[:5], truncated=False)
        obs = obs_tensor((step.next_obs if need_row == "greedy" else step.obs)[None], CPU)
        with torch.no_grad():
            greedy = int(agent.q.online(obs).argmax(1))
            action = greedy if need_row == "greedy" else step.action
            expected = need.online.successor(need.features(obs), torch.tensor([action]))
        agent.learn(step.next_obs)
        assert np.allclose(seen[-1], expected[0].numpy(), atol=1e-5)
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
    assert query_of(agent, steps[-1].next_obs).shape == (8,)
    ids = np.arange(agent.buffer.oldest_id, agent.buffer.next_id)
    assert len(ids) == min(capacity, 2_600 - (n_step - 1) * (2_600 % 7 > 0))
    with torch.no_grad():
        obs = np.stack([steps[number].obs for number in ids])
        phi = paper_need(agent).features(obs_tensor(obs, CPU))
    squares = phi.square().sum(1, keepdim=True)
    expected = torch.where(squares > 0.0, phi / squares, torch.zeros(()))
    assert np.allclose(agent.buffer.features(ids), expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_query_and_the_vectors_of_both_directions(direction: str) -> None:
    """Forward: m of the current pair and φ / |φ|² of the others. Backward: the reverse."""
    agent = small_agent(sampler="per-sr-sampling", direction=direction)
    need, steps = paper_need(agent), list(walk("vector", 12))
    for step in steps[:-1]:
        agent.observe(*step[:5], truncated=False)
    query = query_of(agent, steps[-1].obs)
    with torch.no_grad():
        phi = need.features(obs_tensor(np.stack([step.obs for step in steps]), CPU))
        actions = torch.tensor([step.action for step in steps])
        actions[-1] = agent.q.online(obs_tensor(steps[-1].obs[None], CPU)).argmax(1)
        m = need.online.successor(phi, actions).numpy()
    projected = (phi / phi.square().sum(1, keepdim=True)).numpy()
    queries, vectors = (m, projected) if direction == "forward" else (projected, m)
    assert np.allclose(query, queries[-1], atol=1e-6)
    assert np.allclose(agent.buffer.features(np.arange(11)), vectors[:-1], rtol=1e-5, atol=1e-6)
    needs = m[-1] @ phi.numpy().T / (phi**2).sum(1).numpy()
    if direction == "backward":
        needs = m @ phi[-1].numpy() / float((phi[-1] ** 2).sum())
    columns = agent.buffer.read(np.arange(11))
    assert np.allclose(need.needs_of(steps[-1].obs, columns), needs[:-1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sampler", ["per", "per-sr", "per-sr-sampling"])
def test_the_buffer_is_sampled_with_the_current_query(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(sampler=sampler)
    taught(agent)
    needs: list[Any] = []
    sample = agent.buffer.sample

    def recorded(size: int, **options: Any) -> Any:
        needs.append(options.get("need"))
        return sample(size, **options)

    step = next(walk("vector", 1, seed=9))
    expected = query_of(agent, step.obs) if sampler == "per-sr-sampling" else None
    monkeypatch.setattr(agent.buffer, "sample", recorded)
    agent.learn(step.obs)
    if sampler == "per-sr-sampling":
        assert np.allclose(needs[0], expected, atol=1e-6)  # type: ignore[arg-type]
    else:
        assert needs == [None]


def test_the_successor_loss_takes_m_of_the_next_state_from_the_target_network() -> None:
    agent = small_agent(decoder="none", successor_terminal="masked")
    taught(agent)
    made = paper_need(agent)
    with torch.no_grad():
        for p in made.target.parameters():
            p.add_(0.5)
    sampled = agent.buffer.sample(4)
    batch = to_transitions(sampled, agent.buffer, agent.settings, CPU)
    next_action = torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        phi = made.features(batch.obs)
        next_m = made.target.successor(made.target.features(batch.next_obs), next_action)
    first = made.online.branches.weights[0]
    error = phi + batch.discount[:, None] * next_m - made.online.successor(phi, batch.action)
    (expected,) = torch.autograd.grad(error.square().sum() / 4, [first])
    made.online.zero_grad()
    passed = agent.q.td_errors(batch)._replace(next_greedy=next_action)
    made._loss(batch, passed).backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None
    assert torch.allclose(first.grad, expected, atol=1e-6)
    assert expected.abs().max() > 0.1


def test_a_shared_encoder_takes_what_the_q_network_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loss needs no further pass through the Q network, and is that of one with its own."""
    agent = small_agent(encoder="shared")
    taught(agent)
    need = paper_need(agent)
    batch = to_transitions(agent.buffer.sample(4), agent.buffer, agent.settings, CPU)
    passed, alone = agent.q.td_errors(batch), need._loss(batch, None)
    monkeypatch.setattr(agent.q.online, "hidden", None)
    together = need._loss(batch, passed)
    assert together.item() == pytest.approx(alone.item(), rel=1e-5)


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
    raw = np.array([-1.0, 0.0, 2.0, 3.0], np.float32)
    monkeypatch.setattr(PaperNeed, "need_of", lambda *_: raw)
    given: list[Any] = []

    def noted(error: Any, weight: Any, need: Any) -> Any:
        given.append(need.tolist())
        return q_loss(error, weight, need)

    monkeypatch.setattr("needlab.deep.agent.q_loss", noted)
    taught(agent, 10)
    assert given
    assert all(need == expected for need in given)


def test_a_stored_next_action_is_the_one_the_successor_loss_takes() -> None:
    agent = small_agent(successor_action="stored")
    for number, step in enumerate(walk("vector", 20)):
        agent.observe(*step[:5], truncated=False, next_action=number % N_ACTIONS)
    sampled = agent.buffer.sample(40)
    batch = to_transitions(sampled, agent.buffer, agent.settings, CPU)
    taken = paper_need(agent)._next_action(batch, agent.q.td_errors(batch))
    assert taken.tolist() == (sampled.ids % N_ACTIONS).tolist()
    assert len(set(taken.tolist())) == N_ACTIONS
