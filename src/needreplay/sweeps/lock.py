"""One at a time: a lock on a file that the system lifts when its holder ends, however it ends."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from needreplay.core.errors import NeedReplayError

_POLL = 0.2


@contextmanager
def locked(path: Path, refusal: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock ``path`` inside; refuse with ``refusal`` where another holds it for longer.

    ``{holder}`` in the refusal becomes the process that holds it. Where the system has no such
    locks (Windows), nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise NeedReplayError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
    deadline = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() >= deadline:
                    holder = os.pread(file, 200, 0).decode(errors="replace").strip()
                    said = refusal.format(holder=holder or "another process")
                    raise NeedReplayError(said) from error
            time.sleep(_POLL)
        _say_holder(file)
        yield
    finally:
        os.close(file)


def _say_holder(file: int) -> None:
    """Who holds it, for the other's message; a full disk must not stop anything here."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    except OSError:
        return
