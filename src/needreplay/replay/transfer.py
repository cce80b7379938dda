"""Rows and priorities of a saved buffer in one with another capacity or another sampler."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay import samplers
from needreplay.replay.save import SavedBuffer, load_contents
from needreplay.replay.storage import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from needreplay.replay.buffer import ReplayBuffer
    from needreplay.replay.contents import Contents
    from needreplay.replay.samplers.base import Sampler

_AT_ONCE = 1 << 16
"""Rows that are copied together."""
_ENTRIES = ("sequences", "hindsight")
_FREE = ("capacity", "sampler")
"""Settings that may differ."""


def load_rows(buffer: ReplayBuffer, file: SavedBuffer) -> None:
    """Load the newest rows of ``file``, as many as there is space for, with their priorities."""
    contents, saved = buffer._contents, file.settings
    own = contents.settings()
    if contents.entries is not None or any(name.split(".")[0] in _ENTRIES for name in saved):
        raise NeedReplayError(
            "load(strict=False) is for buffers of transitions; load one of sequences or with "
            "hindsight into a buffer with the settings of the file. Nothing was loaded."
        )
    for each in sorted(own.keys() | saved.keys()):
        differs = json.dumps(own.get(each)) != json.dumps(saved.get(each))
        if differs and each.split(".")[0] not in _FREE:
            raise NeedReplayError(
                f"The file was saved with {each} {saved.get(each)}, but this buffer has "
                f"{own.get(each)}; only capacity and sampler may differ. Nothing was loaded."
            )
    made = (getattr(samplers, name) for name in samplers.__all__ if name != "Sampler")
    known = {sampler.name: sampler for sampler in made}
    if (name := str(saved.get("sampler"))) not in known:
        raise NeedReplayError(
            f"The file's sampler is {name!r}, which is none of needreplay's ({', '.join(known)}); "
            "load the file into a buffer with that sampler. Nothing was loaded."
        )
    try:
        old = _as_saved(buffer, saved, known[name])
    except (KeyError, TypeError, ValueError, MemoryError) as error:
        raise file.rejection(error) from error
    load_contents(old._contents, file)
    with Uninterrupted():
        contents.reset()
        _take(contents, old._contents)


def _as_saved(
    buffer: ReplayBuffer, saved: dict[str, Any], sampler: Callable[..., Sampler]
) -> ReplayBuffer:
    """An empty buffer with the settings of a file."""
    from needreplay.replay.buffer import ReplayBuffer

    own = buffer._options
    arguments = inspect.signature(sampler).parameters
    settings = {key[len("sampler.") :]: saved[key] for key in saved if key.startswith("sampler.")}
    return ReplayBuffer(
        saved["capacity"],
        own.columns,
        episodes=own.episodes,
        sampler=sampler(**{name: settings[name] for name in arguments if name in settings}),
    )


def _take(contents: Contents, old: Contents) -> None:
    """Put the newest rows of ``old`` into ``contents``, which are empty."""
    ring, before = contents.rows, old.rows
    count = min(len(before), ring.capacity)
    first = before.next_id - count
    for begin in range(0, count, _AT_ONCE):
        end = min(count, begin + _AT_ONCE)
        slots = (first + np.arange(begin, end)) % before.capacity
        ring.rows[begin:end] = before.rows[slots]
    base = -(-first // ring.capacity) * ring.capacity  # ids that begin at slot 0
    ring.ids[:] = base, base + count
    contents.writer.take(old.writer, first, count, base - first)
    slots = np.arange(count)
    following = contents.writer.links(count)
    previous = np.full(count, NO_ID, dtype=np.int64)
    linked = np.flatnonzero(following != NO_ID)
    previous[following[linked] - base] = linked
    held = old.sampler.arrays().get("priorities")
    contents.counts[:], contents.max_seen[:] = old.counts, old.max_seen
    priorities = None if held is None else held[(first + slots) % before.capacity]
    contents.enter(slots, previous, priorities)
    contents.follow(0, {})  # frames that there is no space for
