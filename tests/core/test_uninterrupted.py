"""No signal handler is lost, wherever in the machinery of ``Uninterrupted`` another one raises."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from needreplay._core import uninterrupted
from needreplay._core.uninterrupted import Uninterrupted

PLACES = 150
"""More than there are bytecode instructions before, in and after the block."""


@pytest.fixture
def ended() -> Iterator[list[int]]:
    """Receives each SIGTERM."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield received
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, interrupt)


@pytest.mark.parametrize("place", range(PLACES))
def test_ctrl_c_anywhere_leaves_sigterm_where_it_was(place: int, ended: list[int]) -> None:
    passed = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != Uninterrupted.__enter__.__code__.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode"):
            passed += 1
            if passed == place:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    with suppress(KeyboardInterrupt):
        sys.settrace(trace)
        try:
            with Uninterrupted():
                pass
        finally:
            sys.settrace(before)
    signal.raise_signal(signal.SIGTERM)
    assert ended == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler or place < passed
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        pytest.fail("Ctrl-C does nothing any more")


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("raising", [{"SIGINT"}, {"SIGTERM"}, {"SIGINT", "SIGTERM"}])
def test_of_two_signals_that_wait_both_are_received(first: str, raising: set[str]) -> None:
    names, received = ["SIGINT", "SIGTERM"], list[str]()

    def receive(number: int, _: Any) -> None:
        received.append(signal.Signals(number).name)
        if received[-1] in raising:
            raise ZeroDivisionError

    before = {name: signal.signal(getattr(signal, name), receive) for name in names}
    try:
        with suppress(ZeroDivisionError), Uninterrupted():
            for name in sorted(names, key=lambda name: name != first):
                signal.raise_signal(getattr(signal, name))
            assert received == []
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
    assert sorted(received) == names


def test_a_signal_that_stops_the_block_from_beginning_takes_no_other_with_it(
    ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM raises where SIGINT already waits, before SIGTERM does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    get = uninterrupted._getsignal

    def interrupted(number: int) -> Any:
        if number == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)
        return get(number)

    with monkeypatch.context() as patch:
        patch.setattr(uninterrupted, "_getsignal", interrupted)
        with pytest.raises(KeyboardInterrupt), Uninterrupted():
            pytest.fail("the block began")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
