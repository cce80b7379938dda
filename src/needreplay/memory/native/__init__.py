"""The short way of ``add``, ``sample`` and ``update``: a small extension in C, where it was built.

Between two updates of a network the processor's caches are full of the network, and what a step's
replay costs is how much code and memory it has to fetch anew; an interpreter, numpy and numba's
dispatch are a lot of it. The extension does the usual case of each call in one piece of C. It
declines all else, which then takes the long way through Python and numba, and it is held to the
same results, bit for bit, by ``tests/memory/test_native.py``. Where no C compiler was found when
needreplay was installed there is only the long way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from needreplay.types import AnyArray, FloatArray

if TYPE_CHECKING:
    from needreplay.memory.native._native import Columns, Gains

try:
    from needreplay.memory.native import _native as _extension
except ImportError:
    _extension = None  # type: ignore[assignment]


def is_built() -> bool:
    """Whether the extension is there."""
    return _extension is not None


def gains_of(
    gain: FloatArray, tree: FloatArray, exponent: float, stratified: bool, largest_gain: float
) -> Gains | None:
    """A short way for a proportional draw with these arrays; None where there is no extension."""
    if _extension is None:
        return None
    return _extension.Gains(gain, tree, exponent, stratified, largest_gain)


def columns_of(arrays: dict[str, AnyArray]) -> Columns | None:
    """A short way to write and gather rows of these arrays; None where there is no extension."""
    return None if _extension is None else _extension.Columns(arrays)
