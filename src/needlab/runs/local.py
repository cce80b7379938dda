"""The engine ``local``: processes on this machine, one thread each."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from needlab.core.processes import starting_workers, watch_parent
from needlab.runs.runner import LAST_LINES, Ended, Item, do, error_lines
from needlab.runs.stopping import GRACE
from needreplay._core.errors import NeedReplayError
from needreplay._core.uninterrupted import Uninterrupted

LOG = "log.txt"
SECONDS_TO_SAVE = GRACE + 50.0
"""How long an item that is stopped may take to save a checkpoint."""
_STOPPING = (
    f"needreplay: stopping; training saves a checkpoint first, for {SECONDS_TO_SAVE:g} s at most. "
    "Ctrl-C again stops at once."
)
_SECONDS_TO_EXIT = 5.0
"""A run may leave a thread that never ends."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    item: Item

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
    """Up to ``workers`` processes at once. Scripts need ``if __name__ == "__main__":``.

    Args:
        workers: how many.
        reuse: whether a process does one item after the other (short ones) or only one.
    """

    def __init__(self, workers: int, *, reuse: bool = False) -> None:
        if workers < 1:
            raise NeedReplayError(f"workers must be at least 1, not {workers}.")
        self.slots = workers
        self._reuse = reuse
        self._busy: list[_Worker] = []
        self._idle: list[_Worker] = []

    def start(self, item: Item) -> None:
        """Start an item in a process that waits, or in a new one."""
        # A signal in between would leave a process that nobody ends.
        with Uninterrupted():
            if not self._idle:
                self._idle.append(_new_worker(item))
            worker = self._idle.pop()
            worker.item = item
            self._busy.append(worker)
        with suppress(OSError):  # ``wait`` notices that the process is dead
            worker.pipe.send(item)

    def wait(self, seconds: float) -> list[Ended]:
        """Return the items that ended, or whose process did."""
        if not self._busy:
            return []
        # A pipe ends with its process, so this notices a death as well.
        ready = wait([worker.pipe for worker in self._busy], timeout=seconds)
        return [self._ended(worker) for worker in list(self._busy) if worker.pipe in ready]

    def _ended(self, worker: _Worker) -> Ended:
        self._busy.remove(worker)
        try:
            ended: Ended = replace(worker.pipe.recv(), name=worker.item.name)
        except (EOFError, OSError):
            code = worker.end() or 0
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            log = _end_of(worker.item.path.with_name(LOG)) if worker.item.owns_folder else ()
            return Ended(worker.item.name, "lost", (f"Its process ended with {how}.", *log))
        if self._reuse:
            self._idle.append(worker)
        else:
            worker.end()
        return ended

    def close(self) -> None:
        """Let training save its checkpoints, then kill every process; Ctrl-C does that at once.

        Files are atomic, so the items can resume either way.
        """
        workers, self._busy, self._idle = [*self._busy, *self._idle], [], []
        with suppress(KeyboardInterrupt):
            for worker in workers:
                worker.process.terminate()
            for seconds in (1.0, SECONDS_TO_SAVE):
                end = time.monotonic() + seconds
                for worker in workers:
                    worker.process.join(max(0.0, end - time.monotonic()))
                saving = (w for w in workers if w.process.is_alive() and w.item.owns_folder)
                if seconds == 1.0 and any(saving):
                    print(_STOPPING, file=sys.stderr, flush=True)
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.end()


def _new_worker(item: Item) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    # Not a daemon: a run may start its own processes.
    process = context.Process(target=_work, args=(theirs,), daemon=False)
    with starting_workers():
        process.start()
    theirs.close()
    return _Worker(process, ours, item)


def _work(pipe: Connection) -> None:
    """In the worker: do what is sent, until the pipe is closed."""
    watch_parent()
    with suppress(KeyboardInterrupt, BrokenPipeError, EOFError):
        while True:
            try:
                item: Item = pipe.recv()
            except (ImportError, AttributeError) as error:  # of the item's function
                pipe.send(Ended("", "raised", error_lines(error)))
                continue
            if item.owns_folder:
                _print_to(item.path.with_name(LOG))
            pipe.send(do(item, item.path.parent))


def _print_to(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    faulthandler.enable(sys.stderr)


def _end_of(log: Path) -> tuple[str, ...]:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(lines[-LAST_LINES:])
