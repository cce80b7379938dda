"""A file that replaces another when it is complete, whatever stops its writer."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from needreplay._core.errors import NeedReplayError
from needreplay._core.uninterrupted import Uninterrupted

_PATIENCE = 120.0
_POLL = 0.01


class _Cleanup:
    """What has to be undone. It is, also where a signal arrives between two lines."""

    _todo: tuple[Callable[[], object], ...] = ()

    def add(self, undo: Callable[[], object]) -> None:
        """Undo this first, before what was added earlier."""
        self._todo = (undo, *self._todo)

    def run(self) -> None:
        """Undo everything that was not undone yet."""
        with Uninterrupted():
            while self._todo:
                undo, *rest = self._todo
                self._todo = tuple(rest)
                undo()

    def __del__(self) -> None:
        """A signal at the first line of a ``finally`` skips the rest of it, but not this."""
        if self._todo:
            self.run()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file to write; it replaces ``path`` if the block ends well, and is gone if not.

    Its name cannot be guessed, and it is opened only if it is new, so it follows no link. Writers
    of the same folder take turns, and the first removes what a killed one left of ``path``. Only a
    regular file is replaced.
    """
    target = Path(path)
    digest = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    part = target.parent / f".{digest}.{secrets.token_hex(8)}.part"
    cleanup = _Cleanup()
    try:
        _check_regular(target)
        if _hold(target.parent, cleanup):
            for stale in target.parent.glob(f".{digest}.*.part"):
                stale.unlink(missing_ok=True)
        with Uninterrupted():
            file = part.open("xb")
            # A part that became the file is gone by then; one that did not must not stay.
            cleanup.add(partial(part.unlink, missing_ok=True))
            cleanup.add(partial(_close, file))
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        _check_regular(target)
        part.replace(target)
    except OSError as error:
        if not target.parent.is_dir():
            raise NeedReplayError(
                f"{str(target)!r} cannot be written: there is no folder {str(target.parent)!r}; "
                "make it first."
            ) from error
        raise NeedReplayError(f"{str(target)!r} cannot be written: {reason(error)}.") from error
    finally:
        cleanup.run()


def open_to_read(path: str | os.PathLike[str]) -> BinaryIO:
    """An open file; raises in a sentence where there is none, and for a named pipe."""
    name = os.fspath(path)
    if Path(path).is_fifo():  # opening it would wait for a writer
        raise NeedReplayError(f"{name} is a named pipe; pass a file.")
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise NeedReplayError(f"{name} cannot be opened: {reason(error)}.") from error


def _close(file: BinaryIO) -> None:
    """Without an error for what a full disk does not take: the write that failed has one."""
    with suppress(OSError):
        file.close()


def _check_regular(target: Path) -> None:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "a device"
        raise NeedReplayError(
            f"{str(target)!r} is {what}, and only a regular file is replaced; choose another path."
        )


def _hold(folder: Path, cleanup: _Cleanup) -> bool:
    """Wait until no other writer is at work in ``folder``, and hold it until ``cleanup``.

    False where that cannot be known (Windows, some network file systems), or takes too long: a
    part's own name keeps it apart from others all the same.
    """
    try:
        import fcntl
    except ImportError:
        folder.stat()
        return False
    with Uninterrupted():
        handle = os.open(folder, os.O_RDONLY)
        cleanup.add(partial(os.close, handle))
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            with Uninterrupted():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Also for a forked process that has the handle.
                cleanup.add(partial(fcntl.flock, handle, fcntl.LOCK_UN))
        except BlockingIOError:
            time.sleep(_POLL)
        except OSError:
            return False
        else:
            return True
    return False


def reason(error: OSError) -> str:
    """What went wrong, in a few words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full"
    return (error.strerror or str(error)).lower()
