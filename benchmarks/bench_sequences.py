"""Sequences beside single rows: 32 sequences of 80 small steps, and 2,560 transitions.

    python benchmarks/bench_sequences.py

Both buffers hold the same steps; each call samples, gathers and updates priorities. Cells are
microseconds of CPU time, and how many times longer sequences take, with 95% intervals over rounds.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from gymnasium.spaces import Box, Discrete

import timing
from needreplay import ReplayBuffer, Sequences, UniformSampler
from needreplay._core.types import FloatArray

STEPS, LENGTH, COUNT, CALLS = 100_000, 80, 32, 100
EPISODE = 170
"""Steps: of four sequences of an episode the last is cut short."""


def buffers(uniform: bool) -> dict[str, ReplayBuffer]:
    """A buffer of sequences, and one of transitions, with the same steps."""
    rng, made = np.random.default_rng(0), dict[str, ReplayBuffer]()
    for name, sequences in (("sequences", Sequences(LENGTH, burn_in=40)), ("rows", None)):
        made[name] = ReplayBuffer.for_spaces(
            Box(-1, 1, (8,), np.float32),
            Discrete(4),
            capacity=STEPS,
            sampler=UniformSampler() if uniform else None,
            sequences=sequences,
        )
    for step in range(STEPS):
        obs = rng.random(8, dtype=np.float32)
        for buffer in made.values():
            buffer.add(
                obs=obs,
                action=step % 4,
                reward=0.5,
                next_obs=obs,
                terminated=step % EPISODE == EPISODE - 1,
                truncated=False,
            )
    return made


def work(buffer: ReplayBuffer, errors: FloatArray, uniform: bool) -> None:
    """Batches of as many as ``errors``."""
    for _ in range(CALLS):
        batch = buffer.sample(len(errors))
        if not uniform:
            buffer.update_priorities(batch.ids, errors)


def main() -> None:
    """Print the table."""
    options = timing.arguments((__doc__ or "").splitlines()[0], rounds=15)
    timing.print_versions()
    rows = []
    for words, uniform in (("sample, gather, update", False), ("sample uniformly, gather", True)):
        made = buffers(uniform)
        found = timing.alternate(
            {
                "sequences": partial(work, made["sequences"], np.ones((COUNT, LENGTH)), uniform),
                "rows": partial(work, made["rows"], np.ones(COUNT * LENGTH), uniform),
            },
            options.rounds,
        )
        medians = [f"{1e6 * np.median(found[name]) / CALLS:.0f}" for name in ("sequences", "rows")]
        rows.append([words, *medians, timing.ratio(found["sequences"], found["rows"])])
    timing.print_table(
        ["", f"{COUNT} sequences of {LENGTH}", f"{COUNT * LENGTH:,} rows", "ratio"], rows
    )


if __name__ == "__main__":
    main()
