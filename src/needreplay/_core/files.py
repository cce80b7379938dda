"""A file that replaces another when it is complete, whatever stops its writer."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from needreplay._core.errors import NeedReplayError

_PATIENCE = 120.0
_POLL = 0.01


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file to write; it replaces ``path`` if the block ends well, and is gone if not.

    Its name cannot be guessed, and it is opened only if it is new, so it follows no link. Writers
    of the same folder take turns, and the first removes what a killed one left of ``path``. Only a
    regular file is replaced.
    """
    target = Path(path)
    digest = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    try:
        _check_regular(target)
        with _alone_in(target.parent) as alone:
            if alone:
                for stale in target.parent.glob(f".{digest}.*.part"):
                    stale.unlink(missing_ok=True)
            part = target.parent / f".{digest}.{secrets.token_hex(8)}.part"
            try:
                with part.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _check_regular(target)
                part.replace(target)
            finally:
                # A part that became the file is gone by now; one that did not must not stay.
                part.unlink(missing_ok=True)
    except OSError as error:
        if not target.parent.is_dir():
            raise NeedReplayError(
                f"{str(target)!r} cannot be written: there is no folder {str(target.parent)!r}; "
                "make it first."
            ) from error
        raise NeedReplayError(f"{str(target)!r} cannot be written: {reason(error)}.") from error


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


@contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Wait until no other writer is at work in ``folder``, and hold it.

    False where that cannot be known (Windows, some network file systems), or takes too long: a
    part's own name keeps it apart from others all the same.
    """
    try:
        import fcntl
    except ImportError:
        folder.stat()
        yield False
        return
    handle, alone = os.open(folder, os.O_RDONLY), False
    deadline = time.monotonic() + _PATIENCE
    try:
        while not alone and time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except BlockingIOError:
                time.sleep(_POLL)
            except OSError:
                break
        yield alone
    finally:
        if alone:
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for a forked process that has the handle
        os.close(handle)


def reason(error: OSError) -> str:
    """What went wrong, in a few words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full"
    return (error.strerror or str(error)).lower()
