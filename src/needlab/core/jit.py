"""The one decorator for compiled kernels (numba), with a kernel cache that cannot go stale.

numba notices a change of the file a kernel is written in, but not of the kernels that it calls in
other files. So compiled code is stored in a folder named after a digest of every file that may be
part of a kernel: a change of any of them is a new folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from needreplay._core.errors import not_installed

try:
    import numba
    from numba.core import event
except ModuleNotFoundError as missing:
    if missing.name != "numba":
        raise
    raise not_installed("The agents of needlab need numba", "lab") from missing

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = (
    "needreplay/_core",
    "needreplay/equations.py",
    "needlab/core",
    "needlab/tabular",
    "needlab/linear",
    "needlab/studies",
)
"""The source files that kernels are written in, and folders of them."""


@cache
def cache_folder() -> Path:
    """Where compiled kernels are stored."""
    root = Path(__file__).parent.parent.parent
    digest = hashlib.sha256()
    for source in python_files(root, _SOURCES):
        digest.update(str(source.relative_to(root)).encode())
        digest.update(source.read_bytes())
    return _cache_root() / digest.hexdigest()[:16]


def python_files(root: Path, parts: Iterable[str]) -> list[Path]:
    """The Python files of these folders and files below ``root``, in order."""
    return sorted(
        source
        for part in parts
        for source in ((root / part).rglob("*.py") if (root / part).is_dir() else [root / part])
    )


def _cache_root() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "needreplay"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "needreplay"


@cache
def cache_is_writable() -> bool:
    """Whether kernels can be stored; otherwise each process compiles them again."""
    try:
        _cache_root().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(_cache_root(), os.W_OK)


def jit(function: F, *, reassociate: bool = False) -> F:
    """Compile ``function`` with numba, cached on disk; strict floating point.

    Args:
        function: a kernel, or a pure function of ``equations`` that kernels call.
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


PATIENCE = 1.5
"""Seconds of compiling after which one line says what takes so long."""


class _Announcer(event.Listener):
    """Says once on standard error that needreplay's kernels are being compiled."""

    def __init__(self) -> None:
        self._depth, self._began, self._spent = 0, 0.0, 0.0
        self._said = False

    def on_start(self, event: Any) -> None:
        """The compiler begins with a kernel, or with one that it calls."""
        if not self._said and event.data["dispatcher"].py_func.__module__.startswith(
            ("needreplay.", "needlab.")
        ):
            self._depth += 1
            if self._depth == 1:
                self._began = time.monotonic()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """A kernel is compiled."""
        if self._said or self._depth == 0:
            return
        self._depth -= 1
        now = time.monotonic()
        if self._spent + now - self._began >= PATIENCE:
            self._said = True
            once = "once" if cache_is_writable() else "in each process (set NUMBA_CACHE_DIR)"
            print(f"needreplay: compiling kernels {once}; this takes a while", file=sys.stderr)
        elif self._depth == 0:
            self._spent += now - self._began


@cache
def _announce() -> None:
    event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]


def _compile(function: F, **options: Any) -> F:
    _announce()
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        kernel: F = numba.njit(function, cache=cache_is_writable(), error_model="numpy", **options)
    finally:
        config.CACHE_DIR = before
    return kernel
