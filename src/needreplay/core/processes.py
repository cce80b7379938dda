"""Habits of worker processes: deaf to Ctrl-C, and gone when their parent is gone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes started inside do not hear Ctrl-C: this process stops them, without tracebacks.

    A blocked signal is inherited from the first instruction on, while a handler set by the worker
    itself would come after its imports.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The first process to be started starts a helper too, and that unblocks the signal on the way.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def watch_parent() -> None:
    """In a worker: leave when the process that started it is gone, however it went."""
    parent = parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
