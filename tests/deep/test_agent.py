"""The deep agent: reductions, what each loss moves, and every option's effect."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor

from needlab.deep import DeepAgent
from needlab.deep.checkpoint import load_agent, save_agent
from needlab.deep.presets import deep_preset
from needlab.deep.successor import SuccessorLearner
from needreplay._core.errors import NeedReplayError
from needreplay.need import need_quality
from needreplay.replay import RecencySampler

from .walks import N_ACTIONS, small_agent, taught, walk


def values(agent: DeepAgent, name: str) -> Tensor:
    network = agent.networks()[name]
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize("batch_size", [4, 32])
@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("preset", ["printed", "released", "corrected"])
def test_with_need_1_per_sr_learns_what_per_learns(
    preset: str, encoder: str, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PER-SR has one row more in a pass (the current state), so a math library may sum in another
    # order. Another batch for the successor network would be another sample.
    apart: dict[str, Any] = {"successor_batch": "same", "batch_size": batch_size}
    if encoder == "shared":
        apart |= {"need_moves_features": False, "successor_moves_features": False}
    per = small_agent(preset, sampler="per", batch_size=batch_size)
    per_sr = small_agent(preset, sampler="per-sr", encoder=encoder, **apart)
    monkeypatch.setattr(SuccessorLearner, "need", lambda *_: torch.ones(batch_size))
    before = values(per, "q").clone()
    taught(per)
    taught(per_sr)
    assert (values(per, "q") - before).abs().max() > 1e-4
    for network in ("q", "q_target"):
        assert torch.allclose(values(per, network), values(per_sr, network), rtol=0.0, atol=1e-6)


def test_need_changes_what_is_learned() -> None:
    per, per_sr = small_agent(sampler="per"), small_agent(sampler="per-sr")
    taught(per)
    taught(per_sr)
    assert not torch.equal(values(per, "q"), values(per_sr, "q"))


@pytest.mark.parametrize("preset", ["printed", "corrected", "released"])
def test_the_q_loss_moves_the_successor_network_in_released_alone(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(preset, min_history=20)
    taught(agent, 19)
    assert agent.successor is not None
    nothing = torch.zeros((), requires_grad=True)
    monkeypatch.setattr(SuccessorLearner, "loss", lambda *_a, **_k: nothing)
    before = values(agent, "successor").clone()
    agent.observe(*list(walk("vector", 20))[-1][:5], truncated=False)
    assert agent.learn(np.zeros(5, np.float32)) is not None
    moved = not torch.equal(values(agent, "successor"), before)
    assert moved == (preset == "released")


@pytest.mark.parametrize("preset", ["printed", "corrected", "released"])
def test_the_successor_losses_never_move_the_q_network(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(preset, min_history=20)
    taught(agent, 19)
    monkeypatch.setattr("needlab.deep.agent.q_loss", lambda delta, *_: delta.sum() * 0.0)
    before_q, before_m = values(agent, "q").clone(), values(agent, "successor").clone()
    agent.observe(*list(walk("vector", 20))[-1][:5], truncated=False)
    agent.learn(np.zeros(5, np.float32))
    assert torch.equal(values(agent, "q"), before_q)
    assert not torch.equal(values(agent, "successor"), before_m)


SAMPLERS = ["uniform", "per", "rank", "pser", "per-sr", "per-sr-sampling"]


@pytest.mark.parametrize("preset", ["printed", "corrected", "released"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_weights_of_0_leave_the_q_network_as_it_was(
    sampler: str, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for weight in (0.0, 1.0):
        agent = small_agent(preset, sampler=sampler, min_history=20)
        taught(agent, 19)
        agent.need_query(np.zeros(5, np.float32))
        batch = replace(agent._sample(), weights=np.full(4, weight))
        monkeypatch.setattr(agent.replay, "sample", lambda *_, batch=batch, **__: batch)
        before = values(agent, "q").clone()
        agent.observe(*list(walk("vector", 20))[-1][:5], truncated=False)
        assert agent.learn(np.zeros(5, np.float32)) is not None
        assert torch.equal(values(agent, "q"), before) == (weight == 0.0)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("base", ["dqn", "double-dqn"])
def test_every_agent_learns_finite_values(base: str, sampler: str, n_step: int) -> None:
    agent = small_agent(sampler=sampler, base=base, n_step=n_step)
    learned = taught(agent, 40)
    assert len(learned) > 20
    assert all(np.isfinite([update.loss, update.td_error]).all() for update in learned)
    assert (learned[-1].need is None) == (sampler in ("uniform", "per", "rank", "pser"))


OPTIONS: list[dict[str, Any]] = [
    {"scale": "raw"},
    {"scale": "max"},
    {"direction": "backward"},
    {"need_row": "previous"},
    {"successor_of": "state"},
    {"decoder": "small"},
    {"decoder": "none"},
    {"decoder_period": 2},
    {"successor_terminal": "last"},
    {"successor_terminal": "unmasked"},
    {"successor_target_period": 0},
    {"successor_moves_features": True},
    {"successor_batch": "another"},
    {"need_moves_features": True},
    {"feature_sign": "any", "negative": "offset"},
    {"feature_sign": "any", "negative": "fallback"},
    {"feature_sign": "any", "negative": "clip"},
    {"pixel_loss": "huber"},
    {"features": 6},
    {"encoder": "shared"},
    {"optimizer": "rmsprop"},
    {"step_cut": 0.25},
    {"gain": "sqrt-huber"},
    {"n_step": 2},
    {"reward_clip": True},
    {"base": "dqn"},
    {"beta_end": 0.4},
    {"alpha": 0.2},
    {"uniform_mix": 0.5},
]


@pytest.fixture(scope="module")
def plain() -> dict[str, Tensor]:
    agent = small_agent()
    taught(agent, 30)
    return {name: values(agent, name) for name in ("q", "successor")}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "-".join(map(str, option.values())))
def test_every_option_changes_what_is_learned(
    option: dict[str, Any], plain: dict[str, Tensor]
) -> None:
    agent = small_agent(**option)
    taught(agent, 30)
    learned = {name: values(agent, name) for name in plain}
    assert all(torch.isfinite(each).all() for each in learned.values())
    # Where an option changes the successor network's size, Q has to show what it does.
    alike = [name for name in plain if learned[name].shape == plain[name].shape]
    assert any(not torch.equal(learned[name], plain[name]) for name in alike)


def test_m_of_the_state_alone_does_not_depend_on_the_action() -> None:
    for successor_of, depends in (("pair", True), ("state", False)):
        agent = small_agent(successor_of=successor_of)
        taught(agent, 12)
        assert agent.successor is not None
        with torch.no_grad():
            features = agent.successor.features(torch.rand(1, 5)).expand(N_ACTIONS, -1)
            m = agent.successor.online.successor(features, torch.arange(N_ACTIONS))
        assert torch.allclose(m[0], m[1], atol=1e-6) != depends


SAMPLING_OPTIONS: list[dict[str, Any]] = [
    {"need_alpha": 0.5},
    {"correct_for": "both"},
    {"direction": "backward"},
    {"feature_sign": "any", "negative": "clip"},
    {"encoder": "shared"},
    {"need_row": "previous"},
    {"uniform_mix": 0.5},
]


@pytest.mark.parametrize(
    "option", SAMPLING_OPTIONS, ids=lambda option: "-".join(map(str, option.values()))
)
def test_every_option_of_sampling_changes_what_is_learned(option: dict[str, Any]) -> None:
    plain, changed = (
        small_agent(sampler="per-sr-sampling"),
        small_agent(sampler="per-sr-sampling", **option),
    )
    taught(plain, 30)
    taught(changed, 30)
    assert not torch.equal(values(plain, "q"), values(changed, "q"))


def test_refreshing_bounds_the_age_of_features() -> None:
    """Each update refreshes 8 of at most 64 transitions: none is older than 9 updates."""
    ages = {}
    for refresh in (0, 8):
        agent = small_agent(sampler="per-sr-sampling", refresh=refresh)
        taught(agent, 120)
        ages[refresh] = agent.replay.sampler.features.oldest_age  # type: ignore[attr-defined]
    assert ages[8] <= 9 < ages[0]


def test_the_target_network_is_copied_when_due() -> None:
    agent = small_agent(sampler="per-sr", target_period=20, successor_target_period=20)
    taught(agent, 19)
    assert not torch.equal(values(agent, "q"), values(agent, "q_target"))
    taught(agent, 1)
    assert torch.equal(values(agent, "q"), values(agent, "q_target"))
    assert torch.equal(values(agent, "successor"), values(agent, "successor_target"))


def test_epsilon_and_beta_follow_their_schedules() -> None:
    agent = small_agent(min_history=10, epsilon_steps=20, epsilon_end=0.1, beta_start=0.4)
    assert (agent.epsilon, agent.beta) == (1.0, 0.4)
    agent.steps = 20
    assert agent.epsilon == pytest.approx(0.55)
    agent.steps = 100
    assert agent.epsilon == pytest.approx(0.1)
    assert agent.beta == 1.0


def test_actions_are_random_at_first_and_greedy_in_evaluation() -> None:
    agent = small_agent(eval_epsilon=0.0)
    obs = np.ones(5, np.float32)
    assert {agent.act(obs) for _ in range(50)} == set(range(N_ACTIONS))
    chance = np.random.default_rng(0)
    assert len({agent.act_in_evaluation(obs, chance) for _ in range(20)}) == 1


def test_rewards_are_clipped_only_where_asked_for() -> None:
    for clip, stored in ((True, 1.0), (False, 5.0)):
        agent = small_agent(reward_clip=clip)
        agent.observe(np.zeros(5, np.float32), 0, 5.0, np.zeros(5, np.float32), True, False)
        assert agent.replay.sample(1, need=None)["reward"][0] == stored


def test_the_action_taken_next_is_what_released_learns_from() -> None:
    agent = small_agent("released")
    assert agent.stores_next_action
    agent.observe(np.zeros(5, np.float32), 0, 0.0, np.ones(5, np.float32), False, False, 2)
    assert agent.replay.sample(1)["next_action"].tolist() == [2]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"n_step": 3, "successor_action": "stored"}, "n_step"),
        ({"feature_sign": "any", "negative": "nonnegative"}, "negative"),
        ({"encoder": "shared", "successor_moves_features": True}, "encoder"),
        ({"need_query": "recent"}, "need_query"),
        ({"need_learner": "cosine", "need_query": "start"}, "need_query"),
        ({"need_learner": "cosine", "need_relative": False}, "relative"),
        ({"need_learner": "successor", "shuffle_need": True}, "shuffle_need"),
        ({"discount": 2.0}, "discount"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"reward_clip": "no"}, "reward_clip"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"scale": "huge"}, "scale"),
        ({"wings": 2}, "wings"),
    ],
)
def test_settings_that_mean_nothing_are_refused(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        small_agent(**overrides)


def test_observations_that_a_network_cannot_see_are_refused() -> None:
    with pytest.raises(NeedReplayError, match="axes"):
        DeepAgent(small_agent().settings, Box(0.0, 1.0, (3, 3)), 2, steps=10)


@pytest.mark.parametrize("sampler", ["per", "pser"])
def test_stratified_reaches_the_sampler(sampler: str) -> None:
    """With equal priorities a stratified batch of the buffer's size takes each transition once."""
    for stratified in (True, False):
        agent = small_agent(sampler=sampler, stratified=stratified, uniform_mix=0.0)
        taught(agent, 16)
        size = len(agent.replay)
        agent.replay.update_priorities(np.arange(size), np.ones(size))
        once = len(set(agent.replay.sample(size).ids.tolist())) == size
        assert once == stratified


