"""Stable-Baselines3 with uniform, prioritized or gain x need replay: one argument.

    python examples/sb3_need.py --replay need --steps 20000

DQN, SAC, TD3, DDPG and QRDQN take ``replay=``; all else is as Stable-Baselines3 documents it.
"""

from __future__ import annotations

import argparse

import torch

from needreplay.integrations.sb3 import DQN, NeedReplay, PrioritizedReplay, UniformReplay

REPLAYS = {
    "uniform": UniformReplay(),
    "per": PrioritizedReplay(alpha=0.6, beta=(0.4, 1.0)),
    "need": NeedReplay(alpha=0.6),
}


def train(replay: str = "need", steps: int = 20_000, seed: int = 0) -> DQN:
    """Train; returns the model."""
    torch.set_num_threads(1)
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        replay=REPLAYS[replay],
        learning_rate=1e-3,
        buffer_size=20_000,
        learning_starts=500,
        batch_size=64,
        train_freq=1,
        target_update_interval=500,
        exploration_fraction=0.2,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
    )
    return model.learn(steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replay", choices=REPLAYS, default="need")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = train(options.replay, options.steps, options.seed)
    last = [episode["r"] for episode in list(model.ep_info_buffer or [])[-20:]]
    print(f"{options.replay}: mean return of the last 20 episodes {sum(last) / len(last):.1f}")
    if options.replay == "need":
        need = model.replay_buffer.need  # type: ignore[union-attr]
        print("quality of need:", need.quality().text())
