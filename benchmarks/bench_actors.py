"""Whole trajectories in one ``add``, and an actor's thread beside a learner that samples.

    python benchmarks/bench_actors.py

A trajectory is compared with the same steps one by one, in a full buffer, by CPU time. "by gain":
priorities differ, as after updates, before each call. The actor adds steps as fast as it can:
alone, and beside a learner that samples and updates without a pause.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

import timing
from needreplay import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    StateNeedSampler,
    UniformSampler,
)

STEPS, SECONDS = 20_000, 2.0
SPACE = Box(-1.0, 1.0, (8,), np.float32)


def buffer(sampler: Any, n_step: int = 1, capacity: int = STEPS) -> ReplayBuffer:
    """An empty one."""
    return ReplayBuffer.for_spaces(
        SPACE, Discrete(4), capacity=capacity, sampler=sampler, n_step=n_step
    )


def trajectory() -> dict[str, Any]:
    """Episodes of 200 steps."""
    rng = np.random.default_rng(0)
    return {
        "obs": rng.random((STEPS, 8), dtype=np.float32),
        "action": rng.integers(4, size=STEPS),
        "reward": rng.normal(size=STEPS),
        "next_obs": rng.random((STEPS, 8), dtype=np.float32),
        "terminated": np.arange(STEPS) % 200 == 199,
        "truncated": np.zeros(STEPS, dtype=np.bool_),
    }


def trajectories(rounds: int) -> None:
    """Microseconds a step, one by one and together."""
    rng = np.random.default_rng(1)
    gains, states = rng.random(STEPS), {"state": rng.integers(50, size=STEPS)}
    features = {d: {"features": rng.random((STEPS, d))} for d in (8, 64)}
    for name, make, n_step, known in (
        ("uniform", UniformSampler, 1, {}),
        ("proportional", ProportionalSampler, 1, {}),
        ("proportional, 3-step", ProportionalSampler, 3, {}),
        ("LAP", partial(ProportionalSampler, 0.4, priority_floor=1.0), 1, {}),
        ("rank", RankSampler, 1, {}),
        ("rank, by gain", RankSampler, 1, {}),
        ("PSER", PSERSampler, 1, {}),
        ("recency, 500", partial(RecencySampler, 500.0), 1, {}),
        ("recency, 5", partial(RecencySampler, 5.0), 1, {}),
        ("features, none passed", partial(FeatureNeedSampler, 8), 1, {}),
        ("features, 8", partial(FeatureNeedSampler, 8), 1, features[8]),
        ("features, 64", partial(FeatureNeedSampler, 64), 1, features[64]),
        ("states, 50", partial(StateNeedSampler, 50), 1, states),
        ("exhaustive, by slot", ExhaustiveNeedSampler, 1, {}),
        ("exhaustive, 8 features", partial(ExhaustiveNeedSampler, n_features=8), 1, features[8]),
    ):
        values = trajectory() | known
        steps = [{key: column[t] for key, column in values.items()} for t in range(STEPS)]
        together, one_by_one = buffer(make(), n_step), buffer(make(), n_step)
        seconds: dict[str, list[float]] = {"one": [], "all": []}
        for turn in range(rounds + 1):
            for replay in (together, one_by_one):
                if "by gain" in name and turn > 0:
                    replay.update_priorities(range(replay.oldest_id, replay.next_id), gains)
            start = time.process_time()
            for step in steps:
                one_by_one.add(**step)
            middle = time.process_time()
            together.add(**values)
            if turn > 0:  # the first is not measured
                seconds["one"].append(middle - start)
                seconds["all"].append(time.process_time() - middle)
        one, at_once = (1e6 * float(np.median(each)) / STEPS for each in seconds.values())
        ratio = one / at_once
        print(f"{name:23} {one:6.2f} us a step, {at_once:6.3f} together: {ratio:.0f}x", flush=True)


def rate(learn: Callable[[ReplayBuffer], None] | None) -> tuple[float, float]:
    """Steps a second that a thread adds for SECONDS, and batches a second beside it."""
    replay, values = buffer(ProportionalSampler(), capacity=100_000), trajectory()
    replay.add(**values)
    steps = [{name: column[t] for name, column in values.items()} for t in range(2_000)]
    added, batches, ended = 0, 0, threading.Event()

    def act() -> None:
        nonlocal added
        while not ended.is_set():
            for step in steps:
                replay.add(**step)
            added += len(steps)

    actor = threading.Thread(target=act)
    actor.start()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        if learn is None:
            time.sleep(0.01)
        else:
            learn(replay)
            batches += 1
    ended.set()
    actor.join()
    return added / SECONDS, batches / SECONDS


def main() -> None:
    """Print all of it."""
    cores = os.sched_getaffinity(0)
    options = timing.arguments(__doc__.partition("\n")[0])
    trajectories(options.rounds)
    os.sched_setaffinity(0, cores)  # a core for each thread

    def sample(replay: ReplayBuffer) -> None:
        batch = replay.sample(256)
        replay.update_priorities(batch.ids, np.full(256, 2.0))

    for name, learn in (("alone", None), ("sampling", sample)):
        found = [rate(learn) for _ in range(options.rounds)]
        added, batches = np.median(found, axis=0)
        print(f"actor, learner {name:9} {added:10,.0f} steps/s {batches:10,.0f} batches/s")


if __name__ == "__main__":
    main()
