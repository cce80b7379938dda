"""The short way of ``add``, ``sample`` and ``update``: a small extension in C, where it was built.

Between two updates of a network the processor's caches are full of the network, and what a step's
replay costs is how much code and memory it has to fetch anew; an interpreter, numpy and numba's
dispatch are a lot of it. The extension does the usual case of each call in one piece of C. It
declines all else, which then takes the long way through Python and numba, and it is held to the
same results, bit for bit, by ``tests/replay/test_native.py``. Where no C compiler was found when
needreplay was installed there is only the long way.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from needreplay.core.types import AnyArray, FloatArray

if TYPE_CHECKING:
    from needreplay.replay.native import _native


def source_beside() -> str | None:
    """The digest of the C files in this folder, as ``setup.py`` has it; None if there are none."""
    files = sorted(Path(__file__).parent.glob("*.[ch]"))
    if not files:
        return None
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _found() -> Any:
    """The extension, unless it was not built, or from other C files than those beside it."""
    try:
        from needreplay.replay.native import _native as extension
    except ImportError:
        return None
    if source_beside() not in (None, getattr(extension, "source", "")):
        warnings.warn(
            "needreplay's extension in C was built from other source than is there now, so it is "
            "not used; build it anew with make, or with pip install -e .",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return extension


_extension = _found()


def is_built() -> bool:
    """Whether the extension is there."""
    return _extension is not None


def gains_of(gain: FloatArray, tree: FloatArray, largest_priority: float) -> _native.Gains | None:
    """A short way for a proportional draw with these arrays; None where there is no extension."""
    return None if _extension is None else _extension.Gains(gain, tree, largest_priority)


def columns_of(arrays: dict[str, AnyArray]) -> _native.Columns | None:
    """A short way to write and gather rows of these arrays; None where there is no extension."""
    return None if _extension is None else _extension.Columns(arrays)
