"""The processes that do all local work, one for each run: of a sweep, or of a figure.

A process that dies is told apart from the others, which go on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.processes import starting_workers, watch_parent

_SECONDS_TO_EXIT = 5.0
"""that a process has after its answer; a run may have left a thread that never ends"""


@dataclass(frozen=True)
class Outcome:
    """How a piece of work ended: with a value, with an error, or with the end of its process."""

    key: Hashable
    value: Any = None
    error: BaseException | None = None
    exit_code: int | None = None
    """of a process that died at it"""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    key: Hashable


class Pool:
    """Up to ``workers`` processes at once, a new one for every piece of work.

    Args:
        workers: how many.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise NeedReplayError(f"workers must be at least 1, not {workers}.")
        self.workers = workers
        self._busy: list[_Worker] = []

    def start(self, key: Hashable, task: Callable[[Any], Any], argument: Any) -> None:
        """Begin ``task(argument)``; processes find the task by name."""
        worker = self._new(key)
        self._busy.append(worker)
        # A process that has died since is noticed by the next wait.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.pipe.send((task, argument))

    def wait(self, seconds: float | None = None) -> list[Outcome]:
        """What has ended; waits for the first, up to ``seconds``."""
        if not self._busy:
            return []
        # A pipe ends with its process, so that it tells of a death as well.
        ready = wait([worker.pipe for worker in self._busy], timeout=seconds)
        return [self._fetch(worker) for worker in list(self._busy) if worker.pipe in ready]

    def close(self) -> None:
        """End every process at once, whatever it is doing."""
        workers, self._busy = self._busy, []
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            _end(worker)

    def _new(self, key: Hashable) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        # Not a daemon: a run may start processes of its own.
        process = context.Process(target=_serve, args=(theirs,), daemon=False)
        with starting_workers():
            process.start()
        theirs.close()
        return _Worker(process, ours, key)

    def _fetch(self, worker: _Worker) -> Outcome:
        self._busy.remove(worker)
        try:
            value, error = worker.pipe.recv()
        except (EOFError, OSError):
            return Outcome(worker.key, exit_code=_end(worker))
        _end(worker)
        return Outcome(worker.key, value, error)


def _end(worker: _Worker) -> int | None:
    """Let it exit, or make it; its exit code."""
    worker.pipe.close()
    worker.process.join(_SECONDS_TO_EXIT)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()
    code = worker.process.exitcode
    worker.process.close()
    return code


def _serve(pipe: Connection) -> None:
    """In a worker: do the one piece of work that comes."""
    watch_parent()
    try:
        task, argument = pipe.recv()
        value, failed = task(argument), None
    except Exception as error:
        value, failed = None, error
    _answer(pipe, value, failed)


def _answer(pipe: Connection, value: Any, error: Exception | None) -> None:
    with suppress(BrokenPipeError):
        try:
            pipe.send((value, error))
        except BrokenPipeError:
            raise
        except Exception as unsendable:
            said = f"{type(error).__name__}: {error}" if error else str(unsendable)
            pipe.send((None, RuntimeError(said)))
