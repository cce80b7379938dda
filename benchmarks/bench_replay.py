"""The replay buffer against cpprb, tianshou and Stable-Baselines3, in one process on one core.

    make bench-replay                                      # with the peers, in .venv-peers
    python benchmarks/bench_replay.py --json FILE          # with those that are installed

Times are medians over alternating rounds; ratios are of medians, with a 95% bootstrap interval over
rounds. The peers are the dependency group ``peers``; those that are not installed are named and
left out.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse  # noqa: E402
import gc  # noqa: E402
import platform  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from dataclasses import asdict, dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from needlab.core.tables import write_json  # noqa: E402
from replay_peers import LIBRARIES, Job, version_of  # noqa: E402
from timing import ratio_of_medians  # noqa: E402

MOST_STACKS = 100_000
"""A million of them are 7 GB in a library that stores a frame once, and 28 GB in one that does not.
The frames of a batch are not in the caches either way."""
OURS = "needreplay"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""CPU time leaves out the time that other processes take on a busy machine."""


@dataclass(frozen=True)
class Task:
    """What is timed: ``name`` for the libraries, words for people, and how often in a round."""

    name: str
    words: str
    calls: int


TASKS = (
    Task("cycle 32", "sample 32, gather, update 32", 1000),
    Task("cycle 256", "sample 256, gather, update 256", 300),
    Task("uniform 256", "sample 256 uniformly, gather", 300),
    Task("add 1", "add one", 1000),
    Task("add 64", "add 64", 1000),
    Task("step 1", "step of one environment (3-step, ends)", 1000),
    Task("step 64", "step of 64 environments (3-step, ends)", 500),
    Task("frames 32", "84 x 84 x 4 stacks: sample 32, update 32", 30),
    Task("frames uniform 32", "84 x 84 x 4 stacks: sample 32 uniformly", 30),
)


@dataclass
class Result:
    """One task: microseconds of each round by library, and our ratio to each peer."""

    task: str
    words: str
    rounds: dict[str, list[float]]
    medians: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.medians = {name: float(np.median(times)) for name, times in self.rounds.items()}
        ours = np.array(self.rounds[OURS])
        for name, times in self.rounds.items():
            if name != OURS:
                self.ratios[name] = ratio_of_medians(np.array(times), ours)


def time_round(job: Job, calls: int, clock: str) -> float:
    """Microseconds of one call, over ``calls`` of them."""
    now = CLOCKS[clock]
    begin = now()
    for _ in range(calls):
        job()
    return (now() - begin) / calls * 1e6


def measure(task: Task, *, rounds: int, capacity: int, clock: str, libraries: list[str]) -> Result:
    """Time ``task`` in every library, in turn, ``rounds`` times after one that does not count."""
    size = min(capacity, MOST_STACKS) if task.name.startswith("frames") else capacity
    words = task.words if size == capacity else f"{task.words}, N = {size:,}"
    made = {name: LIBRARIES[name][1](task.name, size) for name in libraries}
    jobs = {name: job for name, job in made.items() if job is not None}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    gc.collect()
    gc.disable()
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            times[name].append(time_round(job, task.calls, clock))
    gc.enable()
    return Result(task.name, words, {name: values[1:] for name, values in times.items()})


@dataclass
class Report:
    """The results of all tasks, and how they were measured."""

    versions: dict[str, str]
    missing: list[str]
    capacity: int
    rounds: int
    clock: str
    load_before: float
    results: list[Result] = field(default_factory=list)

    def table(self) -> str:
        """As Markdown."""
        peers = [name for name in self.versions if name in LIBRARIES and name != OURS]
        lines = [
            f"| us a call, N = {self.capacity:,} | " + " | ".join([OURS, *peers]) + " |",
            "|---|" + "---:|" * (len(peers) + 1),
        ]
        for result in self.results:
            cells = [f"{result.medians[OURS]:.1f}"]
            for name in peers:
                if name in result.medians:
                    ratio, low, high = result.ratios[name]
                    cell = f"{result.medians[name]:.1f} ({ratio:.1f}x [{low:.1f}, {high:.1f}])"
                    cells.append(cell)
                else:
                    cells.append("-")
            lines.append(f"| {result.words} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def text(self) -> str:
        """The table, and how it was measured."""
        lines = [
            ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            f"one core, {self.rounds} alternating rounds, {self.clock} time, "
            f"load before {self.load_before:.2f}",
        ]
        if self.missing:
            lines.append(
                f"not installed: {', '.join(self.missing)} (the dependency group peers has them)"
            )
        return "\n".join([*lines, "", self.table()])


def run(
    *,
    rounds: int = 9,
    capacity: int = 10**6,
    clock: str = "wall",
    tasks: list[str] | None = None,
) -> Report:
    """Measure every task (or those named) in every library that is installed.

    The process stays on one core from here on.
    """
    installed = {name: version for name in LIBRARIES if (version := version_of(name)) is not None}
    missing = [name for name in LIBRARIES if name not in installed]
    versions = {**installed, "numpy": np.__version__, "python": platform.python_version()}
    for name in ("torch",):
        if (version := version_of(name)) is not None:
            versions[name] = version
            if name == "torch":
                __import__("torch").set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    report = Report(versions, missing, capacity, rounds, clock, load)
    for task in TASKS:
        if tasks is None or task.name in tasks:
            report.results.append(
                measure(
                    task, rounds=rounds, capacity=capacity, clock=clock, libraries=list(installed)
                )
            )
    return report


def count(text: str) -> int:
    """A number of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def main() -> None:
    """Measure, print the table, and write JSON where a file was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=count, default=9, help="alternating rounds")
    parser.add_argument("--capacity", type=count, default=10**6, help="transitions in each buffer")
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: without other processes' time"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round here")
    options = parser.parse_args()
    # Warnings of other libraries at import would end up in the middle of the table.
    warnings.simplefilter("ignore")
    report = run(rounds=options.rounds, capacity=options.capacity, clock=options.clock)
    print(report.text())
    if options.json is not None:
        write_json(options.json, asdict(report))


if __name__ == "__main__":
    main()
