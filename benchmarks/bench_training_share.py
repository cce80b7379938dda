"""The share of a training step that replay takes: DQN updates in torch, one core.

    .venv-peers/bin/python benchmarks/bench_training_share.py

A step is: add one transition, sample 32, one update of the network, tell 32 gains. Each part is
timed where it happens, with its code and data as the update of the network has left them in the
caches; the median over steps. By the clock: asking the system for CPU time would add some 3 us to
each part, a tenth of what is to be measured.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import timing
from needreplay.replay import ReplayBuffer

torch: Any = importlib.import_module("torch")

BATCH, STEPS = 32, 1000


def mlp() -> Any:
    """Two hidden layers of 256 on 8 numbers: a small control task."""
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)
    )


def minatar() -> Any:
    """MinAtar's network: 16 filters of 3 x 3 on 10 x 10 x 4, a layer of 128, 6 actions."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(),
        nn.Linear(128, 6),
    )  # fmt: skip


def learner(network: Callable[[], Any]) -> Callable[[Any], Any]:
    """One double-DQN update of a batch; returns absolute TD-errors."""
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)

    def learn(batch: Any) -> Any:
        obs, next_obs = (torch.from_numpy(batch[name]).float() for name in ("obs", "next_obs"))
        action = torch.from_numpy(batch["action"])[:, None]
        with torch.no_grad():
            best = online(next_obs).argmax(1, keepdim=True)
            goal = torch.from_numpy(batch["reward"]) + 0.99 * target(next_obs).gather(1, best)[:, 0]
        error = goal - online(obs).gather(1, action)[:, 0]
        loss = (torch.from_numpy(batch.weights.astype(np.float32)) * error.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return error.detach().abs().numpy()

    return learn


def filled(
    dtype: type, shape: tuple[int, ...], actions: int, capacity: int
) -> tuple[ReplayBuffer, dict[str, Any]]:
    """A full buffer, and one more transition for it."""
    columns = {
        "obs": (dtype, shape),
        "action": np.int64,
        "reward": np.float32,
        "next_obs": (dtype, shape),
    }
    replay = ReplayBuffer(capacity, columns, seed=0)
    rng = np.random.default_rng(0)
    chunk = 10_000
    values: dict[str, Any] = {
        "obs": rng.integers(0, 2, (chunk, *shape)).astype(dtype),
        "action": rng.integers(0, actions, chunk),
        "reward": rng.random(chunk, dtype=np.float32),
        "next_obs": rng.integers(0, 2, (chunk, *shape)).astype(dtype),
    }
    for _ in range(capacity // chunk):
        replay.add(**values)
    return replay, {name: value[0] for name, value in values.items()}


def share(
    network: Callable[[], Any], replay: ReplayBuffer, one: dict[str, Any]
) -> tuple[float, float]:
    """Median microseconds of a step's replay and of its learning."""
    learn = learner(network)
    replaying, learning = [], []
    for _ in range(STEPS):
        began = time.perf_counter()
        replay.add(**one)
        batch = replay.sample(BATCH)
        drawn = time.perf_counter()
        gain = learn(batch)
        learned = time.perf_counter()
        replay.update_priorities(batch.ids, gain)
        updated = time.perf_counter()
        replaying.append(drawn - began + updated - learned)
        learning.append(learned - drawn)
    return float(np.median(replaying)) * 1e6, float(np.median(learning)) * 1e6


def main() -> None:
    """Print both shares."""
    timing.arguments(__doc__ or "")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {timing.versions()}")
    for name, network, buffer in (
        ("MLP 256 x 256, N = 10^6", mlp, filled(np.float32, (8,), 4, 1_000_000)),
        ("MinAtar's network, N = 10^5", minatar, filled(np.bool_, (4, 10, 10), 6, 100_000)),
    ):
        replaying, learning = share(network, *buffer)
        part = 100 * replaying / (replaying + learning)
        print(f"{name}: replay {replaying:.0f} us, update {learning:.0f} us, share {part:.1f}%")


if __name__ == "__main__":
    main()
