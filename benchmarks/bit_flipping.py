"""Hindsight beside Stable-Baselines3's HER: success on its BitFlippingEnv, while DQN learns.

    python benchmarks/bit_flipping.py --out results/hindsight    # resumes: a row for each look

Every arm is Stable-Baselines3's DQN with the same settings. A success rate is that of 50 greedy
episodes from random states.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import stable_baselines3
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback, EveryNTimesteps
from stable_baselines3.common.envs import BitFlippingEnv

from needreplay import Hindsight
from needreplay.integrations.sb3 import DQN, PrioritizedReplay, UniformReplay

BITS, STEPS, LOOK_EVERY, EPISODES = 12, 8_000, 2_000, 50
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3, "batch_size": 64, "gamma": 0.95, "buffer_size": 50_000,
    "learning_starts": 1_000, "train_freq": 2, "target_update_interval": 200,
    "exploration_fraction": 0.5, "exploration_final_eps": 0.02,
    "policy_kwargs": {"net_arch": [64, 64]},
}  # fmt: skip
HER = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"n_sampled_goal": 4}}
ARMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sb3 her": (stable_baselines3.DQN, HER),
    "hindsight, prioritized": (DQN, {"replay": PrioritizedReplay(hindsight=Hindsight(4))}),
    "no hindsight": (DQN, {"replay": UniformReplay()}),
}
FIELDS = ["arm", "seed", "steps", "success"]


def success(model: Any, seed: int) -> float:
    """The share of episodes in which the goal is reached."""
    env, reached = BitFlippingEnv(BITS), 0
    env.seed(1_000 + seed)
    for _ in range(EPISODES):
        obs: Any = env.reset()[0]
        terminated = truncated = False
        while not (terminated or truncated):
            action, _ = model.predict(obs, deterministic=True)
            obs, _, terminated, truncated, _ = env.step(int(action))
        reached += terminated
    return reached / EPISODES


class Look(BaseCallback):
    """Notes the success rate."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.seen = seed, list[tuple[int, float]]()

    def _on_step(self) -> bool:
        self.seen.append((self.num_timesteps, success(self.model, self.seed)))
        return True


def run(arm: str, seed: int) -> list[tuple[int, float]]:
    """Steps and success rates of one run."""
    algorithm, options = ARMS[arm]
    env, look = BitFlippingEnv(BITS), Look(seed)
    env.seed(seed)
    model = algorithm("MultiInputPolicy", env, seed=seed, **SETTINGS, **options)
    model.learn(STEPS, EveryNTimesteps(LOOK_EVERY, look), log_interval=None)
    return look.seen


def main() -> None:
    """Make the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder; runs in it are kept")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    table = options.out / "bit_flipping.csv"
    rows = list(csv.DictReader(table.open())) if table.exists() else []
    done = {(row["arm"], int(row["seed"])) for row in rows}
    for seed in range(options.seeds):
        for arm in ARMS:
            if (arm, seed) in done:
                continue
            for steps, rate in run(arm, seed):
                rows.append(dict(zip(FIELDS, (arm, seed, steps, rate), strict=True)))
            with table.open("w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(rows)
            print(arm, seed, rows[-1]["success"], flush=True)


if __name__ == "__main__":
    main()
