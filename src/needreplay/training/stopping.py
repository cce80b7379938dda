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


@contextmanager
def sigterm_stops() -> Iterator[None]:
    """Inside, SIGTERM raises ``Stopped``, as Ctrl-C raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, _frame: object) -> None:
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
        """What to raise."""
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
        again, self._signum = self.asked, signum
        if again:
            raise self.stopped()
        self._asked = time.monotonic()
        with suppress(OSError):
            # Not print: the signal may arrive in the middle of another one.
            os.write(2, _SAID.encode())
