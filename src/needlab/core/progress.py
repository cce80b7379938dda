"""Progress and time to finish, on standard error: a bar on a terminal, else a line at times."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from needlab.core.clock import duration

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LINE_PERIOD = 30.0
"""Seconds between two lines where standard error is not a terminal."""


PRIOR = 20.0
"""How many seconds the expected speed of a task is worth against what is measured."""


class Bar:
    """The bar of one task."""

    def __init__(self, on_advance: Callable[[float], None] | None = None) -> None:
        self._on_advance = on_advance

    def advance(self, amount: float = 1) -> None:
        """Add ``amount`` to what is done."""
        if self._on_advance is not None:
            self._on_advance(amount)


class Progress:
    """Makes bars: ``with progress.task("fig2", total=100) as bar: bar.advance(3)``.

    Args:
        visible: whether to show them; ``None``: as lines if standard error is no terminal.
    """

    def __init__(self, *, visible: bool | None = None) -> None:
        self._visible = visible
        self._drawn: RichProgress | None = None

    @contextmanager
    def task(self, label: str, total: float, *, speed: float = 0.0) -> Iterator[Bar]:
        """A bar for the ``with`` block; tasks may be nested.

        Args:
            label: of the bar.
            total: what there is to do, in any unit.
            speed: about how much of it a second does, if that is known before it begins.
        """
        if self._visible is None and not sys.stderr.isatty():
            yield Bar(_lines(label, total, speed))
            return
        if self._visible is False:
            yield Bar()
            return
        outermost = self._drawn is None
        drawn = self._drawn = self._drawn or _rich_progress()
        if outermost:
            drawn.start()
        task = drawn.add_task(label, total=total, speed=speed)
        try:
            yield Bar(lambda amount: drawn.advance(task, amount))
        finally:
            if outermost:
                drawn.stop()
                self._drawn = None


def time_left(total: float, done: float, elapsed: float, speed: float) -> float:
    """Seconds to finish.

    The expected speed counts as much as ``PRIOR`` seconds of work, so that the time is sane from
    the start, when kernels compile, and soon follows what is measured.

    >>> time_left(total=100, done=0, elapsed=0, speed=2), time_left(100, 50, 100, speed=0)
    (50.0, 100.0)
    """
    prior = PRIOR if speed > 0.0 else 0.0
    seen = done + prior * speed
    return (total - done) * (elapsed + prior) / seen if seen > 0.0 else float("inf")


def _lines(label: str, total: float, speed: float) -> Callable[[float], None]:
    """Prints "fig2: 40%, 3 min to finish" every ``LINE_PERIOD`` seconds, and at a long start."""
    began = printed = time.monotonic()
    done = 0.0
    if speed > 0.0 and total / speed >= LINE_PERIOD:
        said = duration(time_left(total, 0.0, 0.0, speed))
        print(f"{label}: about {said} to finish", file=sys.stderr, flush=True)

    def advance(amount: float) -> None:
        nonlocal printed, done
        done += amount
        now = time.monotonic()
        if now - printed < LINE_PERIOD or not 0.0 < done < total:
            return
        printed = now
        left = duration(time_left(total, done, now - began, speed))
        print(f"{label}: {done / total:.0%}, {left} to finish", file=sys.stderr, flush=True)

    return advance


def _rich_progress() -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class LabelColumn(ProgressColumn):
        """The label as it is: brackets in it are not markup."""

        def render(self, task: Task) -> Text:
            return Text(task.description)

    class LeftColumn(ProgressColumn):
        """The time to finish."""

        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            speed, elapsed = float(task.fields["speed"]), task.elapsed or 0.0
            left = time_left(task.total or 0.0, task.completed, elapsed, speed)
            return Text(f"{duration(left) if left < float('inf') else '?'} to finish")

    return Progress(
        LabelColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        LeftColumn(),
        console=Console(stderr=True),
        # Standard output is for data.
        redirect_stdout=False,
    )
