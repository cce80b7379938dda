"""Ctrl-C waits until a change is complete, so that a buffer is never half changed."""

from __future__ import annotations

import _signal  # ``signal`` wraps these functions in enums, at twenty times the cost
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (int(_signal.SIGINT), int(_signal.SIGTERM))


class Uninterrupted:
    """A block that no signal handler (Ctrl-C raises KeyboardInterrupt) interrupts.

    The handlers run when the block has ended. Python runs handlers in the main thread alone, so
    there is nothing to do in others.
    """

    __slots__ = ("_handlers", "_waiting")

    def __enter__(self) -> None:
        self._handlers: list[tuple[int, Callable[..., Any]]] = []
        self._waiting: list[tuple[int, FrameType | None]] = []
        if threading.get_ident() != threading.main_thread().ident:
            return
        try:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    _signal.signal(number, self._wait)
        except BaseException:
            self._restore()
            raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append((number, frame))

    def _restore(self) -> None:
        for number, handler in self._handlers:
            _signal.signal(number, handler)

    def __exit__(self, *_: object) -> None:
        self._restore()
        for number, frame in self._waiting:
            dict(self._handlers)[number](number, frame)
