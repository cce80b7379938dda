"""What prefetch hides: a loop over batches of Atari stacks, sampled or prefetched, by the clock.

    python benchmarks/bench_prefetch.py

The learner multiplies matrices in torch on one thread for as long as one batch takes to gather, or
twice or four times as long. Shown is how long a step takes beyond the learner's own time: with
``sample`` all of the gathering, with ``prefetch`` what could not be hidden behind the learner.
This needs two cores.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

import timing
from needreplay import ReplayBuffer

torch: Any = importlib.import_module("torch")

STORED, BATCH, STEPS, DEPTH = 50_000, 256, 100, 2
LONGER = (1.0, 2.0, 4.0)
"""The learner's time, in times that of the gathering."""


def filled() -> ReplayBuffer:
    """Stacks of four frames of 84 x 84, each frame stored once."""
    space = Box(0, 255, (4, 84, 84), np.uint8)
    buffer = ReplayBuffer.for_spaces(space, Discrete(6), capacity=STORED, frame_stack=4)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (STORED // 50, 84, 84)).astype(np.uint8)
    obs = np.repeat(frames[:1], 4, axis=0)
    for step in range(STORED):
        next_obs = np.concatenate([obs[1:], frames[step % len(frames)][None]])
        buffer.add(
            obs=obs, action=0, reward=0.0, next_obs=next_obs, terminated=False, truncated=False
        )
        obs = next_obs
    return buffer


def learner(seconds: float) -> Callable[[], None]:
    """Work in torch that takes this long."""
    left = torch.rand(160, 160)
    out = torch.empty_like(left)

    def work(count: int) -> None:
        for _ in range(count):
            torch.mm(left, left, out=out)

    work(500)
    start = time.perf_counter()
    work(2000)
    count = max(1, round(seconds / (time.perf_counter() - start) * 2000))
    return lambda: work(count)


def per_step(next_batch: Callable[[], Any], learn: Callable[[], None] | None) -> float:
    """Seconds of a step, on average."""
    for _ in range(2 * DEPTH):
        next_batch()
    start = time.perf_counter()
    for _ in range(STEPS):
        next_batch()
        if learn is not None:
            learn()
    return (time.perf_counter() - start) / STEPS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="alternating rounds")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    buffer = filled()
    gather = min(per_step(lambda: buffer.sample(BATCH), None) for _ in range(3))
    print(f"{BATCH} stacks of 84 x 84 x 4 from {STORED:,}: gathered in {gather * 1e6:,.0f} us")
    print(
        ", ".join(f"{name} {known}" for name, known in timing.versions().items())[
            : -len(", one used")
        ]
    )
    print("learner, us | us beyond it: sample | prefetch | hidden [95%]")
    for longer in LONGER:
        learn = learner(longer * gather)
        taken: dict[str, list[float]] = {"alone": [], "sample": [], "prefetch": []}
        for _ in range(rounds):
            taken["alone"].append(per_step(lambda: None, learn))
            taken["sample"].append(per_step(lambda: buffer.sample(BATCH), learn))
            with buffer.prefetch(BATCH, depth=DEPTH) as batches:
                taken["prefetch"].append(per_step(lambda: next(batches), learn))
        alone, sampled, ahead = (np.array(each) for each in taken.values())
        hidden = timing.ratio(sampled - ahead, sampled - alone)
        beyond = [1e6 * float(np.median(each - alone)) for each in (sampled, ahead)]
        print(f"{1e6 * np.median(alone):,.0f} | {beyond[0]:,.0f} | {beyond[1]:,.0f} | {hidden}")


if __name__ == "__main__":
    main()
