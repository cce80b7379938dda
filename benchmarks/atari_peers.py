"""The peers of bench_atari.py: Stable-Baselines3's DQN, and a loop as CleanRL's script has it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH = 32
PERIOD = 4
CAPACITY = 10_000
START = 200
"""Steps before the first update, made while warming up."""
EPSILON = 0.05
LEARNING_RATE = 6.25e-5
DISCOUNT = 0.99
WORLD = "ALE/Pong-v5"
OPTIONS = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": False}


def sb3_loop(steps: int) -> Callable[[], None]:
    """DQN with CnnPolicy on their own Atari wrappers."""
    DQN = import_module("stable_baselines3").DQN
    make_atari_env = import_module("stable_baselines3.common.env_util").make_atari_env
    VecFrameStack = import_module("stable_baselines3.common.vec_env").VecFrameStack

    env = VecFrameStack(
        make_atari_env(
            WORLD,
            env_kwargs=OPTIONS,
            wrapper_kwargs={"noop_max": 0, "frame_skip": 4, "terminal_on_life_loss": False},
            seed=0,
        ),
        n_stack=4,
    )
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=CAPACITY,
        learning_starts=START,
        batch_size=BATCH,
        train_freq=PERIOD,
        gradient_steps=1,
        target_update_interval=8_000,
        learning_rate=LEARNING_RATE,
        gamma=DISCOUNT,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        device="cpu",
        seed=0,
    )

    def work() -> None:
        first = model.num_timesteps == 0
        model.learn(START + steps if first else steps, reset_num_timesteps=first)

    return work


class NatureNetwork(nn.Module):
    """The network as CleanRL writes it: a Sequential, pixels divided in ``forward``."""

    def __init__(self, n_actions: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
            nn.Linear(512, n_actions),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Q(s, .)."""
        values: Tensor = self.network(x / 255.0)
        return values


def _wrapped() -> gymnasium.Env[Any, Any]:
    atari_wrappers = import_module("stable_baselines3.common.atari_wrappers")

    env = gymnasium.make(WORLD, **OPTIONS)  # type: ignore[arg-type]
    env = gymnasium.wrappers.RecordEpisodeStatistics(env)
    env = atari_wrappers.MaxAndSkipEnv(env, skip=4)
    env = atari_wrappers.ClipRewardEnv(env)
    env = gymnasium.wrappers.ResizeObservation(env, (84, 84))
    env = gymnasium.wrappers.GrayscaleObservation(env)
    return gymnasium.wrappers.FrameStackObservation(env, 4)


def cleanrl_loop(steps: int) -> Callable[[], None]:
    """One file's worth of DQN: a vector of one environment, SB3's buffer, Adam, squared error."""
    ReplayBuffer = import_module("stable_baselines3.common.buffers").ReplayBuffer

    rng = np.random.default_rng(0)
    envs = gymnasium.vector.SyncVectorEnv(
        [_wrapped], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    n_actions = int(envs.single_action_space.n)  # type: ignore[attr-defined]
    online, target = NatureNetwork(n_actions), NatureNetwork(n_actions)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=LEARNING_RATE)
    memory = ReplayBuffer(
        CAPACITY,
        envs.single_observation_space,
        envs.single_action_space,
        "cpu",
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    obs, _ = envs.reset(seed=0)
    done = 0

    def update() -> None:
        data = memory.sample(BATCH)
        with torch.no_grad():
            best = target(data.next_observations).max(dim=1).values
            goal = data.rewards.flatten() + DISCOUNT * best * (1 - data.dones.flatten())
        value = online(data.observations).gather(1, data.actions).squeeze()
        loss = functional.mse_loss(goal, value)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def work() -> None:
        nonlocal obs, done
        for _ in range(steps if done else START + steps):
            if rng.random() < EPSILON:
                actions = np.array([envs.single_action_space.sample()])
            else:
                with torch.no_grad():
                    actions = torch.argmax(online(torch.Tensor(obs)), dim=1).numpy()
            next_obs, rewards, terminations, truncations, infos = envs.step(actions)
            real_next = next_obs.copy()
            for k, ended in enumerate(np.logical_or(terminations, truncations)):
                if ended:
                    real_next[k] = infos["final_obs"][k]
            memory.add(obs, real_next, actions, rewards, terminations, [infos])
            obs = next_obs
            done += 1
            if done > START and done % PERIOD == 0:
                update()
            if done % 8_000 == 0:
                target.load_state_dict(online.state_dict())

    return work
