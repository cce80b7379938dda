"""What Stable-Baselines3 documents works: saving, spaces, normalization, noise, logs, callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import CheckpointCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import VecNormalize

from needreplay.integrations import sb3
from needreplay.integrations.sb3 import NeedReplay, PrioritizedReplay

from .sb3_models import ALGORITHMS, Walk, assert_same, env_for, small

OBS = np.array([[1.0, 2.0], [3.0, 0.0]], dtype=np.float32)
REPLAYS = {
    "rank": PrioritizedReplay(kind="rank", beta=0.5),
    "need": NeedReplay(model_options={"discount": 0.8}),
    "shuffled": NeedReplay(shuffle=True),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_saved_model_is_the_same_and_learns_on(name: str, tmp_path: Path) -> None:
    replay = PrioritizedReplay(alpha=0.7, beta=(0.1, 0.9), critics="mean")
    model = small(name, replay=replay, n_steps=2).learn(40)
    model.save(tmp_path / "model")
    cls = getattr(sb3, name)
    loaded = cls.load(tmp_path / "model", env=env_for(name))
    assert (loaded.replay, loaded.n_steps, loaded.seed) == (replay, 2, 0)
    assert_same(model, loaded)
    for one, other in zip(
        *(m.predict(OBS, deterministic=True)[:1] for m in (model, loaded)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    loaded.learn(40)
    assert loaded.replay_buffer.buffer.sampler.alpha == 0.7
    assert loaded._n_updates > model._n_updates
    changed = cls.load(tmp_path / "model", env=env_for(name), replay=PrioritizedReplay(alpha=0.2))
    assert changed.replay_buffer.buffer.sampler.alpha == 0.2


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=REPLAYS)
def test_a_saved_buffer_samples_the_same(replay: Any, tmp_path: Path) -> None:
    model = small("DQN", make_vec_env(lambda: Walk(), 2), n_steps=3, replay=replay).learn(64)
    model.save_replay_buffer(tmp_path / "buffer")
    other = small("DQN", make_vec_env(lambda: Walk(), 2), n_steps=3, replay=replay)
    other.load_replay_buffer(tmp_path / "buffer")
    assert other.replay_buffer.size() == 32
    for _ in range(3):
        first, second = (m.replay_buffer.sample(16) for m in (model, other))
        np.testing.assert_array_equal(first.ids, second.ids)
        assert torch.equal(first.weights, second.weights)
        assert torch.equal(first.next_observations, second.next_observations)
        if isinstance(replay, NeedReplay):
            ones, others = (m.replay_buffer.need.model.query(OBS) for m in (model, other))
            np.testing.assert_array_equal(ones, others)
    other.learn(40)


def test_a_second_learn_does_not_join_two_episodes() -> None:
    """``learn`` resets the environment: a window that is open then ends there."""
    model = small("DQN", Walk(length=50), n_steps=3, learning_starts=10**6)
    model.learn(12).learn(12)
    columns = model.replay_buffer.buffer.read(np.arange(22))
    np.testing.assert_array_equal(columns["obs"][:, 1], columns["next_obs"][:, 1])
    expected = [*range(3, 13), 12, 12, 3, 4]
    np.testing.assert_array_equal(columns["next_obs"][:14, 0], expected)
    more = model.learn(12, reset_num_timesteps=False).replay_buffer.buffer
    assert more.read([more.next_id - 1])["obs"][0, 1] == 1, "the same episode continues"


SPACES = {
    "discrete": spaces.Discrete(4),
    "multidiscrete": spaces.MultiDiscrete([3, 2]),
    "multibinary": spaces.MultiBinary(3),
    "float64": spaces.Box(-1.0, 1.0, (3,), dtype=np.float64),
    "image": spaces.Box(0, 255, (36, 36, 1), dtype=np.uint8),
    "dict": spaces.Dict(
        {
            "row": spaces.Box(-1.0, 1.0, (2,)),
            "number": spaces.Discrete(3),
            "image": spaces.Box(0, 255, (36, 36, 1), dtype=np.uint8),
        }
    ),
}


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("name", ["DQN", "TD3"])
def test_spaces(name: str, kind: str) -> None:
    """Several environments; the samples are what the environments made."""
    policy = {"image": "CnnPolicy", "dict": "MultiInputPolicy"}.get(kind, "MlpPolicy")
    env = make_vec_env(lambda: env_for(name, obs=SPACES[kind]), 2)
    extractor = {"image": {"features_dim": 8}, "dict": {"cnn_output_dim": 8}}.get(kind, {})
    model = small(
        name,
        env,
        policy=policy,
        n_steps=2 if kind == "dict" else 1,
        policy_kwargs={"net_arch": [8], "features_extractor_kwargs": extractor},
        learning_starts=32,
    ).learn(40)
    assert model._n_updates > 0
    data = model.replay_buffer.sample(8)
    shape = model.replay_buffer.obs_shape
    if kind == "dict":
        assert {key: tuple(v.shape[1:]) for key, v in data.observations.items()} == shape
    else:
        assert tuple(data.observations.shape) == (8, *shape)
        assert data.observations.dtype == torch.from_numpy(np.zeros(0, SPACES[kind].dtype)).dtype


def test_vecnormalize_action_noise_and_gsde() -> None:
    cases: dict[str, dict[str, Any]] = {
        "SAC": {"use_sde": True, "sde_sample_freq": 2},
        "TD3": {"action_noise": NormalActionNoise(np.zeros(1), np.ones(1))},
        "DDPG": {"action_noise": OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1))},
    }
    for name, options in cases.items():
        env = VecNormalize(make_vec_env(lambda name=name: env_for(name), 2))
        model = small(name, env, **options).learn(40)
        assert model._n_updates > 0


def test_callbacks_logs_and_evaluation(tmp_path: Path) -> None:
    model = small("DQN", make_vec_env(lambda: Walk(), 1))
    model.set_logger(configure(str(tmp_path / "log"), ["csv", "tensorboard"]))
    checkpoints = CheckpointCallback(30, str(tmp_path / "c"), save_replay_buffer=True)
    model.learn(100, callback=[checkpoints, StopTrainingOnMaxEpisodes(14)], log_interval=4)
    model.logger.close()
    assert model.num_timesteps == 70
    names = sorted(file.name for file in (tmp_path / "c").iterdir())
    assert len([name for name in names if "replay_buffer" in name]) == 2
    head, *rows = (tmp_path / "log" / "progress.csv").read_text().splitlines()
    place = head.split(",").index("replay/beta")
    assert 0.4 < float(rows[-1].split(",")[place]) < 1.0
    assert list((tmp_path / "log").glob("events.out.tfevents*"))
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=2)
    assert isinstance(mean, float)


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_a_progress_bar_reaches_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    assert small("DQN").learn(40, progress_bar=True).num_timesteps == 40
    captured = capfd.readouterr()
    assert "40/40" in captured.out + captured.err


def test_a_seed_decides_everything() -> None:
    """And the global random numbers of numpy are left to Stable-Baselines3."""
    first, second = (small("SAC").learn(50) for _ in range(2))
    assert_same(first, second)
    without = [small("SAC", seed=None).replay_buffer.seed for _ in range(2)]
    assert without[0] != without[1]


def test_qrdqn_and_unknown_names() -> None:
    assert sb3.QRDQN.__name__ in sb3.__all__
    with pytest.raises(AttributeError, match="no attribute 'PPO'"):
        getattr(sb3, "PPO")  # noqa: B009
