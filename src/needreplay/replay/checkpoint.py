"""A whole memory in one file: written at once or not at all, read back to the very same draws.

A line that names the format, a JSON header (settings, counters, random state, the arrays' shapes),
the arrays' bytes, and a digest of it all. Nothing in it is ever run. Arrays are streamed: no second
copy is made of them. A file is checked from end to end before anything in the memory changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray

FORMAT = 3
_MAGIC = b"needreplay memory\n"
_CHUNK = 1 << 22
_DIGEST_SIZE = 32


def _digest() -> Any:
    return hashlib.blake2b(digest_size=_DIGEST_SIZE)


def _chunks(array: AnyArray) -> Iterator[memoryview]:
    """The bytes of a contiguous array, piece by piece, without copying them."""
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK].data


def write_checkpoint(
    path: str | os.PathLike[str], facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> None:
    """Write ``facts`` (what JSON can hold) and ``arrays`` to ``path``, replacing it at the end."""
    target = Path(path)
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = json.dumps({"format": FORMAT, "facts": facts, "arrays": shapes}).encode()
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            digest = _digest()
            pieces = [_MAGIC, len(header).to_bytes(8, "little"), header]
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
            for array in arrays.values():
                for chunk in _chunks(array):
                    file.write(chunk)
                    digest.update(chunk)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


class Checkpoint:
    """An open file that was checked from end to end."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._check_digest()
        self._file.seek(len(_MAGIC))
        length = int.from_bytes(self._file.read(8), "little")
        header = json.loads(self._file.read(length))
        if header["format"] != FORMAT:
            raise NeedReplayError(
                f"{name} has format {header['format']}, but this version of needreplay reads "
                f"format {FORMAT}; use the version that wrote it."
            )
        self.facts: dict[str, Any] = header["facts"]
        self.shapes: dict[str, list[Any]] = header["arrays"]

    def _check_digest(self) -> None:
        """Raise unless this is a whole file of ours; read piece by piece."""
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise NeedReplayError(f"{self._name} is not a memory that needreplay saved.")
        left = self._file.seek(0, os.SEEK_END) - _DIGEST_SIZE
        digest = _digest()
        self._file.seek(0)
        while left > 0:
            chunk = self._file.read(min(_CHUNK, left))
            if not chunk:
                break
            digest.update(chunk)
            left -= len(chunk)
        if left != 0 or self._file.read() != digest.digest():
            raise NeedReplayError(
                f"{self._name} is damaged or cut short, so nothing was loaded; go back to an "
                "earlier one."
            )

    def check_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        """Raise unless these are the names and shapes that were written."""
        for name, array in arrays.items():
            if self.shapes.get(name) != [array.dtype.str, list(array.shape)]:
                raise NeedReplayError(
                    f"{self._name} holds other arrays than this memory has (see {name}); make the "
                    "memory with the settings it was saved with. Nothing was loaded."
                )

    def read_into(self, arrays: Mapping[str, AnyArray]) -> None:
        """Fill ``arrays``, which were checked; an ``OSError`` leaves them filled in part."""
        for name, (dtype, shape) in self.shapes.items():
            if name in arrays:
                for chunk in _chunks(arrays[name]):
                    if self._file.readinto(chunk) != len(chunk):  # type: ignore[attr-defined]
                        raise OSError("it became shorter while it was read")
            else:
                size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
                self._file.seek(size, os.SEEK_CUR)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Checkpoint]:
    """The file at ``path``, open and checked; in prose if there is none."""
    name = os.fspath(path)
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed by the with below
    except OSError as error:
        raise NeedReplayError(f"{name} cannot be opened: {error.strerror}.") from error
    with file:
        yield Checkpoint(file, name)
