"""Locks that a forked child can use, whatever other threads of its parent were doing."""

from __future__ import annotations

import os
from threading import Lock, RLock
from time import monotonic
from typing import Any
from weakref import WeakSet

PATIENCE = 1.0
"""Seconds that a fork waits for the threads that hold locks, so that it copies no half change."""

_locks: WeakSet[Any] = WeakSet()
_inner: WeakSet[Any] = WeakSet()
_guard = Lock()
_held: list[Any] = []


def fork_safe_lock() -> Any:
    """A reentrant lock that is free in a child that ``os.fork`` makes."""
    lock = RLock()
    with _guard:
        _locks.add(lock)
    return lock


def renew_in_child(lock: Any) -> None:
    """Free ``lock`` in a child: one that is only ever held by who holds a ``fork_safe_lock``."""
    with _guard:
        _inner.add(lock)


def _wait_for_all() -> None:
    _guard.acquire()
    end = monotonic() + PATIENCE
    _held[:] = [lock for lock in _locks if lock.acquire(timeout=max(0.0, end - monotonic()))]


def _release_all() -> None:
    while _held:
        _held.pop().release()
    _guard.release()


def _renew_others() -> None:
    for lock in (set(_locks) - set(_held)) | set(_inner):
        lock._at_fork_reinit()  # as ``threading`` does with its own
    _release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_wait_for_all, after_in_parent=_release_all, after_in_child=_renew_others
    )
