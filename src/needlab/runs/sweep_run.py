"""Run a sweep: its runs are items, each in its own folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path

from needlab.core.lock import locked
from needlab.core.machine import record_machine
from needlab.core.tables import prepare_folder
from needlab.runs.kinds import kind_named
from needlab.runs.runner import Engine, Item, OnUnits, RunState, run_items
from needlab.runs.stopping import Stopped, signum_of, sigterm_stops
from needlab.runs.sweep_file import RunSpec, Sweep
from needlab.runs.sweep_folder import DONE, FAILED, SweepFolder, prepare_run

_SECONDS_FOR_ANOTHER = 600.0
"""A node that the cluster has given up may still work on the run."""


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    engine: Callable[[Path], Engine],
    *,
    argv: Sequence[str] = ("needreplay", "sweep"),
    only: Collection[str] = (),
    watch: Callable[[RunState], None] = lambda _state: None,
) -> RunState:
    """Run what is not complete in ``out``; refuse a second sweep there at the same time.

    A run that raises does not start again: it would raise again. A run that is lost with its
    process or machine does, at most three times in all. Neither stops the others.

    Args:
        sweep: what to run.
        out: the sweep's folder.
        engine: makes the engine, given the folder.
        argv: the command line of the sweep, to be recorded.
        only: names of the runs to do; none: all.
        watch: called with the state a few times a second; an exception in it ends the sweep.
    """
    folder = SweepFolder(prepare_folder(out))
    busy = (
        f"Another sweep works in {str(out)!r} ({{holder}}); wait for it, or choose another --out."
    )
    with locked(folder.lock, busy):
        chosen = [spec for spec in sweep.runs if not only or spec.name in only]
        folder.prepare(sweep, argv, chosen)
        state = RunState.of(item_of(spec, folder) for spec in chosen)
        recorded: set[str] = set()

        def watching(state: RunState) -> None:
            for failure in state.failures:
                if failure.item.name not in recorded:
                    recorded.add(failure.item.name)
                    folder.write_failure(failure)
            watch(state)

        if state.waiting:
            try:
                with sigterm_stops(), closing(engine(folder.path)) as started:
                    run_items(state, started, watching)
            except KeyboardInterrupt as stop:
                raise Stopped(
                    f"stopped; {len(state.kept) + len(state.done)} of {state.total} runs are "
                    f"complete in {out}. The same command resumes.",
                    signum_of(stop),
                ) from stop
    return state


def item_of(spec: RunSpec, folder: SweepFolder) -> Item:
    """A run of a sweep as a piece of work."""
    done = folder.of(spec.name) / DONE
    return Item(spec.name, execute, spec, done, spec.units, spec.like, spec.label, owns_folder=True)


def execute(spec: RunSpec, done: Path, on_units: OnUnits) -> None:
    """Run ``spec`` in the folder of ``done``, which is written last; a complete run stays."""
    folder = done.parent
    prepare_run(folder, spec)
    busy = f"{{holder}} is still working on the run in {str(folder)!r}."
    with locked(folder / ".lock", busy, wait=_SECONDS_FOR_ANOTHER):
        if done.exists():
            return
        (folder / FAILED).unlink(missing_ok=True)
        if spec.kind != "deep" and (warning := record_machine(folder)):
            print(f"needreplay: {warning}", file=sys.stderr)
        kind_named(spec.kind).run(dict(spec.config), folder, on_units)