def test_psers_beta_is_its_papers() -> None:
    settings = deep_preset("corrected", "minatar", "pser")
    assert (settings.beta_start, settings.beta_end) == (0.5, 0.5)


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
@pytest.mark.parametrize("learner", ["cosine", "spectral", "linear"])
def test_need_models_serve_the_agents(
    learner: str, sampler: str, encoder: str, tmp_path: Path
) -> None:
    """They learn, save and load, and the paper's successor network is not there."""
    options: dict[str, Any] = {
        "need_learner": learner,
        "sampler": sampler,
        "encoder": encoder,
        "refresh": 3,
        "need_period": 1,
    }
    agent, other = (small_agent(**options) for _ in range(2))
    taught(agent, 60)
    assert agent.successor is None
    assert agent.need_model is not None
    assert agent.need_model.updates > 10
    save_agent(agent, tmp_path)
    load_agent(other, tmp_path)
    obs = np.ones(5, np.float32)
    found, again = (each.learn(obs) for each in (agent, other))
    assert found is not None
    assert found == again
    assert found.need is not None
    assert np.isfinite(found.need).all()
    rows = np.eye(5, dtype=np.float32)
    needs = [each.need_of(obs, rows, np.zeros(5, int)) for each in (agent, other)]
    np.testing.assert_array_equal(needs[0], needs[1])
    assert np.ptp(needs[0]) > 0.0


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
def test_updates_are_scaled_by_the_models_need(learner: str) -> None:
    """Also where need is a power of the product."""
    agent = small_agent(need_learner=learner, sampler="per-sr", scale="raw", need_period=10**6)
    taught(agent, 60)
    model, obs, batch = agent.need_model, np.ones(5, np.float32), agent.replay.sample(8)
    assert model is not None
    need, stats = agent._learn_need(obs, batch)
    expected = model.need(obs, batch["obs"])
    assert need is not None
    assert stats is not None
    np.testing.assert_allclose(need.numpy(), np.maximum(expected, 0.0), rtol=1e-5)
    assert stats.mean == pytest.approx(expected.mean(), rel=1e-5)


