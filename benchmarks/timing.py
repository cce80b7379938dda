"""Speed as a ratio to a named peer: alternating rounds on one core, medians, intervals."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from needreplay._core.rng import stream
from needreplay._core.types import FloatArray


@dataclass(frozen=True)
class Ratio:
    """How many times slower a peer is, with the 95% interval of the median over rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4g} [{self.low:.4g}, {self.high:.4g}]"


def arguments(description: str, rounds: int = 9) -> argparse.Namespace:
    """The options that every benchmark has, read; from here on the process keeps to one core."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="alternating rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return options


def alternate(peers: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, FloatArray]:
    """CPU seconds of each peer in each round; every peer is run once before, unmeasured.

    Peers take turns, and the order is turned round each time, so that a change of the machine's
    speed meets all of them. Time that other processes take is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for work in peers.values():
        work()
    for turn in range(rounds):
        for name in list(peers)[:: 1 if turn % 2 == 0 else -1]:
            start = time.process_time()
            peers[name]()
            seconds[name].append(time.process_time() - start)
    return {name: np.array(each) for name, each in seconds.items()}


def ratio(slow: FloatArray, fast: FloatArray, resamples: int = 2000) -> Ratio:
    """The median over rounds of slow / fast, with a 95% bootstrap interval over rounds."""
    each = slow / fast
    chosen = stream(0, "bootstrap").integers(0, len(each), (resamples, len(each)))
    low, high = np.quantile(np.median(each[chosen], axis=1), [0.025, 0.975])
    return Ratio(float(np.median(each)), float(low), float(high))


def ratio_of_medians(slow: FloatArray, fast: FloatArray) -> tuple[float, float, float]:
    """The ratio of the medians over rounds, with a 95% bootstrap interval over rounds."""
    chosen = stream(0, "bench").integers(0, len(fast), (4000, len(fast)))
    resampled = np.median(slow[chosen], axis=1) / np.median(fast[chosen], axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(np.median(slow) / np.median(fast)), float(low), float(high)


def versions() -> dict[str, str]:
    """What the numbers were measured with."""
    packages = ("needreplay", "numpy", "numba")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one used",
    }


def print_versions() -> None:
    """One line that says what the numbers were measured with."""
    print(", ".join(f"{name} {value}" for name, value in versions().items()))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A plain table: the first column left, the others right."""
    cells = [list(heads), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        first = row[0].ljust(widths[0])
        others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  ".join([first, *others]).rstrip())


def write_json(path: Path | None, numbers: Mapping[str, Any]) -> None:
    """Write the numbers, the versions and the command, where a file was asked for."""
    if path is not None:
        report = {"command": sys.argv, "versions": versions(), **numbers}
        path.write_text(json.dumps(report, indent=1) + "\n")
