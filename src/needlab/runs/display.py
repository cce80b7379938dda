"""How far items are and when they are done, on standard error: live on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from needlab.core.clock import duration
from needlab.runs.runner import Item, RunState, Worked, read_progress
from needlab.runs.speed import estimate, speeds_of

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_PERIOD = 30.0
"""Seconds between two lines where standard error is not a terminal."""
_LIVE_PERIOD = 0.5
_SHOWN = 12
Watch: TypeAlias = Callable[[RunState], None]


class Display:
    """``with Display().showing("fig2", slots=2) as watch: run_items(state, engine, watch)``.

    Args:
        visible: whether to show anything; ``None``: live on a terminal, else a line at times.
    """

    def __init__(self, *, visible: bool | None = None) -> None:
        self._live = sys.stderr.isatty() if visible is None else visible
        self.prints_lines = visible is None and not self._live

    @contextmanager
    def showing(
        self, label: str, slots: int | None, expected: float | None = None
    ) -> Iterator[Watch]:
        """Show the states that are passed inside the block.

        Args:
            label: what the items are.
            slots: how many run at once; ``None``: as many as have made progress.
            expected: units per second that one of them is expected to do.
        """
        report = Report(label, slots, expected)
        shown = time.monotonic()

        def at_times(show: Watch, period: float) -> Watch:
            def watch(state: RunState) -> None:
                nonlocal shown
                if time.monotonic() - shown >= period or (self._live and not _left(state)):
                    shown = time.monotonic()
                    show(state)

            return watch

        if self._live:
            from rich.console import Console
            from rich.live import Live

            with Live(console=Console(stderr=True), refresh_per_second=4) as live:
                yield at_times(lambda state: live.update(report.drawn(state)), _LIVE_PERIOD)
        elif self.prints_lines:
            print_line = at_times(
                lambda state: print(report.line(state), file=sys.stderr), LINE_PERIOD
            )
            begun = False

            def watch_lines(state: RunState) -> None:
                nonlocal begun
                line = "" if begun else report.line(state)
                if line and report.seconds_left >= LINE_PERIOD:
                    print(line, file=sys.stderr)
                begun = True
                print_line(state)

            yield watch_lines
        else:
            yield lambda _state: None


def _left(state: RunState) -> list[Item]:
    return [*state.running.values(), *state.waiting]


class Report:
    """Says how far items are; the arguments are those of ``Display.showing``."""

    def __init__(self, label: str, slots: int | None, expected: float | None = None) -> None:
        self._label, self._slots, self._expected = label, slots, expected
        self._earlier: dict[str, Worked] | None = None
        self.seconds_left = 0.0
        """of the last line; 0: none or not known"""

    def line(self, state: RunState) -> str:
        """Share, counts of items that have a name, and the time to finish."""
        worked, left = self._worked(state), _left(state)
        complete = [*state.kept, *state.done]
        moved = sum(worked[name].units > 0 for name in state.running)
        # A submitted item may wait on the cluster; only progress shows that it runs.
        running = f"{moved} running"
        if moved < len(state.running):
            running = f"{len(state.running)} submitted ({moved} with progress)"
        done = sum(item.units for item in complete)
        done += sum(min(item.units, worked[name].units) for name, item in state.running.items())
        total = sum(item.units for item in [*complete, *left])
        words = [f"{self._label}: {done / total:.0%}" if total else self._label]
        if any(item.label for item in [*complete, *left]):
            words.append(
                f"{len(complete)} of {state.total} done, {running}, {len(state.waiting)} waiting, "
                f"{len(state.failures)} failed"
            )
        if state.retried:
            words.append(f"{len(state.retried)} lost and started again")
        found = estimate(left, worked, speeds_of([*complete, *left], worked, self._expected))
        self.seconds_left = found.wall(self._slots or max(1, moved))
        if found.seconds:
            more = "more than " if found.unknown else ""
            words.append(f"{more}{duration(self.seconds_left)} to finish")
        return ", ".join(words)

    def drawn(self, state: RunState) -> RenderableType:
        """The line, the named items under way, and the failures so far."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        worked = self._worked(state)
        rows = Table("run", "what", "done", box=None, pad_edge=False)
        named = [item for item in state.running.values() if item.label]
        for item in sorted(named, key=lambda item: worked[item.name].units == 0)[:_SHOWN]:
            share = min(1.0, worked[item.name].units / max(item.units, 1e-9))
            rows.add_row(Text(item.name), Text(item.label), Text(f"{share:.0%}"))
        parts: list[RenderableType] = [Text(self.line(state)), *([rows] if named else [])]
        if len(named) > _SHOWN:
            parts.append(Text(f"and {len(named) - _SHOWN} more"))
        failed = [failure.item for failure in state.failures[-_SHOWN:]]
        return Group(*parts, *(Text(f"failed: {item.name} {item.label}") for item in failed))

    def _worked(self, state: RunState) -> dict[str, Worked]:
        """What is done of each item; of those that wait or were complete, as it was at first."""
        if self._earlier is None:
            earlier = [*state.kept, *state.waiting]
            self._earlier = {item.name: read_progress(item.progress) for item in earlier}
        running = {name: read_progress(item.progress) for name, item in state.running.items()}
        return {**self._earlier, **running, **state.worked}
