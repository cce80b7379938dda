"""A file of blocks: what the shards hold, before the learner's own file of the index.

A line that names the format, a JSON header (counts, and for each block where it is in the index and
how large its arrays are), the bytes of the arrays, a digest. Nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.files import open_to_read, replacing
from needreplay._core.types import AnyArray
from needreplay.distributed.index import Block
from needreplay.replay.save import Source
from needreplay.replay.storage import Parts

if TYPE_CHECKING:
    from needreplay.distributed.buffer import RayReplayBuffer

_MAGIC = b"needreplay blocks 1\n"
_DIGEST_SIZE = 32
_COUNTS = {
    "inserted": "inserted",
    "sampled": "sampled",
    "lost": "lost",
    "lost with learner": "lost_with_learner",
    "blocks": "_n_blocks",
    "writers": "_n_writers",
}
"""Names in the header, and the attributes of a buffer."""


class Saved(NamedTuple):
    """What a header says."""

    counts: dict[str, int]
    blocks: dict[int, tuple[Block, int]]
    """by number, each with how many frames it has"""


def write_blocks(
    file: BinaryIO,
    counts: dict[str, int],
    blocks: dict[int, Block],
    parts: list[Parts],
) -> None:
    """Write all blocks with their rows."""
    listed = [
        [number, b.first_id, b.count, b.first, 0 if p.frames is None else len(p.frames)]
        for (number, b), p in zip(blocks.items(), parts, strict=True)
    ]
    header = json.dumps({"counts": counts, "blocks": listed}).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for piece in (_MAGIC, len(header).to_bytes(8, "little"), header):
        file.write(piece)
        digest.update(piece)
    for each in parts:
        for array in each:
            if array is not None:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                file.write(data)
                digest.update(data)
    file.write(digest.digest())


def read_header(file: BinaryIO, name: str) -> Saved:
    """The header of a file that stands at its beginning."""
    try:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as one")
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        counts = {n: check_number(n, header["counts"][n], int, COUNT) for n in _COUNTS}
        blocks = {}
        for number, *rest, frames in header["blocks"]:
            for each in (number, *rest, frames):
                check_number("a number of a block", each, int, (-(2**62), 2**62))
            first_id, count, first = rest
            blocks[number] = Block(first_id, count, 0, 0, "saved", number, first), frames
        return Saved(counts, blocks)
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise NeedReplayError(
            f"{name} is not what save of a RayReplayBuffer wrote: {error}"
        ) from error


def read_blocks(
    file: BinaryIO,
    start: int,
    name: str,
    saved: Saved,
    empty: Parts,
) -> Iterator[Parts]:
    """The rows of each block; the digest is checked at the end.

    Args:
        file: stands behind the header, which is read again for the digest.
        start: where the header starts.
        name: for messages.
        saved: the header.
        empty: what no rows look like.
    """
    end = file.tell()
    file.seek(start)
    digest = hashlib.blake2b(file.read(end - start), digest_size=_DIGEST_SIZE)

    def taken(dtype: Any, *shape: int) -> Any:
        nbytes = int(np.dtype(dtype).itemsize * np.prod(shape))
        data = file.read(nbytes)
        digest.update(data)
        if len(data) != nbytes:
            raise NeedReplayError(f"{name} is cut short; use an earlier file.")
        return np.frombuffer(data, dtype).reshape(shape)

    for block, n_frames in saved.blocks.values():
        rows = taken(np.uint8, block.count, empty.rows.shape[1])
        if empty.frames is None or empty.places is None:
            yield Parts(rows)
            continue
        frames = taken(np.uint8, n_frames, empty.frames.shape[1])
        places = taken(empty.places.dtype, block.count, empty.places.shape[1])
        if places.min(initial=0) < 0 or places.max(initial=0) >= n_frames:
            raise NeedReplayError(f"{name} is damaged: a row has a frame that is not there.")
        yield Parts(rows, frames, places)
    if file.read(_DIGEST_SIZE) != digest.digest():
        raise NeedReplayError(f"{name} is damaged or incomplete; use an earlier file.")


def save_blocks(buffer: RayReplayBuffer, target: Source, save_index: Callable[[Any], None]) -> None:
    """Write what the shards hold, and let ``save_index`` write what is here."""
    parts = _all_parts(buffer)
    counts = {name: getattr(buffer, attribute) for name, attribute in _COUNTS.items()}
    with (
        replacing(target) if isinstance(target, str | os.PathLike) else nullcontext(target) as file
    ):
        write_blocks(file, counts, buffer._blocks, parts)
        save_index(file)


def _all_parts(buffer: RayReplayBuffer) -> list[Parts]:
    """The rows of every block, in order."""
    while True:
        shards, blocks = buffer._shards, buffer._blocks.values()
        asked = [(b.shard, shards.block(b.shard, b.position)) for b in blocks]
        if (found := shards.answers(asked)) is not None:
            return found


def load_blocks(buffer: RayReplayBuffer, source: Source, load_index: Callable[[Any], None]) -> None:
    """Read what ``save_blocks`` wrote: rows go to the shards, and ``load_index`` reads the rest."""
    with ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            file: BinaryIO = stack.enter_context(open_to_read(source))
            name = os.fspath(source)
        else:
            file, name = source, "The file"
        if buffer.next_id:
            raise NeedReplayError(f"This buffer is not empty; load {name} into a new one.")
        start, shards, empty = file.tell(), buffer._shards, np.zeros(0, dtype=np.int64)
        saved = read_header(file, name)
        no_rows = buffer._template.parts(buffer._example._rows, empty)
        puts = []
        for number, parts in enumerate(read_blocks(file, start, name, saved, no_rows)):
            k = number % len(shards)
            puts.append((k, shards.put(k, parts)))
        load_index(file)
        try:
            _check_blocks(buffer, saved)
        except NeedReplayError as error:
            buffer._contents.reset()
            raise NeedReplayError(f"{name} contradicts itself: {error}") from error
        for (number, (block, _)), (k, answer) in zip(saved.blocks.items(), puts, strict=True):
            block.shard, block.position = k, buffer._ray.get(answer)
            buffer._blocks[number] = block
        for each, attribute in _COUNTS.items():
            setattr(buffer, attribute, saved.counts[each])


def _check_blocks(buffer: RayReplayBuffer, saved: Saved) -> None:
    """Raise unless each transition in the index is a row of its block."""
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    numbers = buffer._rows.columns["block"][ids % buffer._rows.capacity]
    for number in np.unique(numbers).tolist():
        if number not in saved.blocks or number >= saved.counts["blocks"]:
            raise NeedReplayError(f"block {number} is missing")
    first = np.array([saved.blocks[n][0].first_id for n in numbers.tolist()])
    count = np.array([saved.blocks[n][0].count for n in numbers.tolist()])
    if np.any((ids < first) | (ids >= first + count)):
        raise NeedReplayError("a block does not have the rows of its ids")


def counter(path: str | os.PathLike[str]) -> AnyArray:
    """One number in a file, 0 in a new one. What is written is there even if this process dies."""
    path = Path(path)
    if not path.exists():
        with replacing(path) as file:
            file.write(bytes(8))
    try:
        found = np.memmap(path, dtype="<i8", mode="r+")
    except (OSError, ValueError) as error:
        raise NeedReplayError(f"{str(path)!r} cannot be used to count: {error}.") from error
    if found.shape != (1,) or found[0] < 0:
        raise NeedReplayError(
            f"{str(path)!r} is damaged: it is not one number. Remove it; then what was lost with "
            "the learner is not counted."
        )
    return found
