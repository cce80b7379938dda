"""Run a sweep: every run that is not complete, on an engine, whatever happens to the others."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from needlab.core.lock import locked
from needlab.core.tables import prepare_folder
from needlab.runs.stopping import Stopped, sigterm_stops
from needlab.runs.sweep_file import RunSpec, Sweep
from needlab.runs.sweep_folder import SweepFolder

ATTEMPTS = 3
"""How often a run starts whose process or machine is lost."""
_POLL = 0.5


@dataclass(frozen=True)
class Ended:
    """A run that ended: done, raised (it would again), or lost with its process or machine."""

    name: str
    how: Literal["done", "raised", "lost"]
    lines: tuple[str, ...] = ()


class Engine(Protocol):
    """Where runs are executed. Whether a run is complete, its folder decides, not the engine."""

    slots: int
    """How many runs it takes at once."""

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Start a run."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """Return the runs that ended; wait up to ``seconds`` for the first."""
        ...

    def close(self) -> None:
        """Stop all runs."""
        ...


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    spec: RunSpec
    lines: tuple[str, ...]
    attempts: int
    lost: bool
    """with its process or machine; otherwise it raised"""


@dataclass
class SweepResult:
    """How far a sweep is, and in the end how it ended."""

    folder: SweepFolder
    total: int
    kept: list[RunSpec] = field(default_factory=list)
    """complete before this call"""
    done: list[RunSpec] = field(default_factory=list)
    running: dict[str, RunSpec] = field(default_factory=dict)
    waiting: deque[RunSpec] = field(default_factory=deque)
    failures: list[Failure] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    """names of runs that started again, once for each time"""


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    engine: Callable[[Path], Engine],
    *,
    argv: Sequence[str] = ("needreplay", "sweep"),
    only: Collection[str] = (),
    watch: Callable[[SweepResult], None] = lambda _state: None,
) -> SweepResult:
    """Run what is not complete in ``out``; refuse a second sweep there at the same time.

    A run that raises does not start again: it would raise again. A run that is lost with its
    process or machine does, up to ``ATTEMPTS`` times in all. Neither stops the others.

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
        state = SweepResult(folder, len(chosen))
        for spec in chosen:
            (state.kept if folder.is_done(spec.name) else state.waiting).append(spec)
        if state.waiting:
            with sigterm_stops():
                _run_all(state, engine(folder.path), watch)
    return state


def _run_all(state: SweepResult, engine: Engine, watch: Callable[[SweepResult], None]) -> None:
    attempts: dict[str, int] = {}
    try:
        while state.waiting or state.running:
            while state.waiting and len(state.running) < engine.slots:
                spec = state.waiting.popleft()
                attempts[spec.name] = attempts.get(spec.name, 0) + 1
                state.running[spec.name] = spec
                engine.start(spec, state.folder.of(spec.name))
            watch(state)
            for ended in engine.wait(_POLL):
                _settle(state, ended, attempts[ended.name])
        watch(state)
    except KeyboardInterrupt as stop:
        complete = len(state.kept) + len(state.done)
        raise Stopped(
            f"stopped; {complete} of {state.total} runs are complete in {state.folder.path}. "
            "The same command resumes.",
            getattr(stop, "signum", signal.SIGINT),
        ) from stop
    finally:
        engine.close()


def _settle(state: SweepResult, ended: Ended, attempts: int) -> None:
    """Record how a run ended; it is complete if its folder is."""
    spec = state.running.pop(ended.name)
    if state.folder.is_done(spec.name):
        state.done.append(spec)
    elif ended.how == "lost" and attempts < ATTEMPTS:
        state.retried.append(spec.name)
        state.waiting.appendleft(spec)
    else:
        lines = ended.lines or ("It ended without done.json.",)
        state.failures.append(Failure(spec, lines, attempts, ended.how == "lost"))
        state.folder.write_failure(spec.name, lines, attempts)
