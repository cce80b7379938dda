"""No signal handler is lost, wherever in the machinery of ``Uninterrupted`` another one raises."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

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
