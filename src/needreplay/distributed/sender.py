"""The thread that sends a writer's blocks, so that acting does not wait for Ray."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from needreplay._core.cluster import imported
from needreplay._core.errors import NeedReplayError
from needreplay.distributed.shard import News, State
from needreplay.replay.storage import Parts

UNSTORED, UNTAKEN = 3, 16
"""Blocks that a shard has not stored, or the learner has not taken; then a writer waits."""
PATIENCE = 120.0
"""Seconds that a writer waits for a shard that does not answer."""
_PAUSE, _LONGEST_PAUSE = 0.005, 0.02


@dataclass(slots=True, eq=False)
class _Sent:
    """A block that the learner may not have taken yet."""

    news: News
    parts: Parts
    is_under_way: bool = False
    is_stored: bool = False


class Sender:
    """Keeps each block until the learner has taken it, and sends again what a shard lost.

    Args:
        shard: its number, for messages.
        handle: the shard's.
    """

    def __init__(self, shard: int, handle: Any) -> None:
        self._shard, self._handle = shard, handle
        self._ray = imported("needreplay.distributed")
        self._kept: deque[_Sent] = deque()
        """what would be lost with the shard"""
        self._answers: deque[tuple[Any, _Sent | None]] = deque()
        """to come, in this order"""
        self._has_room = True
        self._untaken = UNTAKEN
        """blocks that the learner need not have taken, for whoever waits"""
        self._pause = 0.0
        self._silent_since: float | None = None
        self._is_closed = False
        self._error: NeedReplayError | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    # For the writer ------------------------------------------------------------------------------

    def keep(self, news: News, parts: Parts) -> None:
        """Take a block that is to be sent."""
        with self._changed:
            self._kept.append(_Sent(news, parts))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
                self._thread.start()

    def wait(self, unstored: int = UNSTORED, untaken: int = UNTAKEN) -> None:
        """Wait until all but so many blocks are in the shard, and taken by the learner."""
        with self._changed:
            self._untaken = untaken
            self._changed.notify_all()
            while True:
                if self._error is not None:
                    raise self._error
                if self._unstored() <= unstored and len(self._kept) <= untaken:
                    return
                self._changed.wait()

    def close(self) -> None:
        """End the thread as soon as the shard has every block."""
        with self._changed:
            self._is_closed, self._untaken = True, UNTAKEN
            self._changed.notify_all()

    def _unstored(self) -> int:
        return sum(not sent.is_stored for sent in self._kept)

    # In the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._has_work():
                self._ask()
                self._hear()
        except NeedReplayError as error:
            self._end(error)
        except Exception as error:
            self._end(NeedReplayError(f"Sending stopped: {error!r}"))

    def _end(self, error: NeedReplayError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _has_work(self) -> bool:
        """Wait until something is to be sent or asked; whether there is, or this is the end."""
        with self._changed:
            while not (self._answers or self._unstored() or len(self._kept) > self._untaken):
                if self._is_closed:
                    return False
                self._changed.wait()
        if not self._ray.is_initialized():  # a call would start another cluster
            raise NeedReplayError("Ray was shut down.")
        return True

    def _ask(self) -> None:
        """Send what is not stored; with nothing to send, ask what the learner has taken."""
        with self._changed:
            kept = list(self._kept)
        if not kept:
            return
        if self._has_room:
            for sent in kept:
                if not (sent.is_stored or sent.is_under_way):
                    sent.is_under_way = True
                    oldest = kept[0].news.sequence
                    answer = self._handle.add.remote(oldest, sent.news, sent.parts)
                    self._answers.append((answer, sent))
                    self._pause = 0.0
        if not self._answers:
            self._pause = min(max(2 * self._pause, _PAUSE), _LONGEST_PAUSE)
            self._answers.append((self._handle.state.remote(kept[0].news.source), None))

    def _hear(self) -> None:
        """Take the next answer; pause after it if there was nothing to send."""
        (answer, sent), began = self._answers.popleft(), time.monotonic()
        try:
            state: State | None = self._ray.get(answer, timeout=PATIENCE)
            self._silent_since = None
        except self._ray.exceptions.RayTaskError as error:
            raise NeedReplayError(f"shard {self._shard}: {error.cause}") from error
        except self._ray.exceptions.RayError as error:
            # Killed, or not started again yet; it comes back under the same handle, empty.
            state, self._pause = None, _LONGEST_PAUSE
            self._silent_since = self._silent_since or began
            if time.monotonic() - self._silent_since > PATIENCE:
                raise self._gone(error) from error
        with self._changed:
            if sent is not None:
                sent.is_under_way = False
            if state is not None:
                self._take(state)
            self._changed.notify_all()
            if self._pause and not self._answers:
                self._changed.wait(self._pause)

    def _take(self, state: State) -> None:
        self._has_room = state.has_room
        for sent in self._kept:
            sent.is_stored = sent.news.sequence <= state.stored
        while self._kept and self._kept[0].news.sequence <= state.taken:
            self._kept.popleft()

    def _gone(self, error: Exception) -> NeedReplayError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return NeedReplayError(
            f"shard {self._shard} has not answered for {PATIENCE:g} s ({reason}); is the learner "
            "still running?"
        )
