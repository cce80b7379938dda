"""Worker processes: one thread each, deaf to Ctrl-C, and gone when their parent is gone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker

_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "TORCH")}


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def starting_workers() -> Iterator[None]:
    """Start worker processes inside: they use one thread each and do not hear Ctrl-C.

    Libraries read the number of threads when they are imported. The parent stops the workers at
    Ctrl-C, without tracebacks: a blocked signal is inherited from the first instruction on, while
    a handler set by the worker itself would come after its imports.
    """
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    blocks = hasattr(signal, "pthread_sigmask")
    if blocks:
        # The first process starts a helper too, and that unblocks the signal on the way.
        resource_tracker.ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def watch_parent() -> None:
    """In a worker: exit when the process that started it has ended, however it ended."""
    parent = parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
