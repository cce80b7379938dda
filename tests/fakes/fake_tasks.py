"""Runs that test what worker processes do.

Run as a script it starts two of them, which leave a file each in a folder and then are busy.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from needlab.runs import RunSpec
from needlab.runs.local import LocalEngine
from needlab.runs.runner import Item
from needlab.runs.stopping import Stop
from needlab.runs.sweep_run import execute

Config = dict[str, Any]
OnUnits = Callable[[int], None]


def environment(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Record what this process is like."""
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    (folder / "seen.txt").write_text(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']} {deaf}")
    (folder / "done.json").touch()


def fail(config: Config, folder: Path, on_units: OnUnits) -> None:
    raise ValueError("the maze has no goal")


def die(config: Config, folder: Path, on_units: OnUnits) -> None:
    os._exit(1)


def finish_and_stay(config: Config, folder: Path, on_units: OnUnits) -> None:
    """A thread of it is busy for a while, and Python waits for it before it exits."""

    def busy() -> None:
        time.sleep(60)
        Path(config["path"]).touch()

    threading.Thread(target=busy).start()
    (folder / "done.json").touch()


def hang_up_and_stay(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Close the pipe without a result, and be busy for a while."""
    for pipe in [found for found in gc.get_objects() if isinstance(found, Connection)]:
        pipe.close()
    time.sleep(60)
    Path(config["path"]).touch()


def save_when_stopped(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Stop as training does: some time after the signal, with a checkpoint."""
    stop = Stop()
    with stop.listening():
        (Path(config["path"]) / str(os.getpid())).touch()
        while not stop.asked:
            time.sleep(0.01)
        time.sleep(0.3)
        (folder / "checkpoint").write_text("saved")
        raise stop.stopped()


def begin_and_sleep(config: Config, folder: Path, on_units: OnUnits) -> None:
    Path(config["path"], str(os.getpid())).touch()
    time.sleep(60)


def sleep() -> None:
    time.sleep(60)


if __name__ == "__main__":
    engine = LocalEngine(2)
    try:
        for seed in range(2):
            spec = RunSpec("fake_tasks:begin_and_sleep", {"path": sys.argv[1], "seed": seed})
            done = Path(sys.argv[2], spec.name, "done.json")
            engine.start(Item(spec.name, execute, spec, done, owns_folder=True))
        engine.wait(600)
    finally:
        engine.close()
