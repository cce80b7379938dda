"""Learners in a process of their own, which is killed."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ray_sources import COLUMNS, finished, started, stored

from needreplay.distributed import RayReplayBuffer

PATIENCE = 900.0
SAVED, AFTER = 300, 200
"""Transitions that each of two sources has written before and after the buffer is saved."""
OPTIONS: dict[str, Any] = {"capacity": 20_000, "columns": COLUMNS, "shards": 2, "block": 32}


def learn(_: Any, folder: Path) -> None:
    """Save, take more, write down what came, and wait for the end; sources go on."""
    buffer = RayReplayBuffer(**OPTIONS)
    buffer.count_in(folder / "arrived")
    sources = started(buffer, 2)
    finished(buffer, [source.write.remote(SAVED) for source in sources])
    buffer.save(folder / "replay")
    finished(buffer, [source.write.remote(AFTER) for source in sources])
    for source in sources:
        source.write.remote(10**9)
    while buffer.inserted < 2 * (SAVED + AFTER) + 100:
        buffer.poll()
    part = folder / "part"
    part.write_text(json.dumps(stored(buffer)), encoding="utf-8")
    part.rename(folder / "came.json")
    time.sleep(PATIENCE)


def train(run: Any, folder: Path) -> None:
    """Train until the end."""
    from needlab.runs.run import run_training

    run_training(run, folder)


def killed_with(
    cluster: Any, what: str, argument: Any, folder: Path, *, until: Callable[[], bool]
) -> None:
    """Run "module:function" in another process until ``until``, then kill it at once."""
    program = [sys.executable, "-W", "ignore", __file__, cluster.address, what, str(folder)]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(pickle.dumps(argument))
            process.stdin.close()
            ends = time.monotonic() + PATIENCE
            while not until():
                assert process.poll() is None, "it ended by itself"
                assert time.monotonic() < ends
                time.sleep(0.05)
        finally:
            process.kill()


if __name__ == "__main__":
    import ray

    address, what, folder = sys.argv[1:]
    logging: Any = "ERROR"
    ray.init(address=address, log_to_driver=False, logging_level=logging)
    module, function = what.split(":")
    getattr(import_module(module), function)(pickle.load(sys.stdin.buffer), Path(folder))
