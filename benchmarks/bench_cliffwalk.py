"""Figure 3's trials against the paper's own way: a pass over the buffer for each update.

Ratio: seconds per update with a compiled pass / seconds per update with sampling by state, for the
same agent. Run: ``python benchmarks/bench_cliffwalk.py``.
"""

from __future__ import annotations

import time

import numpy as np

from needlab.core.jit import jit
from needlab.studies.cliffwalk.agent import run_trial
from needlab.studies.cliffwalk.settings import cliffwalk_preset
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

SIZES = (5, 8, 11, 14, 16)
REPEATS = 3


@jit
def sample_exhaustively(
    gain: FloatArray,
    states: IntArray,
    need: FloatArray,
    exponent: float,
    scores: FloatArray,
    uniform: float,
) -> int:
    """Sample j ∝ (gain_j need[s_j])^α: compute every score, then walk to the sampled slot."""
    total = 0.0
    for slot in range(len(gain)):
        scores[slot] = (gain[slot] * need[states[slot]]) ** exponent
        total += scores[slot]
    rest = uniform * total
    for slot in range(len(gain)):
        rest -= scores[slot]
        if rest < 0.0:
            return slot
    return len(gain) - 1


def seconds_of_a_pass(n: int) -> float:
    """CPU seconds of one exhaustive sample from n 2^n transitions."""
    rng = stream(0, "bench", n)
    size = n * 2**n
    gain, need = rng.random(size), rng.random(n)
    states = rng.integers(0, n, size)
    scores = np.empty(size)
    sample_exhaustively(gain, states, need, 0.6, scores, 0.5)
    samples = max(3, 2_000_000 // size)
    began = time.process_time()
    for _ in range(samples):
        sample_exhaustively(gain, states, need, 0.6, scores, rng.random())
    each: float = (time.process_time() - began) / samples
    return each


def seconds_of_an_update(n: int) -> float:
    """CPU seconds of an update of ``need``, walk and learning of M included."""
    # The released M overflows above 12 states; corrected's stays an occupancy, at the same cost.
    budget = max(20_000, min(200_000, n * 2**n))
    settings = cliffwalk_preset(
        "corrected", threshold=0.0, least_budget=budget, budget_per_transition=1
    )
    table = cliffwalk_world(n, settings.fall, settings.right_actions)
    seconds: float = 0.0
    for repeat in range(REPEATS):
        began = time.process_time()
        updates = run_trial(table, settings, "need", trial=repeat).updates
        seconds += (time.process_time() - began) / updates
    return seconds / REPEATS


def main() -> None:
    """Print one line for each size."""
    run_trial(cliffwalk_world(2, "teleports", "first"), cliffwalk_preset("released"), "need")
    print("figure 3, method need: an update that scores the whole buffer / that samples by state")
    for n in SIZES:
        swept, grouped = seconds_of_a_pass(n), seconds_of_an_update(n)
        print(
            f"  {n:2d} states, {n * 2**n:9,d} transitions: {1e6 * swept:10.1f} us / "
            f"{1e6 * grouped:6.2f} us = {swept / grouped:8.1f} times"
        )


if __name__ == "__main__":
    main()
