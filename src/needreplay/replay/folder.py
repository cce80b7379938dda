"""A buffer in a folder: its rows in a mapped file, everything else in a file that ``flush`` writes.

- ``rows``: the rows (with stacks of frames: the frames), mapped into memory, as long as they get.
- ``state``: what ``save`` writes, without the rows, as it was at the last ``flush``.
- ``whole``: the id from which on no row has been overwritten since, mapped too.
- ``lock``: locked by the process that has the folder open.

What is mapped is the system's as soon as it is written, so it outlives the process.
"""

from __future__ import annotations

import mmap
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.files import reason
from needreplay.replay.save import load_contents, opened, save_contents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from needreplay._core.types import IntArray
    from needreplay.replay.contents import Contents
    from needreplay.replay.storage import Bytes

_ROWS, _STATE, _WHOLE, _LOCK = "rows", "state", "whole", "lock"
_CHUNK = 1 << 22


class Folder:
    """An open folder, locked against other processes until ``release``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._handle: int | None = None
        self.path, self._process = Path(path), os.getpid()
        with self._named_errors():
            self.path.mkdir(exist_ok=True)
            if any(self.path.iterdir()) and not (self.path / _LOCK).is_file():
                raise NeedReplayError(
                    f"{str(self.path)!r} has files, but no buffer of needreplay; choose a new or "
                    "an empty folder."
                )
            self._acquire()
            # A folder that was never flushed has nothing that was promised.
            self.is_new = not (self.path / _STATE).exists()
            first: IntArray = self._mapped(_WHOLE, 8).view(np.int64)
        self._whole = first
        if self.is_new:
            first[0] = 0

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.release()
            raise NeedReplayError(
                f"{str(self.path)!r} cannot be the folder of a buffer: {reason(error)}."
            ) from error
        except NeedReplayError:
            self.release()
            raise

    def _acquire(self) -> None:
        self._handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            import fcntl
        except ImportError:  # Windows: whoever opens a folder twice is not stopped
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NeedReplayError(
                f"{str(self.path)!r} is open in another process, or in another buffer of this one; "
                "close that one first."
            ) from error
        except OSError:  # a file system without locks
            return

    def release(self) -> None:
        """Let others open the folder."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self.is_own:  # also where a forked process still has the file open
            with suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)

    def __del__(self) -> None:
        self.release()

    @property
    def is_own(self) -> bool:
        """Whether this process opened the folder, and is not a fork of the one that did."""
        return os.getpid() == self._process

    # What is mapped ------------------------------------------------------------------------------

    def rows(self, count: int, stride: int) -> Bytes:
        """``count`` rows of bytes in the folder: those that are there, or zeros."""
        size, file = count * stride, self.path / _ROWS
        if not self.is_new and (held := file.stat().st_size if file.exists() else 0) != size:
            raise NeedReplayError(
                f"{str(self.path)!r} has {held:,} bytes of rows, but this buffer takes {size:,}: "
                "its capacity or its columns are others. Make the buffer as it was made, or "
                "choose another folder. Nothing was changed."
            )
        with self._named_errors():
            return self._mapped(_ROWS, size).reshape(count, stride)

    def _mapped(self, name: str, size: int) -> Bytes:
        """A file of ``size`` bytes, mapped. All of it is taken from the disk now.

        Were it taken when it is written, a full disk would end the process.
        """
        with (self.path / name).open("w+b" if self.is_new else "r+b") as file:
            if self.is_new:
                try:
                    _take(file.fileno(), size)
                except OSError:
                    file.truncate(0)
                    raise
            if os.fstat(file.fileno()).st_size != size:
                raise NeedReplayError(
                    f"{str(self.path)!r} is damaged: its file {name!r} is not as long as it was."
                )
            memory = mmap.mmap(file.fileno(), size)
        with suppress(AttributeError):
            memory.madvise(mmap.MADV_RANDOM)
        setattr(self, f"_map_of_{name}", memory)
        return np.frombuffer(memory, dtype=np.uint8)

    def before_loss(self, oldest: int) -> None:
        """Rows before ``oldest`` are about to be overwritten; raises in a forked process."""
        if not self.is_own:
            self._reject_fork()
        if oldest > self._whole[0]:
            self._whole[0] = oldest

    def _reject_fork(self) -> NoReturn:
        raise NeedReplayError(
            f"{str(self.path)!r} belongs to process {self._process}, which opened it; a forked "
            "process cannot change it."
        )

    # What is written by flush --------------------------------------------------------------------

    def load(self, contents: Contents) -> None:
        """Bring ``contents`` to the last ``flush``, without what was overwritten since."""
        if not self.is_new:
            with opened(self.path / _STATE) as file:
                load_contents(contents, file, has_rows=False)
            contents.lose_rows(self._whole.item(0))
        contents.guards.append(self.before_loss)

    def write(self, contents: Contents) -> None:
        """Write what ``contents`` are now."""
        if not self.is_own:
            self._reject_fork()
        for name in (_ROWS, _WHOLE):
            getattr(self, f"_map_of_{name}").flush()
        save_contents(contents, self.path / _STATE, has_rows=False)
        self._whole[0] = contents.rows.oldest_id
        self.is_new = False


def _take(handle: int, size: int) -> None:
    """Take ``size`` bytes of the disk for an empty file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    zeros = bytes(_CHUNK)
    for start in range(0, size, _CHUNK):
        os.write(handle, zeros[: size - start])


class Closed:
    """In place of the lock of a buffer that was closed: no method gets past it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> NoReturn:
        raise NeedReplayError(
            f"This buffer is closed; make it again with folder={str(self._path)!r} to go on."
        )

    def __exit__(self, *_: object) -> None:
        pass
