"""A buffer in one file: written atomically, and loaded to sample exactly as before.

The file is a line that names the format, a JSON header (settings, state, the shapes of the arrays),
the bytes of the arrays, and a digest of all that. Blocks that repeat one word, such as those of
slots that are not in use, are in the header alone, so a file grows with what is stored. Nothing in
it is ever executed. The digest finds damage, not intent: whoever loads checks every number as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.files import open_to_read, replacing
from needreplay._core.types import AnyArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay.storage import MOST_IDS, Bytes
from needreplay.replay.validation import FIRST_PRIORITY, MAX_PRIORITY

if TYPE_CHECKING:
    from needreplay.replay.contents import Contents

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file that is open for binary reading or writing."""

FORMAT = 10
_MAGIC = b"needreplay buffer\n"
_CHUNK, _BLOCK = 1 << 22, 1 << 14
_WORD = np.dtype(np.uint64)
_WORDS = _BLOCK // _WORD.itemsize
Repeat: TypeAlias = tuple[int, int, int]
_DIGEST_SIZE = 32


def save_contents(contents: Contents, target: Source, *, has_rows: bool = True) -> None:
    """Write ``contents``, if they do not contradict themselves.

    A path is replaced when the file is complete; an open file is written from where it stands.
    ``has_rows``: with the largest array, which a buffer in a folder has elsewhere.
    """
    contents.check_valid()
    state = {
        "ids": contents.ring.ids.tolist(),
        "counts": contents.counts.tolist(),
        "max_seen": contents.max_seen.item(),
        "random": contents.rng.bit_generator.state,
    }
    filled, settings = _filled(contents, has_rows), _settings(contents, has_rows)
    arrays = {name: a[: filled.get(name, len(a))] for name, a in contents.arrays().items()}
    if isinstance(target, str | os.PathLike):
        with replacing(target) as file:
            _write(file, settings, state, arrays)
    else:
        _write(target, settings, state, arrays)


def _settings(contents: Contents, has_rows: bool) -> dict[str, object]:
    return contents.settings() | ({} if has_rows else {"folder": True})


def _filled(contents: Contents, has_rows: bool) -> dict[str, int]:
    """How many rows of an array are written, where not all are."""
    return contents.filled() | ({} if has_rows else {contents.writer.bulk: 0})


def _write(
    file: BinaryIO,
    settings: Mapping[str, object],
    state: Mapping[str, object],
    arrays: Mapping[str, AnyArray],
) -> None:
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    repeats = {name: found for name, array in arrays.items() if (found := _repeats(array))}
    facts = {
        "format": FORMAT, "settings": settings, "state": state, "arrays": shapes,
        "repeats": repeats,
    }  # fmt: skip
    header, digest = json.dumps(facts).encode(), _digest()
    for piece in (_MAGIC, len(header).to_bytes(8, "little"), header):
        file.write(piece)
        digest.update(piece)
    for name, array in arrays.items():
        for part, word in _pieces(array, repeats.get(name, ())):
            for chunk in _chunks(part) if word is None else ():
                file.write(chunk)
                digest.update(chunk)
    file.write(digest.digest())


def _digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_SIZE)


