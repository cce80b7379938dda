"""Run a sweep: every run that is not complete, each once, whatever happens to the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from needreplay.core.lock import locked
from needreplay.core.tables import prepare_folder
from needreplay.sweeps.engines.base import Ended, Engine
from needreplay.sweeps.file import Sweep
from needreplay.sweeps.folder import SweepFolder
from needreplay.sweeps.spec import RunSpec

ATTEMPTS = 3
"""How often a run is started whose process or machine is lost."""
_POLL = 0.5


@dataclass(frozen=True)
class Failure:
    """A run that did not end well."""

    spec: RunSpec
    lines: tuple[str, ...]
    attempts: int
    lost: bool
    """whether its process or machine was lost; otherwise it raised"""

    @property
    def cause(self) -> str:
        """The line that says why: the first of a lost process's, the last of a traceback."""
        return self.lines[0 if self.lost else -1]


@dataclass
class State:
    """Where a sweep stands, for whoever watches."""

    folder: SweepFolder
    total: int
    kept: list[RunSpec] = field(default_factory=list)
    """complete before this call"""
    done: list[RunSpec] = field(default_factory=list)
    running: dict[str, RunSpec] = field(default_factory=dict)
    waiting: deque[RunSpec] = field(default_factory=deque)
    failures: list[Failure] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """names of runs that were started again, once for each time"""


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended."""

    kept: tuple[str, ...]
    done: tuple[str, ...]
    failures: tuple[Failure, ...]
    retried: tuple[str, ...]


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    engine: Callable[[Path], Engine],
    *,
    argv: Sequence[str] = ("needreplay", "sweep"),
    only: Collection[str] = (),
    watch: Callable[[State], None] | None = None,
) -> SweepResult:
    """Run what is not complete in ``out``; a second sweep there at the same time is refused.

    A run that raises is not started again: it would raise again. One that is lost with its
    process or machine is, up to ``ATTEMPTS`` times in all. Neither stops the others.

    Args:
        sweep: what to run.
        out: the sweep's folder.
        engine: makes the engine, given the folder.
        argv: the command line of the whole sweep, for the record; none: no command runs one of
            these runs alone.
        only: names of the runs to do; none: all.
        watch: told the state a few times a second; what it raises ends the sweep.
    """
    folder = SweepFolder(prepare_folder(out))
    busy = (
        f"Another sweep works in {str(out)!r} ({{holder}}); wait for it, or choose another --out."
    )
    with locked(folder.lock, busy):
        chosen = [spec for spec in sweep.runs if not only or spec.name in only]
        folder.prepare(sweep, argv, chosen)
        state = State(folder, len(chosen))
        for spec in chosen:
            (state.kept if folder.is_done(spec.name) else state.waiting).append(spec)
        if state.waiting:
            _run_all(state, engine(folder.path), watch or _unwatched)
    return SweepResult(
        kept=tuple(spec.name for spec in state.kept),
        done=tuple(spec.name for spec in state.done),
        failures=tuple(state.failures),
        retried=tuple(state.lost),
    )


def _run_all(state: State, engine: Engine, watch: Callable[[State], None]) -> None:
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
        raise KeyboardInterrupt(
            f"stopped; {complete} of {state.total} runs are complete and kept in "
            f"{state.folder.path}. The same command goes on."
        ) from stop
    finally:
        engine.close()


def _settle(state: State, ended: Ended, attempts: int) -> None:
    """Put a run where it belongs; its folder has the last word on whether it is complete."""
    spec = state.running.pop(ended.name)
    if state.folder.is_done(spec.name):
        state.done.append(spec)
    elif ended.how == "lost" and attempts < ATTEMPTS:
        state.lost.append(spec.name)
        state.waiting.appendleft(spec)
    else:
        lines = ended.lines or ("It ended without a mark of completion.",)
        state.failures.append(Failure(spec, lines, attempts, ended.how == "lost"))
        state.folder.write_failure(spec.name, lines, attempts)


def _unwatched(state: State) -> None:
    """Nobody watches."""
