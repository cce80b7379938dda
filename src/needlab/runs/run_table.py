"""The live table of a sweep, on standard error if that is a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from needlab.core.clock import Speed, duration
from needlab.runs.kinds import kind_named
from needlab.runs.sweep_loop import SweepResult

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 12


class LiveTable:
    """``with LiveTable() as table: run_sweep(..., watch=table)``.

    Args:
        visible: whether to show it; ``None``: only where standard error is a terminal.
    """

    def __init__(self, *, visible: bool | None = None) -> None:
        self._visible = sys.stderr.isatty() if visible is None else visible
        self._live: Any = None
        self._speed = Speed()

    def __enter__(self) -> LiveTable:
        if self._visible:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, state: SweepResult) -> None:
        """Show the state."""
        if self._live is None:
            return
        progress = {name: state.folder.progress(name)[0] for name in state.running}
        finished = sum(spec.units for spec in [*state.kept, *state.done])
        speed = self._speed.update(time.monotonic(), finished + sum(progress.values()))
        self._live.update(table(state, progress, speed))


def table(state: SweepResult, progress: dict[str, int], speed: float) -> RenderableType:
    """The counts, the runs under way, and the failures so far."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    left = sum(spec.units for spec in state.waiting)
    left += sum(spec.units - progress[name] for name, spec in state.running.items())
    # A submitted run may wait on the cluster; only progress shows that it runs.
    moved = sum(units > 0 for units in progress.values())
    running = f"{moved} running"
    if moved < len(progress):
        running = f"{len(progress)} submitted ({moved} with progress)"
    counts = (
        f"{len(state.kept) + len(state.done)} of {state.total} done, {running}, "
        f"{len(state.waiting)} waiting, {len(state.failures)} failed"
    )
    if state.retried:
        counts += f", {len(state.retried)} lost and started again"
    if speed > 0:
        units = {kind_named(spec.kind).unit for spec in [*state.running.values(), *state.waiting]}
        unit = units.pop() if len(units) == 1 else "steps"
        counts += f"; {speed:,.0f} {unit}/s, {duration(left / speed)} to finish"
    rows = Table("run", "what", "done", box=None, pad_edge=False)
    moved_first = sorted(state.running.items(), key=lambda item: progress[item[0]] == 0)
    for name, spec in moved_first[:SHOWN]:
        share = progress[name] / max(1, spec.units)
        rows.add_row(Text(name), Text(spec.label), Text(f"{min(share, 1):.0%}"))
    parts: list[RenderableType] = [Text(counts), rows]
    if len(state.running) > SHOWN:
        parts.append(Text(f"and {len(state.running) - SHOWN} more"))
    parts += [Text(f"failed: {one.spec.name} {one.spec.label}") for one in state.failures[-SHOWN:]]
    return Group(*parts)
