"""Runs in processes of this machine: one process a run, one thread a process."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

from needreplay.sweeps.engines.base import Ended
from needreplay.sweeps.engines.pool import Outcome, Pool
from needreplay.sweeps.execute import LAST_LINES, execute, last_lines
from needreplay.sweeps.spec import RunSpec

LOG = "log.txt"


class LocalEngine:
    """Processes of this machine. Scripts need ``if __name__ == "__main__":``, as always.

    Args:
        workers: how many at once.
    """

    def __init__(self, workers: int) -> None:
        self._pool = Pool(workers)
        self._folders: dict[str, Path] = {}

    @property
    def slots(self) -> int:
        """How many runs go on at once."""
        return self._pool.workers

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Begin a run in a fresh process."""
        self._folders[spec.name] = folder
        self._pool.start(spec.name, _work, (spec, folder))

    def wait(self, seconds: float) -> list[Ended]:
        """Runs that have ended, or whose process has."""
        return [self._ended(outcome) for outcome in self._pool.wait(seconds)]

    def _ended(self, outcome: Outcome) -> Ended:
        name = str(outcome.key)
        folder = self._folders.pop(name)
        if outcome.exit_code is not None:
            code = outcome.exit_code
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return Ended(name, "lost", (f"Its process ended with {how}.", *_end_of(folder / LOG)))
        lines = last_lines(outcome.error) if outcome.error else outcome.value
        return Ended(name, "raised" if lines else "done", tuple(lines))

    def close(self) -> None:
        """End every process at once; what they wrote is whole, and is gone on with."""
        self._pool.close()


def _work(job: tuple[RunSpec, Path]) -> list[str]:
    """In the worker: do the run; the last lines if it fails. What it prints goes to its log."""
    spec, folder = job
    _print_to(folder / LOG)
    try:
        execute(spec, folder)
    except Exception as error:
        return last_lines(error) or [repr(error)]
    return []


def _print_to(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(target, stream)
    faulthandler.enable(sys.stderr)


def _end_of(log: Path) -> tuple[str, ...]:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(lines[-LAST_LINES:])
