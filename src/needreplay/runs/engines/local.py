"""Runs in processes of this machine: one process a run, one thread a process."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from needreplay.errors import NeedReplayError
from needreplay.runs.engines.base import Ended
from needreplay.runs.processes import deaf_children, watch_parent
from needreplay.runs.sweep.execute import LAST_LINES, execute, last_lines
from needreplay.runs.sweep.spec import RunSpec

LOG = "log.txt"
_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA", "TORCH")
}


@dataclass
class _Running:
    process: BaseProcess
    said: Connection
    folder: Path


class LocalEngine:
    """``workers`` processes at once. Scripts need ``if __name__ == "__main__":``, as always."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise NeedReplayError(f"workers must be at least 1, not {workers}.")
        self._workers = workers
        self._running: dict[str, _Running] = {}

    @property
    def slots(self) -> int:
        """How many runs go on at once."""
        return self._workers

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Begin a run in a fresh process."""
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(spec, folder, theirs), name=spec.name)
        with deaf_children(), _environment(_ONE_THREAD):
            process.start()
        theirs.close()
        self._running[spec.name] = _Running(process, ours, folder)

    def wait(self, seconds: float) -> list[Ended]:
        """Runs whose process has ended."""
        sentinels = [running.process.sentinel for running in self._running.values()]
        if not wait(sentinels, timeout=seconds):
            return []
        names = [n for n, running in self._running.items() if not running.process.is_alive()]
        return [self._fetch(name) for name in names]

    def _fetch(self, name: str) -> Ended:
        running = self._running.pop(name)
        running.process.join()
        lines: list[str] | None = None
        with suppress(EOFError, OSError):
            if running.said.poll():
                lines = running.said.recv()
        running.said.close()
        code = running.process.exitcode or 0
        running.process.close()
        if lines is None:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            said = (f"Its process ended with {how}.", *_end_of(running.folder / LOG))
            return Ended(name, "lost", said)
        return Ended(name, "raised" if lines else "done", tuple(lines))

    def close(self) -> None:
        """End every process at once; what they wrote is whole, and is gone on with."""
        for running in self._running.values():
            running.process.kill()
        for running in self._running.values():
            running.process.join()
            running.said.close()
        self._running.clear()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables for processes started inside: libraries read them when they are imported."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _work(spec: RunSpec, folder: Path, said: Connection) -> None:
    """In the worker: do the run, and say how it ended; what it prints goes to its log."""
    watch_parent()
    _print_to(folder / LOG)
    lines: list[str] = []
    try:
        execute(spec, folder)
    except Exception as error:
        lines = last_lines(error) or [repr(error)]
    said.send(lines)
    said.close()


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
