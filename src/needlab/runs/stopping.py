"""Ctrl-C and SIGTERM while a run trains: it stops where it can save a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GRACE = 10.0
"""Seconds that the episode under way may still take."""
_SAID = (
    f"\nneedreplay: stopping; the episode is played to its end to save a checkpoint, for {GRACE:g} "
    "s at most. Ctrl-C again stops at once.\n"
)


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop has stopped."""

    def __init__(self, message: str = "", signum: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signum = signum


def signum_of(stop: KeyboardInterrupt) -> int:
    """The signal that stopped a run: SIGINT if nothing else is known."""
    return getattr(stop, "signum", signal.SIGINT)


@contextmanager
def sigterm_stops() -> Iterator[None]:
    """Inside, the first SIGTERM raises ``Stopped``, as Ctrl-C raises KeyboardInterrupt.

    A second one does not disturb the saving of checkpoints that the first one caused.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) in (signal.SIG_IGN, None):
        yield
        return
    heard = False

    def stop(signum: int, _frame: object) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise Stopped(signum=signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stop:
    """Whether the user or the system asked this run to stop."""

    def __init__(self) -> None:
        self._asked: float | None = None
        self._signum: int = signal.SIGINT

    @property
    def asked(self) -> bool:
        """Whether to stop at the end of this episode."""
        return self._asked is not None

    def check(self) -> None:
        """Stop now if the time to end the episode is over."""
        if self._asked is not None and time.monotonic() - self._asked > GRACE:
            raise self.stopped()

    def stopped(self) -> Stopped:
        """The exception that ends the run, with the signal that was received."""
        return Stopped(signum=self._signum)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the two signals inside, unless they are ignored or this is no main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        taken = [
            signum
            for signum in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(signum) is not signal.SIG_IGN
        ]
        before = {signum: signal.signal(signum, self._hear) for signum in taken}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _hear(self, signum: int, _frame: object) -> None:
        if self.asked:
            # A second SIGTERM says nothing new: a group of processes gets it, and its parent
            # passes it on.
            if signum == signal.SIGINT:
                self._signum = signum
                raise self.stopped()
            return
        self._asked, self._signum = time.monotonic(), signum
        with suppress(OSError):
            # Not print: the signal may arrive in the middle of another one.
            os.write(2, _SAID.encode())
