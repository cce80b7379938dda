"""Small models of every algorithm, and what tests look at in them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces

from needreplay.integrations import sb3 as ours

DISCRETE, CONTINUOUS = ("DQN", "QRDQN"), ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
ALGORITHMS = (*DISCRETE, *CONTINUOUS)


class Walk(gymnasium.Env[Any, Any]):
    """The observation counts the steps of an episode; it ends after ``length`` of them.

    Every second episode is cut off by a time limit, the others terminate.
    """

    def __init__(
        self,
        length: int = 5,
        obs: spaces.Space[Any] | None = None,
        actions: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation_space = obs or spaces.Box(-100.0, 100.0, (2,))
        self.action_space = actions or spaces.Discrete(2)
        self.length, self.episode, self.t = length, -1, 0

    def look(self) -> Any:
        if isinstance(self.observation_space, spaces.Box) and self.observation_space.shape == (2,):
            return np.array([self.t, self.episode], dtype=np.float32)
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.observation_space.seed(seed)
        self.episode, self.t = self.episode + 1, 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        ended, cut = self.t == self.length, self.episode % 2 == 1
        reward = float(self.t + 10 * np.sum(action))
        return self.look(), reward, ended and not cut, ended and cut, {}


def env_for(name: str, **options: Any) -> Walk:
    return Walk(actions=None if name in DISCRETE else spaces.Box(-2.0, 2.0, (1,)), **options)


def sb3s(name: str) -> Any:
    """The original class."""
    return getattr(sb3_contrib if name in ("QRDQN", "TQC", "CrossQ") else stable_baselines3, name)


def small(name: str, env: Any = None, **options: Any) -> Any:
    """A model of our class, or with ``cls`` of that one."""
    cls = options.pop("cls", getattr(ours, name))
    defaults: dict[str, Any] = {
        "policy": "MlpPolicy",
        "buffer_size": 200,
        "learning_starts": 20,
        "batch_size": 16,
        "train_freq": 4,
        "seed": 0,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [8]},
    }
    if name in ("SAC", "TQC", "CrossQ"):
        defaults["ent_coef"] = 0.1
    env = env_for(name) if env is None else env
    return cls(env=env, **{**defaults, **options})


def parameters(model: Any) -> dict[str, torch.Tensor]:
    return dict(model.policy.state_dict())


def assert_same(first: Any, second: Any) -> None:
    """Every parameter, bit for bit."""
    ones, others = parameters(first), parameters(second)
    assert ones.keys() == others.keys()
    for key, one in ones.items():
        assert torch.equal(one, others[key]), key


def priorities(model: Any) -> Any:
    return model.replay_buffer.buffer.sampler.priorities
