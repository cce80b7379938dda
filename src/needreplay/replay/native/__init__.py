"""The fast path of ``add``, ``sample`` and ``update_priorities``: a small C extension, where built.

Between two updates of a network the CPU caches are full of the network, so what replay costs is how
much code and memory it has to fetch again. The extension does the usual case of each call in one
piece. A buffer binds it once, when it is made; its methods return None for whatever they do not
take, and the buffer then takes the general path through Python and numba, which is complete without
it. Both sample with the same random numbers. Powers may differ in their last bits.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from needreplay.replay.validation import MAX_PRIORITY, MIN_PRIORITY

if TYPE_CHECKING:
    from needreplay._core.types import FloatArray, IntArray
    from needreplay.replay.native import _native
    from needreplay.replay.samplers.proportional import ProportionalSampler
    from needreplay.replay.storage import Ring, Writer


class NoFastPath:
    """Takes nothing: for installations without the extension."""

    def add(self, *_: Any) -> None:
        """Decline."""

    sample = update = gather = add


def fast_path(
    ring: Ring,
    writer: Writer,
    sampler: ProportionalSampler | None,
    counts: IntArray,
    max_seen: FloatArray,
) -> _native.FastPath | NoFastPath:
    """The fast path for a buffer with these parts.

    Args:
        ring: where transitions are stored.
        writer: how ``add`` stores them.
        sampler: the sampler, if it is one that the extension knows. Without it ``add`` only stores,
            and ``sample`` and ``update`` decline.
        counts: batches, and updates that came too late.
        max_seen: the largest priority so far.
    """
    if _extension is None:
        return NoFastPath()
    arrays = {} if sampler is None else sampler.arrays()
    made: _native.FastPath = _extension.FastPath(
        ring.columns,
        ring.rows,
        ring.ids,
        counts,
        max_seen,
        arrays.get("priorities"),
        arrays.get("tree"),
        MIN_PRIORITY,
        MAX_PRIORITY,
        writer.native_steps(),
        writer.native_adds,
    )
    return made


def is_built() -> bool:
    """Whether the extension is installed."""
    return _extension is not None


def source_digest() -> str | None:
    """The digest of the C files in this folder, as ``setup.py`` has it; None if there are none."""
    files = sorted(Path(__file__).parent.glob("*.[ch]"))
    if not files:
        return None
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _load() -> Any:
    """The extension, unless it was not built, or was built from other C files than these."""
    try:
        from needreplay.replay.native import _native as extension
    except ImportError:
        return None
    if source_digest() not in (None, getattr(extension, "source", "")):
        warnings.warn(
            "needreplay's C extension was built from other source files than the present ones, so "
            "it is not used; build it again with make, or with pip install -e .",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return extension


_extension = _load()
