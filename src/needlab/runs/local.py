"""The engine ``local``: one process per run on this machine, one thread per process."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from needlab.core.processes import starting_workers, watch_parent
from needlab.runs.execute import LAST_LINES, errors_of
from needlab.runs.stopping import GRACE
from needlab.runs.sweep_file import RunSpec
from needlab.runs.sweep_loop import Ended
from needreplay._core.errors import NeedReplayError
from needreplay._core.uninterrupted import Uninterrupted

LOG = "log.txt"
SECONDS_TO_SAVE = GRACE + 50.0
"""How long a run that is stopped may take to save a checkpoint."""
_SECONDS_TO_EXIT = 5.0
"""A run may leave a thread that never ends."""


@dataclass
class _Worker:
    name: str
    folder: Path
    process: BaseProcess
    pipe: Connection

    def end(self) -> int | None:
        """Let the process exit, or kill it; return its exit code."""
        self.pipe.close()
        self.process.join(_SECONDS_TO_EXIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        self.process.close()
        return code


class LocalEngine:
    """Up to ``workers`` processes at once. Scripts need ``if __name__ == "__main__":``."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise NeedReplayError(f"workers must be at least 1, not {workers}.")
        self.slots = workers
        self._workers: list[_Worker] = []

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Start a run in a new process."""
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        # Not a daemon: a run may start its own processes.
        process = context.Process(target=_work, args=(spec, folder, theirs), daemon=False)
        # A signal between the two would leave a process that nobody ends.
        with Uninterrupted(), starting_workers():
            process.start()
            self._workers.append(_Worker(spec.name, folder, process, ours))
        theirs.close()

    def wait(self, seconds: float) -> list[Ended]:
        """Return the runs that ended, or whose process did."""
        if not self._workers:
            return []
        # A pipe ends with its process, so this notices a death as well.
        ready = wait([worker.pipe for worker in self._workers], timeout=seconds)
        return [self._ended(worker) for worker in list(self._workers) if worker.pipe in ready]

    def _ended(self, worker: _Worker) -> Ended:
        self._workers.remove(worker)
        try:
            lines: tuple[str, ...] = worker.pipe.recv()
        except (EOFError, OSError):
            code = worker.end() or 0
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            lines = (f"Its process ended with {how}.", *_end_of(worker.folder / LOG))
            return Ended(worker.name, "lost", lines)
        worker.end()
        return Ended(worker.name, "raised" if lines else "done", lines)

    def close(self) -> None:
        """Let training save its checkpoints, then kill every process; Ctrl-C does that at once.

        Files are atomic, so the runs can resume either way.
        """
        workers, self._workers = self._workers, []
        with suppress(KeyboardInterrupt):
            for worker in workers:
                worker.process.terminate()
            end = time.monotonic() + SECONDS_TO_SAVE
            for worker in workers:
                worker.process.join(max(0.0, end - time.monotonic()))
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.end()


def _work(spec: RunSpec, folder: Path, pipe: Connection) -> None:
    """In the worker: do the run and send the last lines of its error, or nothing."""
    watch_parent()
    _print_to(folder / LOG)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        pipe.send(errors_of(spec, folder))


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
