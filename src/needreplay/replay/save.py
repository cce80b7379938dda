"""A buffer in one file: written atomically, and loaded to sample exactly as before.

The file is a line that names the format, a JSON header (settings, counters, random state, the
shapes of the arrays), the bytes of the arrays, and a digest of all that. Nothing in it is ever
executed. Arrays are streamed without a second copy. The digest is checked before anything in the
buffer changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.replay.samplers.base import Sampler

FORMAT = 4
_MAGIC = b"needreplay buffer\n"
_CHUNK = 1 << 22
_DIGEST_SIZE = 32
_PLAIN = (bool, int, float, str)


def sampler_settings(sampler: Sampler, prefix: str = "sampler") -> dict[str, Any]:
    """The name and plain public attributes of a sampler, and of a sampler inside it."""
    settings: dict[str, Any] = {prefix: sampler.name}
    for name, value in vars(sampler).items():
        if name[0] != "_" and isinstance(value, _PLAIN):
            settings[f"{prefix}.{name}"] = value
        elif hasattr(value, "set_priorities"):
            settings |= sampler_settings(value, f"{prefix}.{name}")
    return settings


def save_buffer(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    filled: Mapping[str, int],
) -> None:
    """Write settings, state and the used rows of each array; replace ``path`` at the end.

    Args:
        path: an older file there stays until the new one is complete.
        settings: what must be the same for the file to be loaded.
        state: everything else that JSON can hold.
        arrays: every array, live.
        filled: how many rows of an array are in use, where not all are.
    """
    facts = {"settings": dict(sorted(settings.items())), "state": state, "filled": filled}
    arrays = _used(arrays, filled)
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = json.dumps({"format": FORMAT, "facts": facts, "arrays": shapes}).encode()
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            digest = _digest()
            for piece in (_MAGIC, len(header).to_bytes(8, "little"), header):
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


def load_buffer(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    clear: Callable[[], None],
) -> dict[str, Any]:
    """Fill ``arrays`` from a file with the same ``settings``; returns the state.

    A file that is damaged or has other settings is refused before anything changes; ``clear`` is
    called if reading fails after that.
    """
    with _open(path) as file:
        for name in sorted(settings.keys() | file.facts["settings"].keys()):
            saved, own = file.facts["settings"].get(name), settings.get(name)
            if saved != own:
                raise NeedReplayError(
                    f"{os.fspath(path)} was saved with {name} {saved}, but this buffer has {own}; "
                    "make the buffer with the settings of the file. Nothing was loaded."
                )
        used = _used(arrays, file.facts["filled"])
        file.check_arrays(used)
        try:
            file.read_into(used)
        except OSError as error:
            clear()
            raise NeedReplayError(
                f"{os.fspath(path)} was complete but could not be read a second time ({error}); "
                "this buffer is empty now. Load it again, or load another file."
            ) from error
        state: dict[str, Any] = file.facts["state"]
        return state


def _used(arrays: Mapping[str, AnyArray], filled: Mapping[str, int]) -> dict[str, AnyArray]:
    """The rows of each array that are in use."""
    return {name: array[: filled.get(name, len(array))] for name, array in arrays.items()}


def _digest() -> Any:
    return hashlib.blake2b(digest_size=_DIGEST_SIZE)


def _chunks(array: AnyArray) -> Iterator[memoryview]:
    """The bytes of a contiguous array in pieces, without copying them."""
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK].data


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[SavedBuffer]:
    name = os.fspath(path)
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed by the with below
    except OSError as error:
        raise NeedReplayError(f"{name} cannot be opened: {error.strerror}.") from error
    with file:
        yield SavedBuffer(file, name)


class SavedBuffer:
    """An open file whose digest is right."""

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
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise NeedReplayError(f"{self._name} is not a buffer that needreplay saved.")
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
                f"{self._name} is damaged or incomplete, so nothing was loaded; use an earlier "
                "file."
            )

    def check_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        """Raise unless these are the names and shapes in the file."""
        for name, array in arrays.items():
            if self.shapes.get(name) != [array.dtype.str, list(array.shape)]:
                raise NeedReplayError(
                    f"{self._name} has other arrays than this buffer (see {name}); make the buffer "
                    "with the settings of the file. Nothing was loaded."
                )

    def read_into(self, arrays: Mapping[str, AnyArray]) -> None:
        """Fill ``arrays``, which were checked; after an ``OSError`` they are partly filled."""
        for name, (dtype, shape) in self.shapes.items():
            if name in arrays:
                for chunk in _chunks(arrays[name]):
                    if self._file.readinto(chunk) != len(chunk):  # type: ignore[attr-defined]
                        raise OSError("it became shorter while it was read")
            else:
                size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
                self._file.seek(size, os.SEEK_CUR)
