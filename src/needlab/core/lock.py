"""A lock on a file; the system releases it when its holder ends, however it ends."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from needreplay._core.errors import NeedReplayError

_POLL = 0.2


@contextmanager
def locked(path: Path, busy: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock ``path`` inside the block.

    Where another process holds it for longer than ``wait`` seconds, raise ``busy``; ``{holder}``
    in it becomes that process. Systems without such locks (Windows) lock nothing.
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
                    raise NeedReplayError(
                        busy.replace("{holder}", holder or "another process")
                    ) from error
            time.sleep(_POLL)
        # For the other process's message; a full disk must not stop this one.
        with suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(file)
