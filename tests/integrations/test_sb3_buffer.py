"""The buffer: targets as Stable-Baselines3's, ends of episodes, priorities, rejected calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from needreplay import NeedReplayError
from needreplay.integrations import sb3
from needreplay.integrations.sb3 import PrioritizedReplay, PrioritizedReplayBuffer

from .sb3_models import Walk, small


def steps(count: int, n_envs: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Arguments of ``add``: unique observations, random rewards, ends and time limits."""
    rng = np.random.default_rng(seed)
    made = []
    for t in range(count):
        obs = (100.0 * t + np.arange(n_envs)[:, None]).astype(np.float32)
        done = rng.random(n_envs) < 0.25
        infos = [{"TimeLimit.truncated": bool(d and rng.random() < 0.5)} for d in done]
        action = rng.integers(2, size=(n_envs, 1))
        made.append((obs, obs + 50, action, rng.normal(size=n_envs), done, infos))
    return made


def filled(cls: Any, n_envs: int, count: int = 40, size: int = 1000, **options: Any) -> Any:
    space = spaces.Box(-np.inf, np.inf, (1,))
    buffer = cls(size, space, spaces.Discrete(2), device="cpu", n_envs=n_envs, **options)
    for step in steps(count, n_envs):
        buffer.add(*step)
    return buffer


