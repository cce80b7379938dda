"""Prioritized sweeping on the Dyna maze: the compiled kernel against plain Python.

50 trials x 50 episodes, 5 sweeps a step, on one core, after compilation. Also what a second process
pays for compiled code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from needlab.tabular.settings import PS_SR, without_need
from needlab.tabular.trial import run_trial
from needlab.worlds import DYNA_MAZE, world_of_text
from needreplay._core.rng import stream
from plain_sweeping import World, choose_by_one_number, numpy_trial, plain_trial
from timing import alternate, arguments, print_table, print_versions, ratio, write_json

TRIALS, EPISODES, PROCESSES = 50, 50, 9
KERNEL, PLAIN, NUMPY = "needreplay, compiled", "plain Python", "numpy Q"
TRIALS_OF_A_ROUND = {KERNEL: TRIALS, PLAIN: TRIALS, NUMPY: TRIALS // 5}
"""The slowest peer runs fewer trials a round; times are compared per trial."""

FIRST_RESULT = """
from needreplay._core.rng import stream
from needlab.tabular.settings import PS_SR, without_need
from needlab.tabular.trial import run_trial
from needlab.worlds import DYNA_MAZE, world_of_text
run_trial(world_of_text(DYNA_MAZE), without_need(PS_SR["printed"]), 1, stream(0))
"""
ONLY_IMPORTS = """
import numba
from needlab.worlds import DYNA_MAZE, world_of_text
world_of_text(DYNA_MAZE)
"""


def run_process(code: str) -> tuple[float, float]:
    """The seconds of a fresh process that runs ``code``: by the clock, and of the CPU."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    seconds, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return seconds, cpu - before.children_user - before.children_system


class Peer:
    """One way to run trials; every call runs trials that were not run before, and counts."""

    def __init__(self, trials: int, trial: Callable[[int], tuple[int, int]]) -> None:
        self.trials, self.trial = trials, trial
        self.counts: list[tuple[int, int]] = []

    def __call__(self) -> None:
        """Run the next trials."""
        for seed in range(len(self.counts), len(self.counts) + self.trials):
            self.counts.append(self.trial(seed))


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__.splitlines()[0])
    table, settings = world_of_text(DYNA_MAZE), without_need(PS_SR["printed"])
    world = World(table)

    def kernel_trial(seed: int) -> tuple[int, int]:
        trial = run_trial(table, settings, EPISODES, stream(0, "bench", seed))
        return int(trial.lengths.sum()), trial.agent.updates

    trial_of: dict[str, Callable[[int], tuple[int, int]]] = {
        KERNEL: kernel_trial,
        PLAIN: lambda seed: plain_trial(world, settings, EPISODES, stream(0, "bench", seed)),
        NUMPY: lambda seed: numpy_trial(world, settings, EPISODES, stream(0, "bench", seed)),
    }

    def numpy_with_the_same_numbers(seed: int) -> tuple[int, int]:
        rng = stream(0, "bench", seed)
        return numpy_trial(world, settings, EPISODES, rng, choose_by_one_number)

    print_versions()
    print(f"PS on the Dyna maze, preset printed: {TRIALS} trials x {EPISODES} episodes, n = 5.\n")
    peers = {name: Peer(TRIALS_OF_A_ROUND[name], trial) for name, trial in trial_of.items()}
    seconds = {
        name: each / TRIALS_OF_A_ROUND[name]
        for name, each in alternate(peers, options.rounds).items()
    }
    ratios = {name: ratio(seconds[name], seconds[KERNEL]) for name in peers}
    means = {name: np.mean(peer.counts, axis=0) for name, peer in peers.items()}
    print_table(
        ["", "ms / trial", "steps / s", "steps / trial", "updates / trial", "times slower [95%]"],
        [
            [
                name,
                f"{np.median(seconds[name]) * 1e3:.3f}",
                f"{means[name][0] / np.median(seconds[name]):,.0f}",
                f"{means[name][0]:.0f}",
                f"{means[name][1]:.0f}",
                str(ratios[name]) if name != KERNEL else "1",
            ]
            for name in peers
        ],
    )
    same = [numpy_with_the_same_numbers(seed) for seed in range(TRIALS_OF_A_ROUND[NUMPY])]
    for name, counts in ((PLAIN, peers[PLAIN].counts), (NUMPY, same)):
        expected = np.array(peers[KERNEL].counts[: len(counts)])
        apart = float(np.abs(np.sum(counts, axis=0) / expected.sum(axis=0) - 1.0).max())
        verdict = "within 2%" if apart <= 0.02 else "MORE THAN 2% APART"
        print(
            f"{name}: given the same random numbers, steps and updates in {len(counts)} trials "
            f"differ by {apart:.2%} from the kernel's: {verdict}."
        )
    processes = np.array(
        [[run_process(FIRST_RESULT), run_process(ONLY_IMPORTS)] for _ in range(PROCESSES)]
    )
    extra, extra_cpu = np.median(processes[:, 0] - processes[:, 1], axis=0).tolist()
    print(
        f"A second process pays for compiled code {extra:.2f} s by the clock, {extra_cpu:.2f} s of "
        "CPU time: to its first result, less importing numba and making the maze."
    )
    write_json(
        options.json,
        {
            "seconds_per_trial": {name: each.tolist() for name, each in seconds.items()},
            "ratios": {name: vars(ratios[name]) for name in (PLAIN, NUMPY)},
            "steps_and_updates_per_trial": {name: each.tolist() for name, each in means.items()},
            "seconds_for_compiled_code": {"clock": extra, "cpu": extra_cpu},
        },
    )


if __name__ == "__main__":
    main()