def test_statistics_of_sampling_are_of_need_too() -> None:
    agent = small_agent(need_learner="cosine", sampler="per-sr-sampling", need_period=1)
    taught(agent, 60)
    model, obs, batch = agent.need_model, np.ones(5, np.float32), agent._sample()
    assert model is not None
    query = agent.need_query(obs)
    assert query is not None
    _, stats = agent._learn_need(obs, batch)
    products = model.features(batch["obs"]) @ query
    assert stats is not None
    assert stats.mean == pytest.approx((products**6).mean(), rel=1e-4)


def test_a_need_model_learns_at_every_period_of_updates() -> None:
    for period, expected in ((1, 30), (2, 15), (4, 8)):
        agent = small_agent(need_learner="cosine", sampler="per-sr", need_period=period)
        while agent.updates < 30:
            taught(agent, 1)
        assert agent.need_model is not None
        assert agent.need_model.updates == expected


def test_a_need_model_changes_what_is_sampled_and_scaled() -> None:
    base: dict[str, Any] = {"need_learner": "cosine"}
    learned: list[Tensor] = []
    more: dict[str, Any]
    for more in (
        {"sampler": "per"},
        {"sampler": "per-sr"},
        {"sampler": "per-sr-sampling"},
        {"sampler": "per-sr-sampling", "need_discount": 0.5},
    ):
        agent = small_agent(**base, **more)
        taught(agent, 60)
        learned.append(values(agent, "q"))
    for i, one in enumerate(learned):
        assert not any(torch.equal(one, other) for other in learned[:i])


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("learner", ["cosine", "spectral", "linear"])
def test_a_query_comes_with_the_vectors_of_what_is_new(learner: str, encoder: str) -> None:
    agent = small_agent(sampler="per-sr-sampling", need_learner=learner, encoder=encoder)
    model = agent.need_model
    assert model is not None
    rows: Any = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    for t in range(6):
        agent.observe(rows[t], 0, 0.0, rows[t + 1], False, False)
    query: Any = agent.need_query(rows[7])
    np.testing.assert_allclose(query, model.query(rows[7]), atol=1e-5)
    stored = agent.replay.sampler.features.vectors[:6]  # type: ignore[attr-defined]
    np.testing.assert_allclose(stored, model.features(rows[:6]), rtol=1e-4, atol=1e-5)
    # Nothing is new: a query alone.
    query = agent.need_query(rows[0])
    np.testing.assert_allclose(query, model.query(rows[0]), atol=1e-5)


