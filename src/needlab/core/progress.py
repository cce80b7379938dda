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
    def task(self, label: str, total: float) -> Iterator[Bar]:
        """A bar for the ``with`` block; tasks may be nested."""
        if self._visible is None and not sys.stderr.isatty():
            yield Bar(_lines(label, total))
            return
        if self._visible is False:
            yield Bar()
            return
        outermost = self._drawn is None
        drawn = self._drawn = self._drawn or _rich_progress()
        if outermost:
            drawn.start()
        task = drawn.add_task(label, total=total)
        try:
            yield Bar(lambda amount: drawn.advance(task, amount))
        finally:
            if outermost:
                drawn.stop()
                self._drawn = None


def _lines(label: str, total: float) -> Callable[[float], None]:
    """Prints "fig2: 40%, 3 min to finish" every ``LINE_PERIOD`` seconds."""
    began = printed = time.monotonic()
    done = 0.0

    def advance(amount: float) -> None:
        nonlocal printed, done
        done += amount
        now = time.monotonic()
        if now - printed < LINE_PERIOD or not 0.0 < done < total:
            return
        printed = now
        left = duration((now - began) * (total - done) / done)
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
        TimeRemainingColumn,
    )
    from rich.text import Text

    class LabelColumn(ProgressColumn):
        """The label as it is: brackets in it are not markup."""

        def render(self, task: Task) -> Text:
            return Text(task.description)

    return Progress(
        LabelColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        "to finish",
        TimeRemainingColumn(),
        console=Console(stderr=True),
        # Standard output is for data.
        redirect_stdout=False,
    )
