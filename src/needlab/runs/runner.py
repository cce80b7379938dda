"""Run work items: every one that is not complete, on an engine, whatever happens to the others.

A study's trials and a sweep's runs are items. An item is complete when its file exists, so the same
call resumes after any stop, and results depend neither on the engine nor on the number of workers.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from needreplay._core.errors import NeedReplayError

OnUnits: TypeAlias = Callable[[float], None]

ATTEMPTS = 3
"""How often an item starts whose process or machine is lost."""
LAST_LINES = 6
"""Of a traceback, in a list of failures."""
_POLL = 0.2
_SECONDS_BETWEEN_REPORTS = 1.0


class Worked(NamedTuple):
    """How much of an item is done, and the seconds of work that it took."""

    units: float
    seconds: float


NOTHING = Worked(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Item:
    """A piece of work: some trials of a study, or a run of a sweep."""

    name: str
    """unique among the items of a call"""
    function: Callable[[Any, Path, OnUnits], None]
    """``function(what, path, on_units)`` of a module: it resumes from what is beside ``path``,
    calls ``on_units`` with the amount of work done, and writes ``path`` last, atomically"""
    what: Any
    path: Path
    """the item is complete when this file exists"""
    units: float = 1.0
    """the amount of work"""
    like: str = ""
    """items with the same text are equally fast"""
    label: str = ""
    """a few words for people"""
    owns_folder: bool = False
    """whether the folder of ``path`` is the item's own: then its log and its progress stay there"""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.path.exists()

    @property
    def progress(self) -> Path:
        """The file with the units done and the seconds worked."""
        hidden = f".{self.path.name}.progress"
        return self.path.with_name("progress.json" if self.owns_folder else hidden)


@dataclass(frozen=True)
class Ended:
    """An item that ended: done, raised (it would again), or lost with its process or machine."""

    name: str
    how: Literal["done", "raised", "lost"]
    lines: tuple[str, ...] = ()
    """of its error"""
    worked: Worked = NOTHING


class Engine(Protocol):
    """Where items are executed. Whether an item is complete, its file decides, not the engine."""

    slots: int
    """How many items it takes at once."""

    def start(self, item: Item) -> None:
        """Start an item."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """Return the items that ended; wait up to ``seconds`` for the first."""
        ...

    def close(self) -> None:
        """Stop all items; those that can save what they have, do."""
        ...


@dataclass(frozen=True)
class Failure:
    """An item that failed."""

    item: Item
    lines: tuple[str, ...]
    attempts: int
    lost: bool
    """with its process or machine; otherwise it raised"""


@dataclass
class RunState:
    """How far a list of items is, and in the end how it ended."""

    kept: list[Item] = field(default_factory=list)
    """complete before this call"""
    done: list[Item] = field(default_factory=list)
    running: dict[str, Item] = field(default_factory=dict)
    waiting: deque[Item] = field(default_factory=deque)
    failures: list[Failure] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    """names of items that started again, once for each time"""
    worked: dict[str, Worked] = field(default_factory=dict)
    """of items that are complete"""

    @classmethod
    def of(cls, items: Iterable[Item]) -> RunState:
        """Return the state before anything has started: complete items are kept."""
        state = cls()
        for item in items:
            (state.kept if item.is_complete else state.waiting).append(item)
        return state

    @property
    def total(self) -> int:
        """How many items there are."""
        ended = len(self.kept) + len(self.done) + len(self.failures)
        return ended + len(self.running) + len(self.waiting)


def run_items(
    state: RunState, engine: Engine, watch: Callable[[RunState], None] = lambda _state: None
) -> None:
    """Run what waits; whatever stops this (Ctrl-C, an exception in ``watch``) closes the engine.

    An item that raises does not start again: it would raise again. An item that is lost with its
    process or machine does, up to ``ATTEMPTS`` times in all. Neither stops the others.

    Args:
        state: which items; it is kept up to date.
        engine: where they are executed.
        watch: called with the state a few times a second.
    """
    attempts: dict[str, int] = {}
    try:
        while state.waiting or state.running:
            while state.waiting and len(state.running) < engine.slots:
                item = state.waiting.popleft()
                attempts[item.name] = attempts.get(item.name, 0) + 1
                state.running[item.name] = item
                engine.start(item)
            watch(state)
            for ended in engine.wait(_POLL):
                _settle(state, ended, attempts[ended.name])
        watch(state)
    except BaseException:
        engine.close()
        for item in state.running.values():
            _forget_progress(item)
        raise


def _settle(state: RunState, ended: Ended, attempts: int) -> None:
    item = state.running.pop(ended.name)
    if item.is_complete:
        state.done.append(item)
        state.worked[item.name] = ended.worked
    elif ended.how == "lost" and attempts < ATTEMPTS:
        _forget_progress(item)
        print(
            f"needreplay: {item.label or item.name} was lost with its process (killed, or out of "
            "memory) and started again.",
            file=sys.stderr,
        )
        state.retried.append(item.name)
        state.waiting.appendleft(item)
    else:
        lines = ended.lines or (f"It ended without writing {item.path.name}.",)
        state.failures.append(Failure(item, lines, attempts, ended.how == "lost"))


def _forget_progress(item: Item) -> None:
    """Of an item whose process was killed, unless its folder keeps it."""
    if not item.owns_folder:
        item.progress.unlink(missing_ok=True)


def do(item: Item, folder: Path) -> Ended:
    """In a worker: do the item in ``folder``, which stands for the one of its path."""
    recorder = ProgressFile(folder / item.progress.name)
    try:
        with recorder:
            item.function(item.what, folder / item.path.name, recorder.update)
    except Exception as error:
        return Ended(item.name, "raised", error_lines(error), recorder.worked)
    finally:
        if not item.owns_folder:
            recorder.path.unlink(missing_ok=True)
    return Ended(item.name, "done", (), recorder.worked)


def error_lines(error: BaseException) -> tuple[str, ...]:
    """A traceback; of a ``NeedReplayError`` its message alone."""
    if isinstance(error, NeedReplayError):
        return (str(error),)
    lines = "".join(traceback.format_exception(error)).splitlines()
    return tuple(line.rstrip() for line in lines if line.strip())


class ProgressFile:
    """Writes about once a second how many units of an item are done, and its seconds of work."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._units, seconds = read_progress(path)
        self._written = 0.0
        self._started = time.monotonic() - seconds

    @property
    def worked(self) -> Worked:
        """What is done by now."""
        return Worked(self._units, time.monotonic() - self._started)

    def __enter__(self) -> ProgressFile:
        self._write()
        return self

    def __exit__(self, *error: object) -> None:
        self._write()

    def update(self, units: float) -> None:
        """Record that ``units`` are done."""
        self._units = units
        if time.monotonic() - self._written >= _SECONDS_BETWEEN_REPORTS:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        part = self.path.with_name(f".{self.path.name.strip('.')}.{os.getpid()}.part")
        record = {"units": self._units, "seconds": round(self.worked.seconds, 3)}
        try:
            part.write_text(json.dumps(record))
            part.replace(self.path)
        except OSError:
            # The work matters more than its progress.
            part.unlink(missing_ok=True)


def read_progress(path: Path) -> Worked:
    """Units done and seconds worked; zeros for a missing or damaged file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        units, seconds = found["units"], float(found["seconds"])
        if math.isfinite(seconds) and math.isfinite(units):
            return Worked(units, seconds)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        pass
    return NOTHING
