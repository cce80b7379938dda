"""How studies run: everything is a run of a sweep, so that what is done is kept after a stop.

Trials are cut into chunks by the work that they are, not by the number of workers: a chunk's folder
is named by what it holds, and the same command finds it again on any number of cores.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from needreplay.core.errors import NeedReplayError
from needreplay.core.progress import Bar, Progress
from needreplay.core.source import source_digest
from needreplay.core.tables import Table, joined, read_table
from needreplay.studies.base import Request
from needreplay.sweeps import RunSpec, Sweep, run_sweep
from needreplay.sweeps import chunk as chunks
from needreplay.sweeps.engines.local import LocalEngine
from needreplay.sweeps.folder import SweepFolder
from needreplay.sweeps.loop import State
from needreplay.sweeps.table import units_of

WORTH_TWO = 4.0
"""Seconds of work below which a second process costs more than it saves."""
LEAST, MOST = 10.0, 40.0
"""Seconds that a chunk takes, where there is enough work: more of it, longer chunks."""
_ENOUGH = 16
"""Chunks that keep the cores of most machines busy."""


class Experiment(NamedTuple):
    """Trials of one config."""

    kind: str
    """of run: one that is made of trials"""
    config: dict[str, Any]
    """without ``trials`` and ``first_trial``"""
    trials: int
    seconds: float
    """about how long one trial takes; a wrong guess makes uneven chunks, nothing else"""


class Part(NamedTuple):
    """Some of an experiment's trials."""

    experiment: int
    first: int
    trials: int


def run_experiments(
    experiments: Sequence[Experiment], request: Request, progress: Progress, title: str
) -> list[Table]:
    """The rows of every experiment's trials, in order.

    The experiments must be of one kind. The column ``part`` of their rows means nothing here.
    """
    cut = cut_into_chunks(experiments)
    specs = [_spec(experiments, parts) for parts in cut]
    total = sum(experiment.trials for experiment in experiments)
    with runs_folder(request) as folder, progress.task(title, total=total) as bar:
        tables = run_specs(specs, folder, request.workers, bar, name=title)
        for spec, table in zip(specs, tables, strict=True):
            _check_whole(spec, table, SweepFolder(folder).of(spec.name))
    found: dict[int, list[tuple[int, Table]]] = {}
    for parts, table in zip(cut, tables, strict=True):
        for number, part in enumerate(parts):
            rows = table["part"] == number
            own = Table({name: table[name][rows] for name in table.names})
            found.setdefault(part.experiment, []).append((part.first, own))
    return [_joined(found[number]) for number in range(len(experiments))]


def _check_whole(spec: RunSpec, table: Table, folder: Path) -> None:
    """Refuse a complete run whose rows are not all there: somebody changed its file."""
    trials = chunks.trials_of(dict(spec.config))
    if len(table) != len(trials.cases) * trials.rows_a_case:
        raise NeedReplayError(
            f"{str(folder)!r} is complete but lacks rows of its trials; remove that folder and "
            "give the same command again."
        )


def _joined(pieces: list[tuple[int, Table]]) -> Table:
    ordered = sorted(pieces, key=lambda piece: piece[0])
    return joined([{name: table[name] for name in table.names} for _, table in ordered])


def _spec(experiments: Sequence[Experiment], parts: Sequence[Part]) -> RunSpec:
    configs = [
        {**experiments[part.experiment].config, "first_trial": part.first, "trials": part.trials}
        for part in parts
    ]
    kind = experiments[parts[0].experiment].kind
    return RunSpec("chunk", chunks.complete({"of": kind, "parts": configs}))


def cut_into_chunks(experiments: Sequence[Experiment]) -> list[list[Part]]:
    """All trials, cut into chunks of about equal work; the longest trials come first.

    So no core waits for one that began late.
    """
    order = sorted(range(len(experiments)), key=lambda number: -experiments[number].seconds)
    total = sum(experiment.trials * experiment.seconds for experiment in experiments)
    share = total / how_many_chunks(total)
    before = 0.0
    placed: list[tuple[int, int, int]] = []
    for number in order:
        for trial in range(experiments[number].trials):
            placed.append((int(before / share), number, trial))
            before += experiments[number].seconds
    return [
        [_part(list(trials)) for _, trials in groupby(inside, key=lambda place: place[1])]
        for _, inside in groupby(placed, key=lambda place: place[0])
    ]


def _part(trials: Sequence[tuple[int, int, int]]) -> Part:
    _, experiment, first = trials[0]
    return Part(experiment, first, len(trials))


def how_many_chunks(seconds: float) -> int:
    """Into how many pieces so much work is cut.

    >>> [how_many_chunks(seconds) for seconds in (1, 8, 60, 160, 320, 3200)]
    [1, 2, 6, 16, 16, 80]
    """
    length = min(max(seconds / _ENOUGH, LEAST), MOST)
    return max(2 if seconds >= WORTH_TWO else 1, math.ceil(seconds / length))


@contextmanager
def runs_folder(request: Request) -> Iterator[Path]:
    """The request's folder for runs; where it has none, one that goes when they are done."""
    if request.runs_folder is not None:
        yield request.runs_folder
        return
    with tempfile.TemporaryDirectory(prefix="needreplay-") as scratch:
        try:
            yield Path(scratch)
        except KeyboardInterrupt:
            # The sweep's own message says that what is done is kept, which is not so here.
            raise KeyboardInterrupt from None


def run_specs(
    specs: Sequence[RunSpec], folder: Path, workers: int, bar: Bar, *, name: str
) -> list[Table]:
    """The metrics of every run, in order; runs that are complete in ``folder`` are not run again.

    The first that fails ends them all, with a sentence; the same call goes on from there.
    """
    moved = 0.0

    def watch(state: State) -> None:
        nonlocal moved
        if state.failures:
            failed = state.failures[0]
            raise NeedReplayError(
                f"the run {failed.spec.name} ({failed.spec.label}) failed: {failed.cause}"
            )
        done = sum(units_of(spec) for spec in [*state.kept, *state.done])
        done += sum(state.folder.progress(name)[0] for name in state.running)
        bar.advance(done - moved)
        moved = done

    sweep = Sweep(name, "", tuple(specs))

    def engine(_: Path) -> LocalEngine:
        return LocalEngine(workers, source=source_digest())

    run_sweep(sweep, folder, engine, argv=(), watch=watch)
    return [read_table(SweepFolder(folder).of(spec.name) / "metrics.csv") for spec in specs]