def test_a_copied_agent_has_need_on_layers_of_its_own() -> None:
    agent = small_agent(sampler="per-sr-sampling", need_learner="cosine", encoder="shared")
    taught(agent, 30)
    copied = copy.deepcopy(agent)
    obs = np.ones(5, np.float32)
    assert copied.need_model is not None
    before = copied.need_model.query(obs)
    pickle.dumps(copied.need_model)
    with torch.no_grad():
        for parameter in agent.q.online.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(copied.need_model.query(obs), before)


@pytest.mark.parametrize("steps", [45, 100])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
def test_shuffled_need_has_the_same_values_on_wrong_transitions(sampler: str, steps: int) -> None:
    """A buffer of 64, partly filled and long full; states go round a circle."""
    agent = small_agent(sampler=sampler, need_learner="linear", shuffle_need=True, refresh=64)
    angles = np.arange(steps + 1) / 10.0
    circle = np.stack([np.cos(k * angles) for k in range(5)], 1).astype(np.float32)
    for t in range(steps):
        agent.observe(circle[t], 0, 0.0, circle[t + 1], False, t % 22 == 21)
        agent.learn(circle[t + 1])
    buffer, model = agent.replay, agent.need_model
    assert model is not None
    assert agent.shuffled is not None
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    donors = agent.shuffled.donors(ids)
    assert sorted(donors) == ids.tolist()
    assert (donors != ids).all()
    # What it gives to its update, or to its sampler at the last refresh.
    used = agent._need_vectors(ids, circle[ids])
    np.testing.assert_allclose(used, model.features(circle[donors]), atol=1e-6)
    if sampler == "per-sr-sampling":
        stored = buffer.sampler.features.vectors[ids % 64]  # type: ignore[attr-defined]
        np.testing.assert_allclose(stored[:-1], used[:-1], atol=1e-6)

    def needs_of(obs: Any, columns: dict[str, Any]) -> Any:
        given = agent._need_vectors(columns["ids"])
        return np.stack([given @ model.query(each) for each in obs])

    for _ in range(200):
        model.learn(buffer)
    rng = np.random.default_rng(0)
    quality = agent.need_quality(rng, buffer)
    assert quality is not None
    assert quality.auc_time > 0.75
    shuffled = need_quality(buffer, needs_of, rng, withheld=lambda n: np.ones(len(n), bool))
    assert 0.3 < shuffled.auc_time < 0.7


