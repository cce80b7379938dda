"""A buffer on disk four times as large as the memory that its process may use.

    python benchmarks/bench_disk.py [FOLDER]

The process puts itself into a control group whose memory, the system's cache of its files included,
is a quarter of the rows (this needs root). It fills the buffer, checks every row of what it samples
and says how long batches take; then again without the bound, when all rows fit into the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import timing
from needreplay import ProportionalSampler, ReplayBuffer

ROWS, NBYTES, BLOCK, BATCH, BATCHES = 1 << 18, 8184, 256, 32, 200
SIZE = ROWS * (NBYTES + 8)
GROUPS = {
    Path("/sys/fs/cgroup/memory"): ("memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    Path("/sys/fs/cgroup"): ("memory.max", "memory.peak"),
}


def bound(size: int) -> Path:
    """Let this process use ``size`` bytes of memory; returns the file with its largest use."""
    root = next(root for root in GROUPS if root.is_dir())
    group = root / f"needreplay-{os.getpid()}"
    group.mkdir()
    limit, largest = GROUPS[root]
    (group / limit).write_text(str(size))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    return group / largest


def measure(folder: str, words: str) -> None:
    """Fill a buffer, sample from it and print how fast."""
    columns = {"x": np.int64, "o": (np.uint8, NBYTES)}
    sampler = ProportionalSampler(0.6)
    with ReplayBuffer(ROWS, columns, sampler=sampler, folder=folder) as buffer:
        block, start = np.zeros((BLOCK, NBYTES), np.uint8), time.perf_counter()
        for x in range(0, ROWS, BLOCK):
            block[:] = (np.arange(x, x + BLOCK) % 251)[:, None]
            buffer.add(x=np.arange(x, x + BLOCK), o=block)
        added, seconds = time.perf_counter() - start, list[float]()
        for _ in range(BATCHES):
            start = time.perf_counter()
            batch = buffer.sample(BATCH)
            seconds.append(time.perf_counter() - start)
            buffer.update_priorities(batch.ids, np.ones(BATCH))
            assert np.array_equal(batch["x"], batch.ids)
            assert np.array_equal(batch["o"], np.repeat((batch.ids % 251)[:, None], NBYTES, 1))
        rate, typical = BATCH / np.mean(seconds), 1e6 * float(np.median(seconds))
        print(
            f"{words}: {ROWS / added:,.0f} added a second, {rate:,.0f} sampled a second; "
            f"{BATCH} in {typical:,.0f} us (median)"
        )


def main() -> None:
    """Measure in a process that is bound, and in one that is not."""
    if sys.argv[1:2] == ["bound"]:
        largest = bound(SIZE // 4)
        measure(sys.argv[2], f"memory bound to {SIZE // 4 >> 20} MiB")
        print(f"largest use of memory: {int(largest.read_text()) >> 20} MiB")
        (largest.parents[1] / "cgroup.procs").write_text(str(os.getpid()))
        largest.parent.rmdir()
        return
    timing.print_versions()
    print(f"{ROWS:,} rows of {NBYTES + 8:,} bytes: {SIZE >> 20} MiB")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as place:
        here = [sys.executable, __file__, "bound", f"{place}/a"]
        subprocess.run(here, check=True)
        measure(f"{place}/b", "unbound")


if __name__ == "__main__":
    main()
