"""The one decorator for compiled kernels (numba), with a kernel cache that cannot go stale.

numba notices a change of the file a kernel is written in, but not of the kernels that it calls in
other files. So compiled code is kept in a folder named after a digest of every file that a kernel
may be made of: a change of any of them is a new folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

_KERNEL_ROOMS = ("rules", "memory", "tabular", "deep")


@cache
def cache_folder() -> Path:
    """Where this version of the package keeps its compiled kernels."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    rooms = [package / room for room in _KERNEL_ROOMS]
    sources = [*package.glob("*.py"), *(source for room in rooms for source in room.rglob("*.py"))]
    for source in sorted(sources):
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        root = Path(chosen)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "needreplay" / digest.hexdigest()[:16]


@cache
def cache_is_writable() -> bool:
    """Whether kernels can be kept; where they cannot, each process compiles them anew."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache_folder(), os.W_OK)


def has_kept_kernels() -> bool:
    """Whether any kernel of this version was compiled before; the first use takes longer."""
    return any(cache_folder().rglob("*.nbi"))


def compiled(function: F, *, reassociate: bool = False) -> F:
    """Compile ``function`` with numba, cached on disk; strict floating point.

    Args:
        function: a kernel, or a pure function from ``rules`` that kernels call.
        reassociate: let sums be reordered and fused (``reassoc``, ``contract``): for dot products.
    """
    return _compile(function, fastmath={"reassoc", "contract"} if reassociate else False)


def compiled_in_place(function: F) -> F:
    """Compile a kernel that makes no array of its own and returns none, into those that call it.

    It only writes into its arguments, so numba's reference counting is left out (``_nrt``), and it
    is written out where it is called: together some four times faster for kernels of a few dozen
    instructions that call each other with many arrays.
    """
    return _compile(function, fastmath=False, inline="always", _nrt=False)


def _compile(function: F, **options: Any) -> F:
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        kernel: F = numba.njit(function, cache=cache_is_writable(), error_model="numpy", **options)
    finally:
        config.CACHE_DIR = before
    return kernel
