"""A file of blocks: what the shards hold, before the learner's own file of the index.

A line that names the format, a JSON header (counts, and for each block where it is in the index and
how large its arrays are), the bytes of the arrays, a digest. Nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError
from needreplay.distributed.index import Block
from needreplay.replay.storage import Parts

_MAGIC = b"needreplay blocks 1\n"
_DIGEST_SIZE = 32
COUNTS = ("inserted", "sampled", "lost", "n_blocks", "n_writers")


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
        counts = {n: check_number(n, header["counts"][n], int, COUNT) for n in COUNTS}
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
    copied: Callable[[Parts], Any],
) -> Iterator[Any]:
    """What ``copied`` makes of the rows of each block; the digest is checked at the end.

    Args:
        file: stands behind the header, which is read again for the digest.
        start: where the header starts.
        name: for messages.
        saved: the header.
        empty: what no rows look like.
        copied: takes the rows.
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
            yield copied(Parts(rows))
            continue
        frames = taken(np.uint8, n_frames, empty.frames.shape[1])
        places = taken(empty.places.dtype, block.count, empty.places.shape[1])
        if places.min(initial=0) < 0 or places.max(initial=0) >= n_frames:
            raise NeedReplayError(f"{name} is damaged: a row has a frame that is not there.")
        yield copied(Parts(rows, frames, places))
    if file.read(_DIGEST_SIZE) != digest.digest():
        raise NeedReplayError(f"{name} is damaged or incomplete; use an earlier file.")
