"""Batches that a thread gathers while the learner computes: what ``prefetch`` returns.

Which transitions a batch has is decided in the caller's thread, ``depth`` batches ahead. So it
depends on the calls that the caller makes, and never on how fast the thread is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from needreplay._core.checks import COUNT, check_number
from needreplay._core.devices import checked_device
from needreplay._core.errors import NeedReplayError, not_installed
from needreplay._core.forks import fork_safe_lock
from needreplay._core.lazy import has_torch
from needreplay._core.types import AnyArray, Columns, Device, IntArray
from needreplay.replay.batch import Batch

if TYPE_CHECKING:
    from needreplay.replay.buffer import ReplayBuffer
    from needreplay.replay.contents import Contents


class Chosen:
    """A batch whose transitions are chosen, and whose columns are still in the buffer.

    Whoever needs the columns first gathers them: the thread, the caller that takes the batch, or an
    ``add`` that is about to overwrite one of its rows. So columns are those of the time of choice.
    """

    def __init__(self, batch: Batch, first_row: int, gather: Callable[[], Columns]) -> None:
        self.batch, self._first_row = batch, first_row
        self._gather: Callable[[], Columns] | None = gather
        self._lock = fork_safe_lock()
        self.move: Callable[[Batch], Batch] | None = None
        """Called once the columns are there."""

    def before_loss(self, oldest: int) -> None:
        """Gather now, if rows before ``oldest`` are about to be lost and this has one of them."""
        if self._first_row < oldest:
            with self._lock:
                self._gathered()

    def _gathered(self) -> Batch:
        if self._gather is not None:
            self.batch = replace(self.batch, columns=self._gather())
            self._gather = None
        return self.batch

    def complete(self) -> Batch:
        """The batch with its columns, where they are wanted."""
        with self._lock:
            batch = self._gathered()
            if self.move is not None:
                self.batch, self.move = self.move(batch), None
            return self.batch


def choose(buffer: ReplayBuffer, size: int, need: AnyArray | None, beta: float | None) -> Chosen:
    """Sample as ``buffer.sample`` does, without the columns."""
    contents = buffer._contents
    with buffer._lock:
        if len(contents.ring) == 0:
            raise contents.nothing_to_sample()
        batch = contents.sample(contents.chooser, size, need, buffer._beta_of(beta))
        if contents.entries is None:
            ids = batch.ids.copy()
            return Chosen(batch, ids.min().item(), partial(_rows, contents, ids))
        gather = partial(contents.columns_of, batch.columns)
        first = contents.entries.needed(batch.ids % contents.ring.capacity).min()
        return Chosen(batch, first.item(), gather)


def _rows(contents: Contents, ids: IntArray) -> Columns:
    return contents.columns_of(contents.core.read(ids))


def called(name: str, function: object) -> Callable[[], Any]:
    """``function``, which is asked at each batch; None says nothing."""
    if function is not None and not callable(function):
        raise NeedReplayError(
            f"{name} is {function!r}, but it changes from batch to batch; pass a function that "
            f"returns what it is now, such as {name}=lambda: {name}."
        )
    return (lambda: None) if function is None else function


class Prefetch:
    """Batches without end, each gathered in a thread before it is asked for.

    A loop over it can be left at any time. ``close``, or the end of a ``with`` block, ends the
    thread; so does the end of the loop, if nothing else refers to this object.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        choose_next: Callable[[], Chosen],
        depth: int,
        device: Device | None,
    ) -> None:
        self._depth = check_number("depth", depth, int, COUNT)
        self._move = _mover(device)
        self._guards, self._choose = buffer._contents.guards, choose_next
        self._ahead: deque[Chosen] = deque()
        self._turn = fork_safe_lock()
        self._thread: Thread | None = None
        self._closed = False

    _closed = True
    """Also where ``__init__`` raised."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        with self._turn:
            if self._closed:
                raise NeedReplayError(
                    "This prefetch is closed; call prefetch again for more batches."
                )
            while len(self._ahead) <= self._depth:
                self._send(self._choose())
            batch = self._ahead[0].complete()
            self._guards.remove(self._ahead.popleft().before_loss)
            return batch

    def _send(self, chosen: Chosen) -> None:
        chosen.move = self._move
        self._ahead.append(chosen)
        self._guards.append(chosen.before_loss)
        if self._depth == 0:
            return
        if self._thread is None or not self._thread.is_alive():  # at first, or in a forked child
            self._queue: SimpleQueue[Chosen | None] = SimpleQueue()
            self._thread = Thread(target=_work, args=(self._queue,), daemon=True)
            self._thread.start()
        self._queue.put(chosen)

    def close(self) -> None:
        """Drop the batches that were chosen ahead, and end the thread."""
        if self._closed:
            return
        with self._turn:
            self._closed = True
            while self._ahead:
                self._guards.remove(self._ahead.popleft().before_loss)
            if self._thread is not None:
                self._queue.put(None)

    def __reduce__(self) -> tuple[Any, ...]:
        raise NeedReplayError(
            "A prefetch is neither pickled nor copied, since its thread is not; pickle the buffer, "
            "and call prefetch again."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _work(queue: SimpleQueue[Chosen | None]) -> None:
    while (chosen := queue.get()) is not None:
        with suppress(Exception):  # the caller will try again, and meet the error itself
            chosen.complete()
        del chosen  # or the batch would stay until the next


def _mover(device: Device | None) -> Callable[[Batch], Batch] | None:
    """What brings a batch to a device: None for numpy. To CUDA it goes through pinned memory."""
    if device is None:
        return None
    if not has_torch():
        raise not_installed("prefetch(device=...) needs torch", "deep")
    target = checked_device(device)
    if target.type == "cuda":
        return lambda batch: batch._as_tensors(
            lambda tensor: tensor.pin_memory().to(target, non_blocking=True)
        )
    return lambda batch: batch.torch(target)
