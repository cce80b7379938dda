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
from needlab.deep.dqn import to_transitions
from needlab.deep.presets import deep_preset
from needlab.deep.successor import PaperNeed
from needreplay._core.errors import NeedReplayError
from needreplay.need import NeedModel
from needreplay.replay import RecencySampler

from .walks import N_ACTIONS, paper_need, query_of, small_agent, taught, walk


def values(agent: DeepAgent, name: str) -> Tensor:
    network = agent.networks()[name]
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize("batch_size", [4, 32])
@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("preset", ["printed", "released", "corrected"])
def test_with_need_1_per_sr_learns_what_per_learns(
    preset: str, encoder: str, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another batch for the successor network would be another sample.
    apart: dict[str, Any] = {"successor_batch": "same", "batch_size": batch_size}
    if encoder == "shared":
        apart |= {"need_moves_features": False, "successor_moves_features": False}
    per = small_agent(preset, sampler="per", batch_size=batch_size)
    per_sr = small_agent(preset, sampler="per-sr", encoder=encoder, **apart)
    monkeypatch.setattr("needlab.deep.agent.rescale", lambda need, _: torch.ones_like(need))
    before = values(per, "q").clone()
    taught(per)
    taught(per_sr)
    assert (values(per, "q") - before).abs().max() > 1e-4
    for network in ("q", "q_target"):
        assert torch.allclose(values(per, network), values(per_sr, network), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_need_multiplies_the_loss(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With eps far above the gradient g, Adam's first step is learning_rate g / eps, here g."""
    moved = []
    for scale in (1.0, factor):
        agent = small_agent(sampler="per-sr", learning_rate=1e6, optimizer_eps=1e6, min_history=20)
        monkeypatch.setattr(
            "needlab.deep.agent.rescale", lambda need, _, by=scale: torch.full_like(need, by)
        )
        before = values(agent, "q").double()
        taught(agent, 20)
        moved.append(values(agent, "q").double() - before)
    assert moved[0].abs().max() > 1e-3
    torch.testing.assert_close(moved[1], factor * moved[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("preset", ["printed", "corrected", "released"])
def test_the_q_loss_moves_the_successor_network_in_released_alone(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(preset, min_history=20)
    taught(agent, 19)
    nothing = torch.zeros((), requires_grad=True)
    monkeypatch.setattr(PaperNeed, "_loss", lambda *_: nothing * 1.0)
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
        batch = replace(agent._sample(np.zeros(5, np.float32)), weights=np.full(4, weight))
        monkeypatch.setattr(agent.buffer, "sample", lambda *_, batch=batch, **__: batch)
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
        need = paper_need(agent)
        with torch.no_grad():
            features = need.features(torch.rand(1, 5)).expand(N_ACTIONS, -1)
            m = need.online.successor(features, torch.arange(N_ACTIONS))
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
        ages[refresh] = agent.buffer.sampler.features.oldest_age  # type: ignore[attr-defined]
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
        assert agent.buffer.sample(1)["reward"][0] == stored


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
        ({"features": 0}, "features"),
        ({"encoder": "shared", "successor_moves_features": True}, "encoder"),
        ({"need_query": "recent"}, "need_query"),
        ({"need_learner": "cosine", "need_query": "start"}, "need_query"),
        ({"need_learner": "cosine", "need_relative": False}, "relative"),
        ({"shuffle": "yes"}, "shuffle"),
        ({"discount": 2.0}, "discount"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"reward_clip": "no"}, "reward_clip"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"scale": "huge"}, "scale"),
        ({"wings": 2}, "wings"),
    ],
)
def test_settings_that_mean_nothing_raise(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        small_agent(**overrides)


def test_observations_that_a_network_cannot_see_raise() -> None:
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


def model_of(agent: DeepAgent) -> NeedModel:
    assert isinstance(agent.need, NeedModel)
    return agent.need


LEARNERS = ["successor", "cosine", "spectral", "linear"]


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_need_serves_the_agents(
    learner: str, sampler: str, encoder: str, tmp_path: Path
) -> None:
    """It learns, saves and loads."""
    options: dict[str, Any] = {
        "need_learner": learner,
        "sampler": sampler,
        "encoder": encoder,
        "refresh": 3,
    }
    agent, other = (small_agent(**options) for _ in range(2))
    taught(agent, 60)
    assert agent.need is not None
    assert agent.need.updates > 10  # type: ignore[attr-defined]
    assert ("successor" in agent.networks()) == (learner == "successor")
    save_agent(agent, tmp_path)
    load_agent(other, tmp_path)
    assert other.need is not None
    obs = np.ones(5, np.float32)
    found, again = (each.learn(obs) for each in (agent, other))
    assert found is not None
    assert found == again
    assert found.need is not None
    assert np.isfinite(found.need).all()
    columns = {"obs": np.eye(5, dtype=np.float32), "action": np.zeros(5, int)}
    needs = [each.needs_of(obs, columns) for each in (agent.need, other.need)]
    np.testing.assert_array_equal(needs[0], needs[1])
    assert np.ptp(needs[0]) > 0.0


@pytest.mark.parametrize("sampler", ["uniform", "per", "rank", "pser", "per-recency"])
def test_an_agent_without_need_has_no_network_for_it(sampler: str) -> None:
    agent = small_agent("default", sampler=sampler)
    assert agent.need is None
    assert list(agent.networks()) == ["q", "q_target"]
    own = {id(p) for p in agent.q.online.parameters()}
    assert {id(p) for group in agent.optimizer.param_groups for p in group["params"]} == own


@pytest.mark.parametrize("learner", LEARNERS)
def test_updates_are_scaled_by_need_as_it_is_seen_from_the_present(learner: str) -> None:
    """Also where need is a power of the product."""
    agent = small_agent(need_learner=learner, sampler="per-sr", scale="raw", learn_every=10**6)
    taught(agent, 60)
    assert agent.need is not None
    obs, sampled = np.ones(5, np.float32), agent.buffer.sample(8)
    batch = to_transitions(sampled, agent.buffer, agent.settings, agent.device)
    factor, stats = agent._need_of(sampled, batch, obs)
    expected = agent.need.needs_of(obs, sampled.columns)
    assert factor is not None
    assert stats is not None
    np.testing.assert_allclose(factor.numpy(), np.maximum(expected, 0.0), rtol=1e-4)
    assert stats.mean == pytest.approx(expected.mean(), rel=1e-4)


def test_statistics_of_sampling_are_of_need_too() -> None:
    agent = small_agent(need_learner="cosine", sampler="per-sr-sampling", learn_every=1)
    taught(agent, 60)
    obs = np.ones(5, np.float32)
    query = query_of(agent, obs)
    batch = agent._sample(obs)
    _, stats = agent._need_of(batch, None, obs)  # type: ignore[arg-type]
    products = model_of(agent).features(batch["obs"]) @ query
    assert stats is not None
    assert stats.mean == pytest.approx((products**6).mean(), rel=1e-4)


@pytest.mark.parametrize("sampler", ["per-sr", "per-sr-sampling"])
def test_a_need_model_learns_at_every_period_of_updates(sampler: str) -> None:
    for period, expected in ((1, 28), (2, 14), (4, 7)):
        agent = small_agent(need_learner="cosine", sampler=sampler, learn_every=period)
        while agent.updates < 28:
            taught(agent, 1)
        assert model_of(agent).updates == expected


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_query_comes_with_the_vectors_of_what_is_new(learner: str, encoder: str) -> None:
    agent = small_agent(sampler="per-sr-sampling", need_learner=learner, encoder=encoder)
    need = agent.need
    assert need is not None
    rows: Any = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    for t in range(6):
        agent.observe(rows[t], 0, 0.0, rows[t + 1], False, False)
    np.testing.assert_allclose(query_of(agent, rows[7]), need.queries(rows[7]), atol=1e-5)
    stored = agent.buffer.features(np.arange(6))
    expected = need.vectors(agent.buffer.read(np.arange(6)))
    np.testing.assert_allclose(stored, expected, rtol=1e-4, atol=1e-5)
    # Nothing is new: a query alone.
    np.testing.assert_allclose(query_of(agent, rows[0]), need.queries(rows[0]), atol=1e-5)


def test_a_copied_agent_has_need_on_layers_of_its_own() -> None:
    agent = small_agent(sampler="per-sr-sampling", need_learner="cosine", encoder="shared")
    taught(agent, 30)
    copied = copy.deepcopy(agent)
    obs = np.ones(5, np.float32)
    before = model_of(copied).query(obs)
    pickle.dumps(copied.need)
    with torch.no_grad():
        for parameter in agent.q.online.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(model_of(copied).query(obs), before)


@pytest.mark.parametrize("steps", [45, 100])
@pytest.mark.parametrize("learner", ["successor", "cosine"])
def test_shuffled_need_scales_by_the_same_values_on_wrong_transitions(
    learner: str, steps: int
) -> None:
    """A buffer of 64, partly filled and long full. Sampling: ``tests/need/``."""
    agent = small_agent(sampler="per-sr", need_learner=learner, shuffle=True, scale="raw")
    taught(agent, steps)
    buffer, need, obs = agent.buffer, agent.need, np.ones(5, np.float32)
    assert need is not None
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    sampled = replace(buffer.sample(len(ids)), ids=ids, columns=buffer.read(ids))
    batch = to_transitions(sampled, buffer, agent.settings, agent.device)
    factor, _ = agent._need_of(sampled, batch, obs)
    own = need.needs_of(obs, sampled.columns)
    assert factor is not None
    np.testing.assert_allclose(sorted(factor.tolist()), sorted(own), rtol=1e-4)
    assert (np.abs(factor.numpy() - own) > 1e-4 * own.max()).mean() > 0.9


@pytest.mark.parametrize("query", ["recent", "start"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_query_for_each_row_of_a_batch(query: str, direction: str) -> None:
    """Of observations that are stored: of any recent one, or of the first after an end."""
    agent = small_agent(
        sampler="per-sr-sampling", need_learner="cosine", need_query=query, direction=direction
    )
    model = model_of(agent)
    assert len(taught(agent, 40)) == 33
    starts = agent.buffer.episodes(np.arange(40))[1] == 0
    for new in (True, False):  # with transitions since the last query, and without
        if new:
            step = next(iter(walk("vector", 1, seed=1)))
            agent.observe(*step[:5], truncated=False)
        queries = query_of(agent, np.zeros(5, np.float32))
        assert queries.shape == (4, model.n_features)
        obs = agent.buffer.read(np.arange(40))["obs"]
        stored = model.queries(obs)
        nearest = np.abs(queries[:, None] - stored).sum(2)
        assert (nearest.min(1) < 1e-4).sum() >= 3  # the last may be the new one
        if query == "start":
            assert starts[nearest.argmin(1)[nearest.min(1) < 1e-4]].all()


def test_gain_x_recency_is_a_sampler_of_the_agent() -> None:
    agent = small_agent(sampler="per-recency", mean_age=7.0, uniform_mix=0.25)
    taught(agent, 40)
    sampler = agent.buffer.sampler
    assert isinstance(sampler, RecencySampler)
    assert (sampler.mean_age, sampler.alpha, sampler.uniform_mix) == (7.0, 0.6, 0.25)
    assert sampler.correct_for == "gain"
    assert agent.need is None
    with pytest.raises(NeedReplayError, match="mean_age"):
        small_agent(sampler="per-recency", mean_age=0.5)