@pytest.mark.parametrize("query", ["recent", "start"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_query_for_each_row_of_a_batch(query: str, direction: str) -> None:
    """Of observations that are stored: of any recent one, or of the first after an end."""
    agent = small_agent(
        sampler="per-sr-sampling", need_learner="cosine", need_query=query, direction=direction
    )
    model = agent.need_model
    assert model is not None
    assert len(taught(agent, 40)) == 33
    starts = agent.replay.episodes(np.arange(40))[1] == 0
    for new in (True, False):  # with transitions since the last query, and without
        if new:
            step = next(iter(walk("vector", 1, seed=1)))
            agent.observe(*step[:5], truncated=False)
        queries = agent.need_query(np.zeros(5, np.float32))
        assert queries is not None
        assert queries.shape == (4, model.n_features)
        obs = agent.replay.read(np.arange(40))["obs"]
        stored = model._vectors(obs, model._query_of)
        nearest = np.abs(queries[:, None] - stored).sum(2)
        assert (nearest.min(1) < 1e-4).sum() >= 3  # the last may be the new one
        if query == "start":
            assert starts[nearest.argmin(1)[nearest.min(1) < 1e-4]].all()


def test_gain_x_recency_is_a_sampler_of_the_agent() -> None:
    agent = small_agent(sampler="per-recency", mean_age=7.0, uniform_mix=0.25)
    taught(agent, 40)
    sampler = agent.replay.sampler
    assert isinstance(sampler, RecencySampler)
    assert (sampler.mean_age, sampler.alpha, sampler.uniform_mix) == (7.0, 0.6, 0.25)
    assert sampler.correct_for == "gain"
    assert agent.need_model is None
    with pytest.raises(NeedReplayError, match="mean_age"):
        small_agent(sampler="per-recency", mean_age=0.5)


def test_shuffled_need_follows_what_is_stored_without_any_refresh() -> None:
    """A new transition gives its need to a stored one at once; none has that of one overwritten."""
    shuffled: dict[str, Any] = {"need_learner": "linear", "shuffle_need": True}
    agent = small_agent(sampler="per-sr-sampling", min_history=1_000, **shuffled)
    circle = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    buffer, model = agent.replay, agent.need_model
    assert model is not None
    assert agent.shuffled is not None
    for t in range(199):
        agent.observe(circle[t], 0, 0.0, circle[t + 1], False, False)
        if t % 4 == 3:
            agent.set_new_features()
            ids = np.arange(buffer.oldest_id, buffer.next_id)
            stored = buffer.sampler.features.vectors[ids % 64]  # type: ignore[attr-defined]
            donors = agent.shuffled.donors(ids)
            np.testing.assert_allclose(stored, model.features(circle[donors]), atol=1e-6)
