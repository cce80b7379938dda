"""Run a sweep: its runs are items, each in its own folder.

DIR/sweep.json describes the sweep; DIR/runs/<name>/ has config.json, command.txt, metrics.csv,
done.json when complete, failed.json if it failed, and progress.json.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

from needlab.core.lock import locked
from needlab.core.machine import record_machine
from needlab.core.tables import prepare_folder, read_json, write_json, write_text
from needlab.runs.kinds import kind_named
from needlab.runs.runner import LAST_LINES, Engine, Item, OnUnits, RunState, run_items
from needlab.runs.stopping import Stopped, signum_of, sigterm_stops
from needlab.runs.sweep_file import RunSpec, Sweep
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

SWEEP, CONFIG, DONE, FAILED = "sweep.json", "config.json", "done.json", "failed.json"
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
    """Run what is not complete in ``out``; raise for a second sweep there at the same time.

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
    out = prepare_folder(out)
    busy = (
        f"Another sweep works in {str(out)!r} ({{holder}}); wait for it, or choose another --out."
    )
    with locked(out / ".lock", busy):
        items = [item_of(spec, out) for spec in sweep.runs if not only or spec.name in only]
        _describe(out, sweep, items, argv)
        state = RunState.of(items)
        recorded = 0

        def watching(state: RunState) -> None:
            nonlocal recorded
            for failure in state.failures[recorded:]:
                record = {"attempts": failure.attempts, "lines": failure.lines[-LAST_LINES:]}
                with suppress(NeedReplayError):  # a full disk must not stop the other runs
                    write_json(failure.item.path.with_name(FAILED), record)
            recorded = len(state.failures)
            watch(state)

        if state.waiting:
            try:
                with sigterm_stops(), closing(engine(out)) as started:
                    run_items(state, started, watching)
            except KeyboardInterrupt as stop:
                raise Stopped(
                    f"stopped; {len(state.kept) + len(state.done)} of {state.total} runs are "
                    f"complete in {out}. The same command resumes.",
                    signum_of(stop),
                ) from stop
    return state


def item_of(spec: RunSpec, out: Path) -> Item:
    """A run of the sweep in ``out`` as a piece of work."""
    done = out / "runs" / spec.name / DONE
    return Item(spec.name, execute, spec, done, spec.units, spec.like, spec.label, owns_folder=True)


def execute(spec: RunSpec, done: Path, on_units: OnUnits) -> None:
    """Run ``spec`` in the folder of ``done``, which is written last; a complete run stays."""
    folder = done.parent
    _prepare(folder, spec)
    busy = f"{{holder}} is still working on the run in {str(folder)!r}."
    with locked(folder / ".lock", busy, wait=_SECONDS_FOR_ANOTHER):
        if done.exists():
            return
        (folder / FAILED).unlink(missing_ok=True)
        if spec.kind != "deep" and (warning := record_machine(folder)):
            print(f"needreplay: {warning}", file=sys.stderr)
        kind_named(spec.kind).run(dict(spec.config), folder, on_units)


def _describe(out: Path, sweep: Sweep, items: Sequence[Item], argv: Sequence[str]) -> None:
    """Write the description of the sweep, and config and command of the chosen runs."""
    for item in items:
        spec, folder = item.what, item.path.parent
        _prepare(folder, spec)
        own = kind_named(spec.kind).command(dict(spec.config), folder)
        if not (folder / "command.txt").exists():
            command = own or shlex.join([*argv, "--only", spec.name])
            write_text(folder / "command.txt", command + "\n")
    names = [spec.name for spec in sweep.runs]
    with suppress(NeedReplayError, KeyError, TypeError):
        if len(items) < len(names) and read_json(out / SWEEP)["runs"] == names:
            # A repeat of some runs, maybe with other options, leaves the description as it is.
            return
    about = {"name": sweep.name, "about": sweep.about, "command": list(argv)}
    write_json(out / SWEEP, {**about, "needreplay": __version__, "runs": names})


def _prepare(folder: Path, spec: RunSpec) -> None:
    """Make a run's folder with its config; raise for a folder with another config."""
    path = prepare_folder(folder) / CONFIG
    if not path.exists():
        write_json(path, spec.plain)
    # Through JSON and back: there a tuple is a list.
    elif read_json(path) != json.loads(json.dumps(spec.plain)):
        raise NeedReplayError(
            f"{str(path)!r} holds another config than its folder's name stands for, so somebody "
            "changed it; remove that folder to start the run again."
        )
