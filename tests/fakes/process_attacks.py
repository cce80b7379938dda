"""Attacks by signals in pairs and by forks, in ``make fuzz`` and a fixed part in the tests."""

from __future__ import annotations

import copy
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import buffer_attacks as buffers
import numpy as np
from served import Served, serve

from needreplay._core import forks
from needreplay._core.errors import NeedReplayError

PAIR = (signal.SIGINT, signal.SIGTERM)


# Signals in pairs --------------------------------------------------------------------------------


class Stopped(BaseException):
    """What a handler of these tests raises."""


class Handlers:
    """Handlers that count their signals, and raise; a block puts the old ones back."""

    def __init__(self, raising: tuple[bool, bool]) -> None:
        self.received = dict.fromkeys(PAIR, 0)
        self._raising = dict(zip(PAIR, raising, strict=True))

    def receive(self, number: int, _: Any) -> None:
        """Count the signal; raise, as Ctrl-C does, if it was asked for."""
        self.received[signal.Signals(number)] += 1
        if self._raising[signal.Signals(number)]:
            raise Stopped

    def __enter__(self) -> Handlers:
        self._before = {number: signal.signal(number, self.receive) for number in PAIR}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def missed(self, expected: dict[signal.Signals, int] | int) -> str:
        """What is wrong with the signals so far, and with later ones; empty: nothing."""
        total = sum(self.received.values())
        if self.received != expected and total != expected:
            return f"received: {self.received}"
        for number in PAIR:
            with suppress(Stopped):
                send((number,))
        return "" if sum(self.received.values()) == total + 2 else "a handler was not put back"


