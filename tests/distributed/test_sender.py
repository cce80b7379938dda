"""The thread that sends blocks, to a shard in this process that loses, refuses and fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.distributed import sender as module
from needreplay.distributed.sender import UNSTORED, UNTAKEN, Sender
from needreplay.distributed.shard import News, Shard, Told
from needreplay.replay.storage import Parts


class LostError(Exception):
    """What Ray raises for an actor that it cannot reach."""


class FailedError(LostError):
    """What Ray raises for an error in an actor."""

    cause = "it is full"


class Process:
    """A shard as Ray shows it: calls run when their answers are taken."""

    def __init__(self) -> None:
        self.shard, self.added = Shard(), list[int]()
        self.fails: type[LostError] | None = None
        self.is_there = True
        self.ray = SimpleNamespace(
            get=lambda answer, timeout: answer() if timeout else None,
            is_initialized=lambda: self.is_there,
            exceptions=SimpleNamespace(RayError=LostError, RayTaskError=FailedError),
        )

    def __getattr__(self, name: str) -> Any:
        def remote(*values: Any) -> Callable[[], Any]:
            def call() -> Any:
                if self.fails is not None:
                    raise self.fails
                if name == "add":
                    self.added.append(values[1].sequence)
                return getattr(self.shard, name)(*values)

            return call

        return SimpleNamespace(remote=remote)

    def restart(self) -> None:
        """Lose everything."""
        self.shard = Shard()

    def take(self, room: float) -> Told:
        """What the learner is told; it takes all of it."""
        told = self.shard.poll(self.shard.incarnation, 0, [], room)
        return self.shard.poll(self.shard.incarnation, told.first + len(told.news), [], room)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    found = Process()
    monkeypatch.setattr(module, "imported", lambda _: found.ray)
    return found


@pytest.fixture
def sender(process: Process) -> Iterator[Sender]:
    found = Sender(5, process)
    yield found
    found.close()


def keep(sender: Sender, *numbers: int) -> None:
    for number in numbers:
        links = np.full(4, -1)
        news = News("me", number, 4 * number, links, np.zeros(4, np.int64), None, None)
        sender.keep(news, Parts(np.full((4, 8), number, np.uint8)))


def sequences(process: Process) -> list[int]:
    """Of the blocks that the shard has and the learner has not taken."""
    return [news.sequence for _, news in process.shard._news]


def test_blocks_are_sent_once_and_in_order(process: Process, sender: Sender) -> None:
    process.take(room=1e9)
    keep(sender, 0, 1, 2, 3, 4)
    sender.wait(unstored=0)
    assert process.added == sequences(process) == [0, 1, 2, 3, 4]


def test_what_a_shard_loses_is_sent_again(process: Process, sender: Sender) -> None:
    process.take(room=1e9)
    keep(sender, 0, 1)
    sender.wait(unstored=0)
    process.restart()
    process.take(room=1e9)
    keep(sender, 2)
    ends = time.monotonic() + 20.0
    while sequences(process) != [0, 1, 2] and time.monotonic() < ends:
        sender.wait(unstored=0)
    assert sequences(process) == [0, 1, 2]


def test_a_full_shard_is_asked_and_gets_a_block_when_it_has_room(
    process: Process, sender: Sender
) -> None:
    process.take(room=4)
    keep(sender, 0, 1)
    sender.wait(unstored=1)
    assert sequences(process) == [0]
    time.sleep(0.2)
    assert process.added in ([0], [0, 1]), "it is not sent over and over"
    process.take(room=4)
    sender.wait(unstored=0)
    assert sequences(process) == [1]
    process.take(room=4)
    sender.wait(unstored=0, untaken=0)


def test_an_unreachable_shard_is_tried_for_a_while(
    process: Process, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    process.fails = LostError
    keep(sender, 0)
    with pytest.raises(NeedReplayError, match=r"^shard 5 has not answered for 0\.1 s .*still"):
        sender.wait(unstored=0)


def test_an_error_in_a_shard_reaches_the_writer(process: Process, sender: Sender) -> None:
    process.fails = FailedError
    keep(sender, 0)
    with pytest.raises(NeedReplayError, match="shard 5: it is full"):
        sender.wait(unstored=0)


def test_nothing_is_sent_after_ray_has_ended(process: Process, sender: Sender) -> None:
    process.is_there = False
    keep(sender, 0)
    with pytest.raises(NeedReplayError, match="Ray was shut down"):
        sender.wait(unstored=0)
    assert not process.added


def test_a_closed_sender_sends_what_it_has(process: Process, sender: Sender) -> None:
    process.take(room=1e9)
    keep(sender, 0, 1)
    sender.close()
    assert sender._thread is not None
    sender._thread.join(10.0)
    assert not sender._thread.is_alive()
    assert sequences(process) == [0, 1]
    assert UNSTORED < UNTAKEN
