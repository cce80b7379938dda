"""needreplay.integrations.sb3 beside Stable-Baselines3: steps per second, and returns.

    python benchmarks/bench_sb3.py --json results/bench/sb3.json    # speed: alternating rounds
    python benchmarks/bench_sb3.py --returns --out results/sb3      # resumes: a row per run

Several processes may measure returns, each its own ``--tasks``.

Hyperparameters are RL Zoo's, except that Pendulum has fewer steps. A run's return is the mean over
the training episodes that ended in its last tenth; ``all`` is over all of its episodes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback

import timing
from needreplay.integrations import sb3

NETWORK = {"net_arch": [256, 256]}
TASKS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "algorithm": "DQN", "env": "CartPole-v1", "steps": 50_000, "learning_rate": 2.3e-3,
        "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
        "exploration_fraction": 0.16, "exploration_final_eps": 0.04, "policy_kwargs": NETWORK,
    },
    "pendulum": {
        "algorithm": "SAC", "env": "Pendulum-v1", "steps": 5_000, "learning_rate": 1e-3,
    },
    "pendulum-td3": {
        "algorithm": "TD3", "env": "Pendulum-v1", "steps": 5_000, "learning_rate": 1e-3,
        "gamma": 0.98, "buffer_size": 200_000, "learning_starts": 1000, "noise": 0.1,
    },
    "mountaincar": {
        "algorithm": "DQN", "env": "MountainCar-v0", "steps": 120_000, "learning_rate": 4e-3,
        "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
        "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8,
        "exploration_fraction": 0.2, "exploration_final_eps": 0.07, "policy_kwargs": NETWORK,
    },
}  # fmt: skip
REPLAYS: dict[str, Any] = {"sb3": None, "per": sb3.PrioritizedReplay(), "need": sb3.NeedReplay()}
FIELDS = ["task", "replay", "seed", "steps", "return", "all", "episodes", "cpu_seconds", "date"]


class Returns(BaseCallback):
    """The step at which each episode ended, and its return."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.ended.append((self.num_timesteps, info["episode"]["r"]))
        return True


def model(task: str, replay: str, seed: int, **changes: Any) -> Any:
    """A new model, and how many steps it is to learn."""
    options = {**TASKS[task], **changes}
    name, env, steps = (options.pop(key) for key in ("algorithm", "env", "steps"))
    if noise := options.pop("noise", 0.0):
        options["action_noise"] = stable_baselines3.common.noise.NormalActionNoise(
            np.zeros(1), np.full(1, noise)
        )
    chosen = REPLAYS[replay]
    if chosen is not None:
        options["replay"] = chosen
    home = stable_baselines3 if chosen is None else sb3
    cls = getattr(home, name)
    return cls("MlpPolicy", env, seed=seed, device="cpu", **options), steps


def run(task: str, replay: str, seed: int) -> dict[str, Any]:
    """Train once; a row of the table."""
    learner, steps = model(task, replay, seed)
    returns, start = Returns(), time.process_time()
    learner.learn(steps, callback=returns)
    seconds = time.process_time() - start
    last = [value for step, value in returns.ended if step > 0.9 * steps]
    return {
        "task": task, "replay": replay, "seed": seed, "steps": steps,
        "return": round(float(np.mean(last)), 3),
        "all": round(float(np.mean([value for _, value in returns.ended])), 3),
        "episodes": len(returns.ended), "cpu_seconds": round(seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def measure_returns(folder: Path, tasks: list[str], replays: list[str], seeds: int) -> None:
    """Every run that has no row yet, and the table of what there is."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "returns.csv"
    if not table.exists():
        table.write_text(",".join(FIELDS) + "\n")
    meta = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores shared with other work",
        "versions": {n: version(n) for n in ("needreplay", "stable-baselines3", "torch", "numpy")},
        "settings": {"tasks": TASKS, "replays": {k: repr(v) for k, v in REPLAYS.items()}},
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    for task in tasks:
        for seed in range(seeds):
            for replay in replays:
                with table.open(newline="") as file:
                    rows = list(csv.DictReader(file))
                if any(
                    (r["task"], r["replay"], r["seed"]) == (task, replay, str(seed)) for r in rows
                ):
                    continue
                row = run(task, replay, seed)
                with table.open("a", newline="") as file:
                    csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(row)
                print(*row.values(), flush=True)
    print_returns(table)


def print_returns(table: Path) -> None:
    """Mean and standard error over seeds."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for task, replay in dict.fromkeys((row["task"], row["replay"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["replay"]) == (task, replay)]
        cells = []
        for field in ("return", "all"):
            values = np.array([float(row[field]) for row in mine])
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            cells.append(f"{values.mean():.1f} ± {error:.1f}")
        lines.append([f"{task} {replay}", len(mine), *cells])
    timing.print_table(["", "seeds", "return", "all episodes"], lines)


def measure_speed(rounds: int, replays: list[str], file: Path | None) -> None:
    """CPU time of ``learn`` against Stable-Baselines3's own class, in alternating rounds."""
    timing.print_versions()
    rows, numbers = [], {}
    for task, changes in {
        "cartpole": {"train_freq": 4, "gradient_steps": 1, "learning_starts": 2000},
        "pendulum": {"learning_starts": 2000},
    }.items():
        peers: dict[str, Callable[[], object]] = {}
        for replay in dict.fromkeys(["sb3", *replays]):
            learner, _ = model(task, replay, 0, **changes)
            learner.learn(2000)
            count = 500 if task == "cartpole" else 50

            def more(learner: Any = learner, count: int = count) -> None:
                learner.learn(count, reset_num_timesteps=False)

            peers[replay] = more
        seconds = timing.alternate(peers, rounds)
        for replay, each in seconds.items():
            found = timing.ratio(each, seconds["sb3"])
            per_second = count / float(np.median(each))
            rows.append([f"{task} {replay}", f"{per_second:.0f}", found])
            numbers[f"{task} {replay}"] = {"steps_per_second": per_second, **vars(found)}
    timing.print_table(["", "steps per CPU second", "time / SB3's [95%]"], rows)
    timing.write_json(file, numbers)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="alternating rounds, for speed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write speeds here")
    parser.add_argument("--returns", action="store_true", help="measure returns instead")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--replays", nargs="+", choices=REPLAYS, default=list(REPLAYS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/sb3"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.returns:
        measure_returns(options.out, options.tasks, options.replays, options.seeds)
    else:
        measure_speed(options.rounds, options.replays, options.json)


if __name__ == "__main__":
    main()
