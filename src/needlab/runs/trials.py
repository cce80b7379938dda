"""Run a study's trials, and its training runs; what is finished is cached on disk.

A study calls ``runner.run(function, cases, trials)``. Trials are cut into chunks by their expected
time, not by the number of workers: a stopped study resumes with any number of workers, and the
results are the same for all of them. ``runner.files`` is for long runs that write a file each.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from needlab.core.tables import prepare_folder, write_bytes
from needlab.runs.display import Display
from needlab.runs.local import LocalEngine
from needlab.runs.runner import ATTEMPTS, Engine, Item, OnUnits, RunState, run_items
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray

C = TypeVar("C")
Columns: TypeAlias = dict[str, AnyArray]
TrialFunction: TypeAlias = Callable[[Any, int], Mapping[str, npt.ArrayLike]]

CHUNK_SECONDS = 5.0


class _Chunk(NamedTuple):
    """Some trials of one case."""

    function: TrialFunction
    case: Any
    first: int
    trials: int
    seconds: float


def _read_chunk(path: Path, trials: int) -> Columns | None:
    """The columns of a finished chunk; a missing or damaged one is run again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            columns = dict(arrays)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None
    complete = columns and all(len(column) == trials for column in columns.values())
    return columns if complete else None


def _run_chunk(chunk: _Chunk, path: Path, on_units: OnUnits) -> None:
    rows: list[Mapping[str, npt.ArrayLike]] = []
    for number in range(chunk.trials):
        rows.append(chunk.function(chunk.case, chunk.first + number))
        on_units((number + 1) * chunk.seconds)
    columns = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **columns)
    write_bytes(path, file.getvalue())


@dataclass(frozen=True)
class TrialRunner:
    """Runs a study's trials.

    Args:
        engine: where they run.
        cache: the folder for what is finished; it must belong to one source and one set of options.
        display: where progress is shown.
    """

    engine: Engine
    cache: Path
    display: Display = field(default_factory=Display)

    def run(
        self,
        function: TrialFunction,
        cases: Sequence[C],
        trials: int | Sequence[int],
        *,
        label: str,
        seconds: float | Sequence[float] = 0.01,
    ) -> dict[C, Columns]:
        """Run ``function(case, trial)`` for trials 0, 1, ... of every case.

        Returns by case the columns that the function returned, stacked: [trial, ...].

        Args:
            function: a module's function; it returns numbers, arrays or text by name, of the same
                shape for every trial of a case.
            cases: what is compared; anything that can be pickled and hashed.
            trials: how many of each case, or of all.
            label: the name of this step, unique within the study.
            seconds: about how long a trial takes; a wrong guess makes uneven chunks, nothing else.
        """
        if len(set(cases)) < len(cases):
            raise NeedReplayError(f"{label} has a case twice; each must be different.")
        stem = "".join(letter if letter.isalnum() else "-" for letter in label)
        chunks: dict[C, list[Item]] = {case: [] for case in cases}
        for number, (case, count, each) in enumerate(
            zip(cases, _each(trials, cases), _each(seconds, cases), strict=True)
        ):
            size = max(1, int(CHUNK_SECONDS / each))
            for first in range(0, count, size):
                chunk = _Chunk(function, case, first, min(size, count - first), each)
                path = self.cache / f"{stem}-{number}-{first}.npz"
                if _read_chunk(path, chunk.trials) is None:
                    path.unlink(missing_ok=True)
                item = Item(path.stem, _run_chunk, chunk, path, chunk.trials * each)
                chunks[case].append(item)
        self._run([item for own in chunks.values() for item in own], label, expected=1.0)
        return {
            case: _stacked([_read_chunk(item.path, item.what.trials) for item in own])
            for case, own in chunks.items()
        }

    def files(
        self,
        function: Callable[[Any, Path, OnUnits], None],
        cases: Mapping[str, Any],
        *,
        label: str,
        seconds: float,
    ) -> list[Path]:
        """Call ``function(case, path, on_units)`` for each case whose file is not in the cache.

        Returns the paths, in order.

        Args:
            function: a module's function; it calls ``on_units`` with the share that is done, may
                resume from what it finds beside ``path``, and writes ``path`` last, atomically.
            cases: by the name of their file.
            label: the name of this step.
            seconds: about how long one of them takes.
        """
        items = [
            Item(name, function, case, self.cache / name, label=Path(name).stem.replace("-", " "))
            for name, case in cases.items()
        ]
        self._run(items, label, expected=1.0 / seconds)
        return [item.path for item in items]

    def _run(self, items: Sequence[Item], label: str, expected: float) -> None:
        prepare_folder(self.cache)
        began = time.perf_counter()
        # The longest first; equal ones keep their order.
        state = RunState.of(sorted(items, key=lambda item: -item.units))
        with self.display.showing(label, self.engine.slots, expected) as show:

            def watch(state: RunState) -> None:
                show(state)
                _raise_failure(state, label)

            run_items(state, self.engine, watch)
        if self.display.prints_lines:
            spent = time.perf_counter() - began
            print(f"{label}: trials finished, {spent:.1f} s", file=sys.stderr, flush=True)


def _raise_failure(state: RunState, label: str) -> None:
    for failure in state.failures:
        if failure.lost:
            raise NeedReplayError(
                f"{label}: a worker process died (killed, or out of memory), {ATTEMPTS} times. "
                "Finished trials are cached: give the same command again, with fewer --workers if "
                "memory was short."
            )
        if len(failure.lines) == 1:
            raise NeedReplayError(failure.lines[0])
        raise RuntimeError("\n".join(failure.lines))


def _each(value: Any, cases: Sequence[Any]) -> Sequence[Any]:
    return [value] * len(cases) if isinstance(value, int | float) else value


def _stacked(parts: Sequence[Any]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@contextmanager
def trial_runner(workers: int = 1) -> Iterator[TrialRunner]:
    """A runner of its own, without a display and with a temporary cache."""
    with (
        tempfile.TemporaryDirectory(prefix="needreplay-") as folder,
        closing(LocalEngine(workers, reuse=True)) as engine,
    ):
        yield TrialRunner(engine, Path(folder), Display(visible=False))
