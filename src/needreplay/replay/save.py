"""A buffer in one file: written atomically, and loaded to sample exactly as before.

The file is a line that names the format, a JSON header (settings, state, the shapes of the arrays),
the bytes of the arrays, and a digest of all that. Nothing in it is ever executed. The digest finds
damage, not intent: whoever loads checks every number as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.files import reason, replacing
from needreplay.core.types import AnyArray
from needreplay.replay.samplers.base import Sampler

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file that is open for binary reading or writing."""

FORMAT = 5
_MAGIC = b"needreplay buffer\n"
_CHUNK = 1 << 22
_DIGEST_SIZE = 32
_PLAIN = (bool, int, float, str)


def sampler_settings(sampler: Sampler, prefix: str = "sampler") -> dict[str, Any]:
    """The name and plain public attributes of a sampler, and of a sampler inside it."""
    settings: dict[str, Any] = {prefix: sampler.name}
    for name, value in vars(sampler).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if name[0] != "_" and isinstance(plain, _PLAIN):
            settings[f"{prefix}.{name}"] = plain
        elif hasattr(value, "set_priorities"):
            settings |= sampler_settings(value, f"{prefix}.{name}")
    return settings


def save_buffer(
    target: Source,
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
) -> None:
    """Write ``arrays``, the ``settings`` that a buffer must have to load them, and its ``state``.

    A path is replaced when the file is complete; an open file is written from where it stands.
    """
    if not isinstance(target, str | os.PathLike):
        _write(target, settings, state, arrays)
        return
    with replacing(target) as file:
        _write(file, settings, state, arrays)


def _write(
    file: BinaryIO,
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
) -> None:
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    facts = {"format": FORMAT, "settings": settings, "state": state, "arrays": shapes}
    header, digest = json.dumps(facts).encode(), _digest()
    for piece in (_MAGIC, len(header).to_bytes(8, "little"), header):
        file.write(piece)
        digest.update(piece)
    for array in arrays.values():
        for chunk in _chunks(array):
            file.write(chunk)
            digest.update(chunk)
    file.write(digest.digest())


def _digest() -> Any:
    return hashlib.blake2b(digest_size=_DIGEST_SIZE)


def _chunks(array: AnyArray) -> Iterator[memoryview]:
    """The bytes of a contiguous array in pieces, without copying them."""
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK].data


@contextmanager
def opened(source: Source) -> Iterator[SavedBuffer]:
    """The file of a buffer, whose digest is right."""
    if not isinstance(source, str | os.PathLike):
        yield SavedBuffer(source, getattr(source, "name", "The file"))
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 - closed by the with below
    except OSError as error:
        raise NeedReplayError(f"{os.fspath(source)} cannot be opened: {reason(error)}.") from error
    with file:
        yield SavedBuffer(file, os.fspath(source))


class SavedBuffer:
    """An open file whose digest is right: what its header says, and its arrays."""

    def __init__(self, file: BinaryIO, name: Any) -> None:
        self._file, self._name = file, name
        try:
            self._start, self._end = file.tell(), file.seek(0, os.SEEK_END) - _DIGEST_SIZE
        except (OSError, AttributeError) as error:
            raise NeedReplayError(
                f"{name} cannot be read twice, which loading requires: pass a path or a seekable "
                "file."
            ) from error
        self._check_digest()
        try:
            header = self._read_header()
            self.settings: dict[str, Any] = dict(header["settings"])
            self.state: dict[str, Any] = dict(header["state"])
            self.shapes = {
                str(array): (np.dtype(str(dtype)).str, tuple(map(index, shape)))
                for array, (dtype, shape) in header["arrays"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, NeedReplayError):
                raise
            raise self.refusal(f"its header cannot be read ({error})") from error

    def _read_header(self) -> dict[str, Any]:
        self._file.seek(self._start + len(_MAGIC))
        length = int.from_bytes(self._file.read(8), "little")
        if not 0 < length <= self._end - self._file.tell():
            raise ValueError("its length is wrong")
        header = json.loads(self._file.read(length))
        self._arrays_at = self._file.tell()
        if header["format"] != FORMAT:
            raise NeedReplayError(
                f"{self._name} has format {header['format']}, but this version of needreplay reads "
                f"format {FORMAT}; use the version that wrote it."
            )
        return cast("dict[str, Any]", header)

    def _check_digest(self) -> None:
        self._file.seek(self._start)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise NeedReplayError(f"{self._name} is not a buffer that needreplay saved.")
        self._file.seek(self._start)
        digest, left = _digest(), self._end - self._start
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

    def refusal(self, why: object) -> NeedReplayError:
        """The error for a file that was not written by ``save`` as it is."""
        return NeedReplayError(
            f"{self._name} contradicts itself: {why}. Nothing was loaded; use another file."
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise unless the file was saved with these ``settings``, in value and type."""
        for name in sorted(settings.keys() | self.settings.keys()):
            saved, own = self.settings.get(name), settings.get(name)
            if json.dumps(saved) != json.dumps(own):
                raise NeedReplayError(
                    f"{self._name} was saved with {name} {saved}, but this buffer has {own}; make "
                    "the buffer with the settings of the file. Nothing was loaded."
                )

    def check_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        """Raise unless the file has just these arrays, or the first rows of them."""
        if self.shapes.keys() != arrays.keys():
            raise self.refusal(f"it has the arrays {', '.join(self.shapes)}")
        self._at, at = {}, self._arrays_at
        for name, (dtype, shape) in self.shapes.items():
            array = arrays[name]
            if (
                dtype != array.dtype.str
                or shape[1:] != array.shape[1:]
                or len(shape) != array.ndim
                or not 0 <= shape[0] <= len(array)
            ):
                raise self.refusal(f"{name} is {dtype}{list(shape)}, not {array.dtype.str}")
            self._at[name] = at
            at += array[: shape[0]].nbytes
        if at != self._end:
            raise self.refusal(f"its arrays take {at} bytes, not {self._end}")

    def read(self, name: str, array: AnyArray) -> AnyArray:
        """Fill the first rows of ``array``, as many as the file has; returns them."""
        rows = array[: self.shapes[name][1][0]]
        self._file.seek(self._at[name])
        for chunk in _chunks(rows):
            if self._file.readinto(chunk) != len(chunk):  # type: ignore[attr-defined]
                raise OSError("it became shorter while it was read")
        return rows