def _bytes(array: AnyArray) -> Bytes:
    """The bytes of a contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8)


def _chunks(flat: Bytes) -> Iterator[memoryview]:
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK].data


def _repeats(array: AnyArray) -> list[Repeat]:
    """The blocks of an array that repeat one word: the first, the end, and the word."""
    flat, found = _bytes(array), list[Repeat]()
    for i, block in enumerate(flat[: len(flat) // _BLOCK * _BLOCK].view(_WORD).reshape(-1, _WORDS)):
        word = int(block[0])
        if word == block[-1] and (block == word).all():
            joins = found and found[-1][1:] == (i, word)
            found.append((found.pop()[0] if joins else i, i + 1, word))
    return found


def _pieces(array: AnyArray, repeats: Iterable[Repeat]) -> Iterator[tuple[Bytes, int | None]]:
    """The bytes of an array, piece by piece, with the word that a piece repeats or None."""
    flat, at = _bytes(array), 0
    for first, end, word in repeats:
        if not (at <= first * _BLOCK < end * _BLOCK <= len(flat) and 0 <= word < 2**64):
            raise ValueError(f"blocks {first} to {end} cannot repeat {word}")
        yield flat[at : first * _BLOCK], None
        at = end * _BLOCK
        yield flat[first * _BLOCK : at], word
    yield flat[at:], None


@contextmanager
def opened(source: Source) -> Iterator[SavedBuffer]:
    """The file of a buffer, whose digest is right."""
    if not isinstance(source, str | os.PathLike):
        yield SavedBuffer(source, getattr(source, "name", "The file"))
        return
    with open_to_read(source) as file:
        yield SavedBuffer(file, os.fspath(source))


class SavedBuffer:
    """An open file whose digest is right: what its header says, and its arrays."""

    def __init__(self, file: BinaryIO, name: object) -> None:
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
                str(array): (str(dtype), tuple(map(index, shape)))
                for array, (dtype, shape) in header["arrays"].items()
            }
            self._repeats = {
                str(array): [(index(first), index(end), index(word)) for first, end, word in found]
                for array, found in header["repeats"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, NeedReplayError):
                raise
            raise self.rejection(f"its header cannot be read ({error})") from error

    def _read_header(self) -> dict[str, Any]:
        self._file.seek(self._start + len(_MAGIC))
        length = int.from_bytes(self._file.read(8), "little")
        if not 0 < length <= self._end - self._file.tell():
            raise ValueError("its length is wrong")
        header: dict[str, Any] = json.loads(self._file.read(length))
        self._arrays_at = self._file.tell()
        if header["format"] != FORMAT:
            raise NeedReplayError(
                f"{self._name} has format {header['format']}, but this version of needreplay reads "
                f"format {FORMAT}; use the version that wrote it."
            )
        return header

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

    def rejection(self, why: object) -> NeedReplayError:
        """The error for a file that was not written by ``save`` as it is."""
        return NeedReplayError(
            f"{self._name} contradicts itself: {why}. Nothing was loaded; use another file."
        )

    def check_settings(self, settings: Mapping[str, object]) -> None:
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
            raise self.rejection(f"it has the arrays {', '.join(self.shapes)}")
        self._at, at = {}, self._arrays_at
        for name, (dtype, shape) in self.shapes.items():
            array = arrays[name]
            if (
                dtype != array.dtype.str
                or shape[1:] != array.shape[1:]
                or len(shape) != array.ndim
                or not 0 <= shape[0] <= len(array)
            ):
                raise self.rejection(f"{name} is {dtype}{list(shape)}, not {array.dtype.str}")
            self._at[name] = at
            try:
                pieces = [*_pieces(array[: shape[0]], self._repeats.get(name, ()))]
            except ValueError as error:
                raise self.rejection(f"{name}: {error}") from error
            at += sum(len(piece) for piece, word in pieces if word is None)
        if at != self._end:
            raise self.rejection(f"its arrays take {at} bytes, not {self._end}")

    def read(self, name: str, array: AnyArray) -> AnyArray:
        """Fill the first rows of ``array``, as many as the file has; returns them."""
        rows = array[: self.shapes[name][1][0]]
        self._file.seek(self._at[name])
        for piece, word in _pieces(rows, self._repeats.get(name, ())):
            if word is not None:
                piece.view(_WORD)[:] = word
                continue
            for chunk in _chunks(piece):
                if self._file.readinto(chunk) != len(chunk):  # type: ignore[attr-defined]
                    raise OSError("it became shorter while it was read")
        return rows


def load_contents(contents: Contents, file: SavedBuffer, *, has_rows: bool = True) -> None:
    """Read ``file`` into ``contents``; nothing is changed if it raises."""
    file.check_settings(_settings(contents, has_rows))
    arrays, bulk = contents.arrays(), contents.writer.bulk
    file.check_arrays(arrays)
    try:
        state, random = _parsed(contents, file.state)
        aside = {
            name: file.read(name, np.empty_like(array))
            for name, array in arrays.items()
            if name != bulk
        }
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise file.rejection(error) from error
    contents.before_writing(MOST_IDS)
    with Uninterrupted():
        _exchange(contents, aside, state)
        try:
            _check_loaded(contents, file.shapes, aside, _filled(contents, has_rows))
        except Exception as error:
            _exchange(contents, aside, state)
            _restore(contents)
            raise file.rejection(error) from error
        try:
            file.read(bulk, arrays[bulk])
        except OSError as error:
            contents.reset()
            raise NeedReplayError(
                f"The file was complete but could not be read a second time ({error}); "
                "this buffer is empty now. Load it again, or load another file."
            ) from error
        contents.rng.bit_generator.state = random


def _parsed(contents: Contents, state: dict[str, Any]) -> tuple[list[AnyArray], dict[str, Any]]:
    """Ids, counts and largest priority of a file, and its random state."""
    random = state.pop("random")
    generator = type(contents.rng.bit_generator)()
    generator.state = random
    if generator.state != random:
        raise ValueError("its random state is not one of a generator")
    ids, counts, largest = state.pop("ids"), state.pop("counts"), state.pop("max_seen")
    if (
        state
        or [len(ids), len(counts)] != [2, 2]
        or not all(type(n) is int and 0 <= n < MOST_IDS for n in (*ids, *counts))
        or type(largest) is not float
        or not FIRST_PRIORITY <= largest <= MAX_PRIORITY
    ):
        raise ValueError("its ids, counts or largest priority are out of range")
    return [*np.array([ids, counts], dtype=np.int64), np.array([largest])], random


def _exchange(contents: Contents, aside: dict[str, AnyArray], state: list[AnyArray]) -> None:
    """Exchange the first rows of arrays, and ids and counts, with those held aside."""
    live = contents.arrays()
    pairs = [(live[name][: len(rows)], rows) for name, rows in aside.items()]
    pairs += zip((contents.ring.ids, contents.counts, contents.max_seen), state, strict=True)
    for own, other in pairs:
        before = own.copy()
        own[...] = other
        other[...] = before


def _restore(contents: Contents) -> None:
    """Let the sampler derive what is not in its arrays."""
    if hasattr(contents.sampler, "restore"):
        contents.sampler.restore()


def _check_loaded(
    contents: Contents,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    aside: dict[str, AnyArray],
    filled: dict[str, int],
) -> None:
    """Raise unless what was just put in place is a buffer, as long as its file says."""
    arrays = contents.arrays()
    for name in aside:
        rows = arrays[name][: len(aside[name])]
        if rows.dtype == np.bool_ and rows.view(np.uint8).max(initial=0) > 1:
            raise NeedReplayError(f"{name} has a truth value that is neither 0 nor 1")
    _restore(contents)
    with np.errstate(all="ignore"):
        contents.check_valid()
    for name, (_, shape) in shapes.items():
        if shape[0] != filled.get(name, len(arrays[name])):
            raise NeedReplayError(f"{name} has {shape[0]} rows")
