"""Ctrl-C waits until a change is complete, so that a buffer is never half changed."""

from __future__ import annotations

# ``signal`` wraps these functions in enums, at twenty times the cost.
import _signal  # type: ignore[import-not-found]
import threading
from _thread import get_ident
from collections.abc import Callable
from types import FrameType

_SIGNALS = (int(_signal.SIGINT), int(_signal.SIGTERM))
_getsignal, _setsignal = _signal.getsignal, _signal.signal


class Uninterrupted:
    """A block that no signal handler (Ctrl-C raises KeyboardInterrupt) interrupts.

    The handlers run when the block has ended. Python runs handlers in the main thread alone, so
    there is nothing to do in others.
    """

    __slots__ = ("_ended", "_handlers", "_waiting")

    def __enter__(self) -> None:
        self._ended = False
        self._handlers: list[tuple[int, Callable[..., object]]] = []
        if get_ident() != threading.main_thread().ident:
            return
        self._waiting: list[tuple[int, FrameType | None]] = []
        try:
            for number in _SIGNALS:
                handler = _getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    _setsignal(number, self._wait)
        except BaseException:  # of a handler that was due
            self.__exit__()
            raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if not self._ended:
            self._waiting.append((number, frame))
            return
        # Another handler raised just before this signal's was put back.
        handler = dict(self._handlers)[number]
        _setsignal(number, handler)
        handler(number, frame)

    def __exit__(self, *_: object) -> None:
        if not self._handlers:
            return
        # From the first handler that is back on, any may run and raise between two calls.
        self._ended = True
        try:
            _setsignal(*self._handlers[0])
        finally:
            try:
                for number, handler in self._handlers[1:]:
                    _setsignal(number, handler)
            finally:
                self._call_waiting()

    def _call_waiting(self) -> None:
        """Call the handlers of signals that waited; those of the others also if one raises."""
        while self._waiting:
            number, frame = self._waiting.pop(0)
            try:
                dict(self._handlers)[number](number, frame)
            finally:
                self._call_waiting()
