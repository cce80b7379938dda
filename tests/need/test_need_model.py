"""``NeedModel``: sampling by it, saving it, and what it rejects."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from needreplay import NeedModel, NeedReplayError, ReplayBuffer

from .walks import DISCOUNT, N, walk


def test_need_is_a_power_of_the_product_and_sampled_so() -> None:
    space = spaces.Box(-1.0, 1.0, (3,))
    space.seed(0)
    model = NeedModel(space)
    power = model.learner.power
    assert power > 1
    others, one = np.stack([space.sample() for _ in range(40)]), space.sample()
    products = model.features(others) @ model.query(one)
    np.testing.assert_allclose(model.need(one, others), products**power, rtol=1e-5)
    again = model.needs(others[:2], others)[1]
    np.testing.assert_allclose(again, model.need(others[1], others), rtol=1e-4)
    # |b| (1 + cos(u, b)) / 2
    b, u = model.features(others)[:, :-1], model.query(one)[:-1]
    cosines = b @ u / np.linalg.norm(b, axis=1) / np.linalg.norm(u)
    lengths = np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(products, lengths * (1.0 + cosines) / 2.0, rtol=1e-5)
    assert model.sampler(need_alpha=0.5).need_alpha == power / 2


def test_a_state_of_another_learner_is_rejected(tmp_path: Path) -> None:
    space = spaces.Box(-1.0, 1.0, (3,))
    NeedModel(space, learner="spectral").save(tmp_path / "need")
    with pytest.raises(NeedReplayError, match=r"learner 'spectral'.*'cosine' here"):
        NeedModel(space).load(tmp_path / "need")
    earlier = {k: v for k, v in NeedModel(space).state_dict().items() if k != "learner"}
    with pytest.raises(NeedReplayError, match="earlier version"):
        NeedModel(space).load_state_dict(earlier)


def test_what_a_sampler_cannot_take_is_named_as_it_was_given() -> None:
    model = NeedModel(spaces.Box(-1.0, 1.0, (3,)))
    with pytest.raises(NeedReplayError, match=r"need_alpha is -1"):
        model.sampler(need_alpha=-1.0)
    with pytest.raises(NeedReplayError, match="batch_size is 1"):
        NeedModel(spaces.Box(-1.0, 1.0, (3,)), batch_size=1)


def test_sampling_by_it_follows_the_discounted_future() -> None:
    buffer, p, (_, successor) = walk()
    model = NeedModel(
        spaces.Discrete(N),
        discount=DISCOUNT,
        learner="linear",
        features=lambda codes: codes,
        batch_size=256,
    )
    for _ in range(400):
        model.learn(buffer)
    by_need = ReplayBuffer.for_spaces(
        spaces.Discrete(N), np.int64, capacity=3_000, sampler=model.sampler()
    )
    columns = buffer.read(np.arange(3_000))
    for obs in columns["obs"]:
        by_need.add(
            obs=obs,
            action=0,
            reward=0.0,
            next_obs=obs,
            terminated=False,
            truncated=False,
            features=model.features(obs),
        )
    batch = by_need.sample(20_000, need=model.query(2))
    shares = np.bincount(batch["obs"], minlength=N) / 20_000
    np.testing.assert_allclose(shares, successor[2] / successor[2].sum(), atol=0.03)
    assert np.abs(p - shares).max() > 0.1


def test_probabilities_are_priority_times_need() -> None:
    """The stored inner products are the model's own."""
    space = spaces.Box(-1.0, 1.0, (3,))
    space.seed(0)
    model = NeedModel(space)
    buffer = ReplayBuffer.for_spaces(space, np.int64, capacity=32, sampler=model.sampler(alpha=1.0))
    for _ in range(32):
        obs = space.sample()
        buffer.add(
            obs=obs,
            next_obs=obs,
            action=0,
            reward=0.0,
            terminated=False,
            truncated=False,
            features=model.features(obs),
        )
    priorities = np.linspace(0.1, 1.0, 32)
    buffer.update_priorities(np.arange(32), priorities)
    one = space.sample()
    batch = buffer.sample(64, need=model.query(one))
    scores = priorities * model.need(one, buffer.read(np.arange(32))["obs"])
    factors = batch.probabilities * scores.sum() / scores[batch.ids]
    if batch.normalized:
        assert factors[0] == pytest.approx(1.0, rel=1e-4)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-4)


def test_saved_and_loaded_it_learns_the_same(tmp_path: Path) -> None:
    buffer, _, _ = walk()
    first, second = (NeedModel(spaces.Discrete(N), seed=seed) for seed in (3, 4))
    for _ in range(3):
        first.learn(buffer)
    first.save(tmp_path / "need.pt")
    second.load(tmp_path / "need.pt")
    assert second.updates == 3
    losses = [[model.learn(buffer) for _ in range(3)] for model in (first, second)]
    assert losses[0] == losses[1]
    again = NeedModel(spaces.Discrete(N), seed=3)
    assert [again.learn(buffer) for _ in range(6)][3:] == losses[0]
    with pytest.raises(NeedReplayError, match="is not what save"):
        NeedModel(spaces.Discrete(N + 1)).load(tmp_path / "need.pt")


def test_what_is_rejected() -> None:
    buffer, _, _ = walk()
    space = spaces.Box(-1.0, 1.0, (3,))
    with pytest.raises(NeedReplayError, match="learn takes the buffer"):
        NeedModel(spaces.Discrete(N)).learn(buffer.sample(4))  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="below 1"):
        NeedModel(space, discount=1.0)
    with pytest.raises(NeedReplayError, match="cosine"):
        NeedModel(space, learner="magic")
    with pytest.raises(NeedReplayError, match="'mission'"):
        NeedModel(spaces.Dict({"mission": spaces.Text(10)}))
    with pytest.raises(NeedReplayError, match=r"\(4,\)"):
        NeedModel(space).query(np.zeros(4))
    with pytest.raises(NeedReplayError, match="a row of numbers"):
        NeedModel(space, features=lambda obs: obs.sum())


def test_a_model_trains_beside_an_environment() -> None:
    """The usage that the docstring shows, in a vector environment with continuous actions."""
    torch.manual_seed(0)
    envs = gymnasium.make_vec("Pendulum-v1", num_envs=3)
    need = NeedModel(envs.single_observation_space, discount=0.9)
    buffer = ReplayBuffer.for_spaces(
        envs.single_observation_space,
        envs.single_action_space,
        capacity=500,
        n_envs=3,
        autoreset="next_step",
        sampler=need.sampler(),
    )
    obs, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(60):
        action = envs.action_space.sample()
        after, reward, terminated, truncated, _ = envs.step(action)
        buffer.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=after,
            terminated=terminated,
            truncated=truncated,
            features=need.features(obs),
        )
        obs = after
        need.learn(buffer)
        batch = buffer.sample(16, need=need.query(obs))
    assert len(batch) == 16
    # Of one open episode none is withheld; a buffer that is all new to the model has some.
    assert np.isnan(need.quality(buffer).auc)
    assert "not measured yet" in need.quality(buffer).text()
    assert 0.0 <= need.quality(buffer, queries=4, new=True).auc <= 1.0
