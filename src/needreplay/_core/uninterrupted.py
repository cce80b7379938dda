"""Ctrl-C waits until a change is complete, so that a buffer is never half changed."""

from __future__ import annotations

# ``signal`` wraps these functions in enums, at twenty times the cost.
import _signal  # type: ignore[import-not-found]
import threading
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (int(_signal.SIGINT), int(_signal.SIGTERM))
_getsignal, _setsignal = _signal.getsignal, _signal.signal


class Uninterrupted:
    """A block that no signal handler (Ctrl-C raises KeyboardInterrupt) interrupts.

    The handlers run when the block has ended. Python runs handlers in the main thread alone, so
    there is nothing to do in others.
    """

    __slots__ = ("_handlers", "_waiting")

    def __enter__(self) -> None:
        self._handlers: list[tuple[int, Callable[..., Any]]] = []
        if get_ident() != threading.main_thread().ident:
            return
        self._waiting: list[tuple[int, FrameType | None]] = []
        for number in _SIGNALS:
            handler = _getsignal(number)
            if callable(handler):
                self._handlers.append((number, handler))
                try:
                    _setsignal(number, self._wait)
                except BaseException:  # of a handler that was due
                    self._restore(self._handlers)
                    raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append((number, frame))

    def _restore(self, handlers: list[tuple[int, Callable[..., Any]]]) -> None:
        if handlers:
            try:
                _setsignal(*handlers[0])
            finally:  # a signal that arrives now is handled now
                self._restore(handlers[1:])

    def __exit__(self, *_: object) -> None:
        if self._handlers:
            try:
                self._restore(self._handlers)
            finally:
                for number, frame in self._waiting:
                    dict(self._handlers)[number](number, frame)