@pytest.mark.parametrize("handle_timeouts", [True, False])
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("n_envs", [1, 2])
def test_targets_are_those_of_sb3s_buffers(
    n_envs: int, n_steps: int, handle_timeouts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reward, next observation, and the factor of the next value, of every stored transition."""
    extra: dict[str, Any] = {"handle_timeout_termination": handle_timeouts}
    n_step: dict[str, Any] = {"n_steps": n_steps, "gamma": 0.9}
    theirs = (
        filled(ReplayBuffer, n_envs, **extra)
        if n_steps == 1
        else filled(NStepReplayBuffer, n_envs, **extra, **n_step)
    )
    mine = filled(PrioritizedReplayBuffer, n_envs, seed=0, **extra, **n_step)
    data = mine.sample(400)
    assert len(set(data.ids.tolist())) > 30
    rows, envs = np.divmod(data.observations[:, 0].numpy().astype(int), 100)
    monkeypatch.setattr(np.random, "randint", lambda *_, **__: envs)
    expected = theirs._get_samples(rows)
    assert torch.equal(data.observations, expected.observations)
    assert torch.equal(data.actions, expected.actions)
    assert torch.equal(data.next_observations, expected.next_observations)
    torch.testing.assert_close(data.rewards, expected.rewards)
    factors = [
        (1 - samples.dones) * (0.9 if samples.discounts is None else samples.discounts)
        for samples in (data, expected)
    ]
    torch.testing.assert_close(*factors)
    if n_steps == 1:
        assert data.discounts is None
        assert [data[k].dtype for k in range(5)] == [expected[k].dtype for k in range(5)]


def test_a_full_buffer_forgets_the_oldest_and_knows_its_size() -> None:
    mine, theirs = (filled(c, 2, size=30) for c in (PrioritizedReplayBuffer, ReplayBuffer))
    assert (mine.size(), mine.pos, mine.full) == (theirs.size(), theirs.pos, theirs.full)
    assert len(mine.buffer) == mine.buffer.capacity == 30
    assert mine.sample(500).observations.min() >= 100.0 * 25
    mine.reset()
    assert (mine.size(), len(mine.buffer)) == (0, 0)


def test_what_is_stored_at_the_end_of_an_episode() -> None:
    """VecEnv resets by itself: the last observation is in infos. Time limits bootstrap."""
    model = small("DQN", Walk(length=3), learning_starts=100).learn(12)
    columns = model.replay_buffer.buffer.read(np.arange(12))
    np.testing.assert_array_equal(columns["obs"][:, 0], [0, 1, 2] * 4)
    np.testing.assert_array_equal(columns["next_obs"][:, 0], [1, 2, 3] * 4)
    np.testing.assert_array_equal(columns["next_obs"][:, 1], columns["obs"][:, 1])
    ends = columns["discount"][2::3] == 0.0
    np.testing.assert_array_equal(ends, [True, False, True, False])


@pytest.mark.parametrize("n_steps", [1, 3])
def test_vecnormalize_scales_as_sb3_does(n_steps: int) -> None:
    """It clips rewards; sums of several are not clipped."""
    env = VecNormalize(DummyVecEnv([lambda: Walk()]), clip_reward=0.4)
    model = small("DQN", env, n_steps=n_steps, learning_starts=10**6).learn(60)
    data = model.replay_buffer.sample(50, env=env)
    raw = model.replay_buffer.buffer.read(data.ids)
    expected: Any = env.normalize_obs(raw["obs"])
    np.testing.assert_allclose(data.observations.numpy(), expected, rtol=1e-6)
    scaled = raw["reward"] / np.sqrt(env.ret_rms.var + env.epsilon)
    assert scaled.max() > 0.4
    expected = np.minimum(scaled, 0.4) if n_steps == 1 else scaled
    np.testing.assert_allclose(data.rewards[:, 0].numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["proportional", "rank", "pser"])
def test_each_kind_prefers_what_has_a_large_error(kind: Any) -> None:
    replay = PrioritizedReplay(kind=kind, alpha=1.0)
    buffer = filled(PrioritizedReplayBuffer, 1, replay=replay, seed=0)
    assert buffer.buffer.sampler.name == kind
    buffer.update_priorities(np.arange(40), np.where(np.arange(40) == 7, 100.0, 0.1))
    data = buffer.sample(400)
    share = (data.ids == 7).mean()
    assert share > 0.15
    if kind == "proportional":
        assert share == pytest.approx(100.0 / 103.9, abs=0.01)
        assert data.weights[data.ids == 7].max() < data.weights.max() == 1.0


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize(("kind", "alpha"), [("proportional", 0.6), ("pser", 0.6), ("rank", 0.0)])
def test_stratified_samples_spread_over_equal_priorities(
    kind: Any, alpha: float, stratified: bool
) -> None:
    """40 equal priorities, 40 samples: stratified ones have each transition once."""
    replay = PrioritizedReplay(kind=kind, alpha=alpha, stratified=stratified)
    ids = filled(PrioritizedReplayBuffer, 1, replay=replay, seed=0).sample(40).ids
    assert (len(set(ids)) == 40) == stratified


def test_several_gradient_steps_update_priorities_between_samples() -> None:
    model = small("TD3", learning_starts=30, gradient_steps=5, train_freq=(1, "episode"))
    order: list[str] = []
    inner = model.replay_buffer.buffer
    sample, update = inner.sample, inner.update_priorities
    inner.sample = lambda *a, **k: order.append("sample") or sample(*a, **k)  # type: ignore[func-returns-value]
    inner.update_priorities = lambda *a: order.append("update") or update(*a)  # type: ignore[func-returns-value]
    model.learn(40)
    assert order[:10] == ["sample", "update"] * 5
    assert order.count("update") == order.count("sample") == 10


def test_beta_goes_to_its_end_while_learning() -> None:
    model = small("DQN", replay=PrioritizedReplay(beta=(0.2, 0.6)), train_freq=1)
    assert model.replay_buffer.beta == 0.2
    model.learn(100)
    assert model.replay_buffer.beta == pytest.approx(0.6)
    assert PrioritizedReplay(beta=0.3).beta_at(0.5) == 0.3
    for pair in ((0.2, 0.6), [0.2, 0.6]):
        assert PrioritizedReplay(beta=pair).beta_at(0.25) == pytest.approx(0.3)  # type: ignore[arg-type]


def test_a_subclass_of_ones_own_uses_the_buffer() -> None:
    """Stable-Baselines3's DQN with a ``train`` that reads weights and ids."""

    class Own(stable_baselines3.DQN):
        def train(self, gradient_steps: int, batch_size: int = 100) -> None:  # noqa: ARG002
            buffer: Any = self.replay_buffer
            data = buffer.sample(batch_size, env=self._vec_normalize_env)
            q = self.q_net(data.observations).gather(1, data.actions)
            error = q - data.rewards
            loss = (data.weights * error.square()).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()
            buffer.update_priorities(data.ids, error.abs())
            self.last = data.ids[-1], float(error.detach()[-1].abs())

    model = small(
        "DQN",
        cls=Own,
        replay_buffer_class=PrioritizedReplayBuffer,
        replay_buffer_kwargs={"replay": PrioritizedReplay(alpha=0.7), "seed": 1},
    ).learn(60)
    number, error = model.last
    assert model.replay_buffer.buffer.sampler.priorities[number] == pytest.approx(error + 1e-6)
    assert model.replay_buffer.buffer.sampler.alpha == 0.7


def test_before_the_first_n_step_return_nothing_is_learned() -> None:
    model = small("DQN", n_steps=3, learning_starts=0, train_freq=1).learn(3)
    assert model._n_updates == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replay_buffer_class": ReplayBuffer}, "ReplayBuffer, which cannot be prioritized. Leave"),
        ({"replay": PrioritizedReplay(frame_stack=3)}, "must be a Box whose first axis"),
        (
            {"replay": sb3.NeedReplay(), "optimize_memory_usage": True},
            "each frame is stored once if frame_stack is 2",
        ),
        ({"replay": "per"}, r"replay is 'per'; pass UniformReplay\(\)"),
    ],
)
def test_what_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        small("DQN", **options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "best"}, "kind"),
        ({"alpha": 2.0}, "alpha is 2.0"),
        ({"beta": 1.5}, "beta is 1.5"),
        ({"beta": (0.1, 0.2, 0.3)}, "a pair"),
        ({"critics": "min"}, "critics"),
        ({"gain_floor": -1.0}, "gain_floor is -1.0"),
    ],
)
def test_rejected_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        PrioritizedReplay(**settings)


def test_a_train_without_a_known_loss_is_rejected() -> None:
    class Strange(stable_baselines3.DQN):
        def train(self, gradient_steps: int, batch_size: int = 100) -> None:  # noqa: ARG002
            self.replay_buffer.sample(batch_size)  # type: ignore[union-attr]

    class Both(sb3.WithReplay, Strange):
        pass

    with pytest.raises(NeedReplayError, match=r"Both.train computed no loss that replay can"):
        small("DQN", cls=Both).learn(40)


@pytest.mark.parametrize("version", ["2.6.0", "2.10.0", "3.0.0a1"])
def test_other_versions_are_rejected(version: str) -> None:
    with pytest.raises(NeedReplayError, match=rf"sb3 is {version}; .* from 2.7 up to .* 2.10"):
        sb3.check_version("sb3", version)
    sb3.check_version("sb3", "2.9.2")
    sb3.check_version("sb3", "2.7.0a2")


def test_several_environments_fill_one_buffer() -> None:
    model = small("SAC", make_vec_env(lambda: Walk(actions=spaces.Box(-1, 1, (1,))), 3)).learn(60)
    assert len(model.replay_buffer.buffer) == 60
    assert model.replay_buffer.size() == 20