def send(numbers: tuple[int, ...]) -> None:
    """Let signals arrive at one moment: no handler runs before all are there."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:  # to this thread: elsewhere they are not blocked
        signal.pthread_kill(threading.get_ident(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def with_pair_at(call: Callable[[], Any], places: tuple[int, int]) -> int:
    """Send the first signal at one line of needreplay, the other at another; returns how many.

    A handler that raises ends the trace, and the second signal comes with the first if they have
    one place. None is sent where a handler is about to be called: Python itself loses a signal
    whose handler another one interrupts as it begins.
    """
    passed, sent = 0, 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal passed, sent
        code = frame.f_code
        if "needreplay/" not in code.co_filename.replace("\\", "/"):
            return None
        if event == "line" and code.co_name != "_call_waiting":
            passed += 1
            due = tuple(n for n, place in zip(PAIR, places, strict=True) if place == passed)
            sent += len(due)
            if due:
                send(due)
        return trace

    def traced() -> None:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)

    guarded(traced, lambda: None)
    return sent


def guarded(work: Callable[[], Any], again: Callable[[], Any]) -> None:
    """Call ``work``, and ``again`` after each of two signals, wherever they come."""
    try:
        try:
            work()
            signal.raise_signal(0)  # handlers that are due run now
        except Stopped:
            again()
            signal.raise_signal(0)
    except Stopped:
        again()


def attack_by_pair(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """SIGINT and SIGTERM in one call: it is complete or did not begin, and neither is lost."""
    sampler, kind = buffers.chosen(rng)
    fresh, names = buffers.to_interrupt(sampler, kind)
    name = names[rng.integers(len(names))]
    lines, complete = buffers.outcomes(sampler, kind, name)
    first = int(rng.integers(1, 2 * lines + 1))  # lines of all of needreplay, which are more
    second = first + int(rng.choice([0, 0, 1, 2, -1, int(rng.integers(1, 40))]))
    raising = bool(rng.random() < 0.8), bool(rng.random() < 0.5)
    buffer = copy.deepcopy(fresh)
    call = buffers.operations(buffer, kind)[name]
    what = f"{name}, {sampler} sampler, {kind}, lines {first} and {second} of {lines}, {raising}"
    with Handlers(raising) as handlers:
        sent = with_pair_at(call, (first, second))
        if missed := handlers.missed(sent):
            return what, f"{sent} were sent, {missed}"
    try:
        buffer.check_valid()
    except NeedReplayError as error:
        return what, repr(error)
    return what, "" if buffers.state_of(buffer)[:3] in complete else "it is half done"


def attack_by_two_timers(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """SIGINT and SIGTERM at any moment of a loop of calls: neither is lost, the buffer is valid."""
    sampler, kind = buffers.chosen(rng)
    buffer = copy.deepcopy(buffers.to_interrupt(sampler, kind)[0])
    calls = [call for name, call in buffers.operations(buffer, kind).items() if name != "load"]
    calls.append(lambda: buffer.sample(4, need=buffers.need_for(buffer)))
    first, second = rng.uniform(0, 3e-3, 2)
    what = f"{sampler} sampler, {kind}, after {first:.6f} and {second:.6f} s"
    begin, begun = os.pipe()

    def later(delay: float, number: int) -> None:
        os.read(begin, 1)
        time.sleep(delay)
        os.kill(os.getpid(), number)

    threads = [
        threading.Thread(target=later, args=given)
        for given in zip((first, second), PAIR, strict=True)
    ]
    for thread in threads:
        thread.start()
    left, handlers = [b"xx"], Handlers((True, True))

    def work() -> None:
        number, end = 0, time.monotonic() + 2.0
        while sum(handlers.received.values()) < 2 and time.monotonic() < end:
            if left:
                os.write(begun, left.pop())
            calls[number % len(calls)]()
            number += 1

    with handlers:
        guarded(work, work)
        for thread in threads:
            thread.join()
        os.close(begin)
        os.close(begun)
        if missed := handlers.missed(dict.fromkeys(PAIR, 1)):
            return what, missed
    try:
        buffer.check_valid()
    except NeedReplayError as error:
        return what, repr(error)
    return what, ""


# Forks -------------------------------------------------------------------------------------------

CHILD = 20
"""Seconds after which a child that still runs hangs."""


def attack_by_fork(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Fork while threads use the buffer, or hold its lock: the child has a buffer that works."""
    forks.PATIENCE = float(rng.choice([0.0, 0.01, 1.0]))
    sampler, kind = buffers.chosen(rng)
    buffer = buffers.used(sampler, kind)
    holding = bool(rng.random() < 0.3)
    what = f"{sampler} sampler, {kind}, {'a lock is held' if holding else 'threads work'}"
    what += f", patience {forks.PATIENCE}"
    ended, ready, failures = threading.Event(), threading.Event(), []
    seeds = rng.integers(2**31, size=4).tolist()

    def work(seed: int) -> None:
        own = np.random.default_rng(seed)
        try:
            while not ended.is_set():
                buffers.use(buffer, kind, own, 1)
                ready.set()
        except BaseException:
            failures.append(traceback.format_exc(limit=-2))

    def hold() -> None:
        with buffer.locked():
            ready.set()
            ended.wait()

    def fetch() -> None:
        try:
            with buffer.prefetch(4, need=lambda: buffers.need_for(buffer)) as batches:
                while not ended.is_set():
                    next(batches)
        except BaseException:
            failures.append(traceback.format_exc(limit=-2))

    sampled_alone = not hasattr(buffer.sampler, "n_features")
    targets: list[tuple[Callable[..., None], tuple[int, ...]]]
    targets = [(hold, ())] if holding else [(work, (seeds[0],))]
    if not holding and sampled_alone and rng.random() < 0.5:
        targets.append((fetch, ()))
    threads = [threading.Thread(target=target, args=args) for target, args in targets]
    for thread in threads:
        thread.start()
    ready.wait()
    children = []
    for seed in seeds[1:]:
        threading.Event().wait(float(rng.uniform(0, 2e-3)))
        children.append(os.fork())
        if children[-1] == 0:
            _use_in_child(buffer, kind, seed, whole=not holding)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    ended.set()
    for thread in threads:
        thread.join()
    if failures:
        return what, failures[0]
    try:
        buffer.check_valid()
        buffers.use(buffer, kind, rng, 2)
    except Exception as error:
        return what, f"in the parent: {error!r}"
    bad = [code for code in codes if code]
    return what, f"children ended with {bad} ({-signal.SIGALRM}: it hung)" if bad else ""


def _use_in_child(buffer: Any, kind: str, seed: int, whole: bool) -> None:
    """Use the buffer and end the process; ``whole``: no thread was amid a change for long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CHILD)
    code = 1
    try:
        buffer.check_valid()
        buffers.use(buffer, kind, np.random.default_rng(seed), 3)
        if not hasattr(buffer.sampler, "n_features"):
            with buffer.prefetch(4, need=lambda: buffers.need_for(buffer)) as batches:
                next(batches)
        buffer.check_valid()
        code = 0
    except NeedReplayError:
        # A thread that was amid a change when patience ended: a clear error is promised, no more.
        traceback.print_exc()
        code = 0 if forks.PATIENCE < 1.0 and whole else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


ATTACKS = {
    "signals in pairs": Served(__file__, "pairs"),
    "signals by two timers": Served(__file__, "timers"),
    "forks beside threads": Served(__file__, "forks"),
}

if __name__ == "__main__":
    serve({"pairs": attack_by_pair, "timers": attack_by_two_timers, "forks": attack_by_fork})
