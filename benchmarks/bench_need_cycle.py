"""What need adds to a training step: a batch and its priorities, and ``add``, beside PER's.

    python benchmarks/bench_need_cycle.py [--rounds 9] [--json FILE]

Need is that of a default model (``cosine``) that has learned from the transitions in the buffer,
which are of random play. Queries and vectors are computed before, so that this is the buffer's part
alone: ``sample(32, need=query)`` and ``update_priorities``; ``add(..., features=vector)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from needlab.worlds.named import WorldSettings, make_world
from needreplay import NeedBuffer, ProportionalSampler, ReplayBuffer
from replay_peers import priorities, turns
from timing import alternate, arguments, print_table, print_versions, ratio, write_json

WORLDS = ("CartPole-v1", "minatar/breakout", "minatar/seaquest", "minatar/space_invaders")
STORED = 100_000
LEARNED = 1_000
"""Updates of the need model."""
BATCH, QUERIES, CALLS = 32, 64, 1_000
Job = Callable[[], object]


def played(world: str, buffers: list[NeedBuffer | ReplayBuffer]) -> list[dict[str, Any]]:
    """Fill ``buffers`` with the same random play; returns the last steps."""
    rng = np.random.default_rng(0)
    env = make_world(world, WorldSettings())
    last: list[dict[str, Any]] = []
    obs, _ = env.reset(seed=0)
    for _ in range(STORED):
        action = int(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        next_obs, reward, terminated, truncated, _ = env.step(action)
        step = {"obs": obs, "action": action, "reward": float(reward), "next_obs": next_obs}
        step |= {"terminated": bool(terminated), "truncated": bool(truncated)}
        for buffer in buffers:
            buffer.add(**step)
        last = [*last[1 - QUERIES :], step]
        obs = env.reset()[0] if terminated or truncated else next_obs
    return last


def jobs_of(world: str) -> tuple[dict[str, Job], NeedBuffer]:
    """The four things to be timed, and the buffer by gain x need."""
    env = make_world(world, WorldSettings())
    by_need = NeedBuffer.for_env(env, capacity=STORED)
    per = ReplayBuffer.for_env(env, capacity=STORED, sampler=ProportionalSampler(0.6))
    steps = played(world, [by_need, per])
    need = by_need.buffer
    for _ in range(LEARNED):
        by_need.model.learn(need)
    queries = [by_need.look(1, step["obs"]) for step in steps]  # the first one sets all vectors
    for buffer in (need, per):
        first = np.arange(buffer.oldest_id, buffer.next_id)
        buffer.update_priorities(first, np.random.default_rng(1).random(len(first)))
    vectors = need.features(np.arange(need.next_id - QUERIES, need.next_id)).astype(np.float64)
    query, step, new = turns(queries), turns(steps), priorities(BATCH)
    with_vector = turns(
        [{**s, "features": vector} for s, vector in zip(steps, vectors, strict=True)]
    )

    def cycle(buffer: ReplayBuffer, wanted: Callable[[], Any]) -> None:
        batch = buffer.sample(BATCH, need=wanted())
        buffer.update_priorities(batch.ids, new())

    return {
        "PER, batch and priorities": lambda: cycle(per, lambda: None),
        "need, batch and priorities": lambda: cycle(need, query),
        "PER, add": lambda: per.add(**step()),
        "need, add": lambda: need.add(**with_vector()),
    }, by_need


def repeated(job: Job) -> Job:
    """``CALLS`` of them."""

    def many() -> None:
        for _ in range(CALLS):
            job()

    return many


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__.splitlines()[0] if __doc__ else "")
    torch.set_num_threads(1)
    print_versions()
    rows, found = [], {}
    for world in WORLDS:
        jobs, by_need = jobs_of(world)
        names = list(jobs)
        # Batches first: adding replaces what is stored.
        seconds = alternate({name: repeated(jobs[name]) for name in names[:2]}, options.rounds)
        acceptance = by_need.facts()["acceptance"]
        seconds |= alternate({name: repeated(jobs[name]) for name in names[2:]}, options.rounds)
        micro = {name: float(np.median(each)) / CALLS * 1e6 for name, each in seconds.items()}
        cycle, add = (ratio(seconds[names[k + 1]], seconds[names[k]]) for k in (0, 2))
        rows.append(
            [world, *(f"{us:.2f}" for us in micro.values()), cycle, add, f"{acceptance:.2f}"]
        )
        found[world] = {"us": micro, "cycle": vars(cycle), "add": vars(add), "accepted": acceptance}
    heads = ["us a call", *names, "cycle / PER's [95%]", "add / PER's [95%]", "accepted"]
    print_table(heads, rows)
    write_json(options.json, {"worlds": found})


if __name__ == "__main__":
    main()
