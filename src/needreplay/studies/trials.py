"""Map a function over trials on a pool of processes; finished chunks are cached on disk.

A study calls ``runner.run(function, cases, trials)``. Trials are cut into chunks by their expected
time, not by the number of workers, so a stopped study resumes with any number of workers, and the
results are the same for all of them.
"""

from __future__ import annotations

import io
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.processes import deaf_children, watch_parent
from needreplay.core.progress import Bar, Progress
from needreplay.core.tables import prepare_folder, write_bytes
from needreplay.core.types import AnyArray

Columns: TypeAlias = dict[str, AnyArray]
TrialFunction: TypeAlias = Callable[[Any, int], Mapping[str, npt.ArrayLike]]

CHUNK_SECONDS = 5.0
_DEATHS = 3
_POLL_SECONDS = 0.2
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "TORCH")}


@dataclass(frozen=True)
class TrialRunner:
    """Runs a study's trials.

    Args:
        pool: the processes.
        cache: the folder for finished chunks; it must belong to one source and one set of options.
    """

    pool: WorkerPool
    cache: Path

    def run(
        self,
        function: TrialFunction,
        cases: Sequence[Any],
        trials: int | Sequence[int],
        *,
        label: str,
        seconds: float | Sequence[float] = 0.01,
    ) -> list[Columns]:
        """Run ``function(case, trial)`` for trials 0, 1, ... of every case.

        Returns for each case the columns that the function returned, stacked: [trial, ...].

        Args:
            function: a module's function; it returns numbers or arrays (or text) by name, of the
                same shape for every trial of a case.
            cases: what is compared; anything that can be pickled.
            trials: how many of each case, or of all.
            label: the name of this step, unique within the study.
            seconds: about how long a trial takes; a wrong guess makes uneven chunks, nothing else.
        """
        counts, times = _each(trials, len(cases)), _each(seconds, len(cases))
        chunks = [
            (number, first, min(size, count - first))
            for number, (count, each) in enumerate(zip(counts, times, strict=True))
            for size in [max(1, int(CHUNK_SECONDS / each))]
            for first in range(0, int(count), size)
        ]
        prepare_folder(self.cache)
        paths = [
            self.cache / f"{_plain(label)}-{number}-{first}.npz" for number, first, _ in chunks
        ]
        found = [_read(path, chunk[2]) for path, chunk in zip(paths, chunks, strict=True)]
        todo = [place for place, columns in enumerate(found) if columns is None]
        ran = self.pool.map(
            _run_chunk,
            [
                (function, cases[chunks[i][0]], chunks[i][1:], times[chunks[i][0]], paths[i])
                for i in todo
            ],
            label=label,
            work=[chunks[i][2] * times[chunks[i][0]] for i in todo],
        )
        for place, columns in zip(todo, ran, strict=True):
            found[place] = columns
        parts: list[list[Columns]] = [[] for _ in cases]
        for (number, _, _), columns in zip(chunks, found, strict=True):
            assert columns is not None
            parts[number].append(columns)
        return [{name: np.concatenate([p[name] for p in own]) for name in own[0]} for own in parts]


def _each(value: float | Sequence[float], count: int) -> list[Any]:
    return [value] * count if isinstance(value, int | float) else list(value)


def _plain(label: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in label)


def _read(path: Path, trials: int) -> Columns | None:
    """The columns of a finished chunk; a missing or damaged one is run again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            columns = dict(arrays)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None
    complete = bool(columns) and all(len(column) == trials for column in columns.values())
    return columns if complete else None


def _run_chunk(
    function: TrialFunction, case: Any, trials: tuple[int, int], seconds: float, path: Path
) -> Columns:
    """In a worker: run some trials of one case and cache their columns."""
    first, count = trials
    rows: list[Mapping[str, npt.ArrayLike]] = []
    for trial in range(first, first + count):
        advance(seconds if rows else 0.0)
        rows.append(function(case, trial))
    columns = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **columns)
    write_bytes(path, file.getvalue())
    advance(seconds)
    return columns


_work_done: Any = None


def advance(work: float) -> None:
    """In a worker: move the progress bar by ``work``."""
    if _work_done is not None:
        with _work_done.get_lock():
            _work_done.value += work


def _start_worker(work_done: Any) -> None:
    global _work_done
    _work_done = work_done
    watch_parent()


class WorkerPool:
    """Processes of one thread each, started when they are first needed and used by all studies.

    A program that uses it needs ``if __name__ == "__main__":``, as every use of ``spawn`` does.
    """

    def __init__(self, workers: int, progress: Progress | None = None) -> None:
        self._workers = workers
        self._progress = progress or Progress()
        self._print_steps = progress is None and not sys.stderr.isatty()
        self._executor: ProcessPoolExecutor | None = None
        self._processes: set[Any] = set()
        self._work_done: Any = None

    def map(
        self,
        function: Callable[..., Any],
        jobs: Sequence[tuple[Any, ...]],
        *,
        label: str,
        work: Sequence[float],
    ) -> list[Any]:
        """``function(*job)`` for each job, in order; the jobs with the most ``work`` start first.

        If a worker process dies, all unfinished jobs start again; after three deaths this fails.
        """
        results: dict[int, Any] = {}
        began = time.perf_counter()
        order = sorted(range(len(jobs)), key=lambda number: -work[number])
        with self._progress.task(label, total=math.fsum(work)) as bar:
            for deaths in range(1, _DEATHS + 1):
                todo = {number: jobs[number] for number in order if number not in results}
                try:
                    self._try(function, todo, results, bar)
                    break
                except BrokenProcessPool as error:
                    said = f"{label}: a worker process died (killed, or out of memory)"
                    if deaths == _DEATHS:
                        raise NeedReplayError(
                            f"{said}, {_DEATHS} times. Finished trials are cached: give the same "
                            "command again, with fewer --workers if memory was short."
                        ) from error
                    print(f"needreplay: {said}; its trials start again.", file=sys.stderr)
        if self._print_steps:
            seconds = time.perf_counter() - began
            print(f"{label}: trials finished, {seconds:.1f} s", file=sys.stderr, flush=True)
        return [results[number] for number in range(len(jobs))]

    def _try(
        self,
        function: Callable[..., Any],
        todo: Mapping[int, tuple[Any, ...]],
        results: dict[int, Any],
        bar: Bar,
    ) -> None:
        """Fill in ``results``; whatever stops this (an error, a death, Ctrl-C) ends all workers."""
        if not todo:
            return
        try:
            with deaf_children(), _one_thread():
                if self._executor is None:
                    context = get_context("spawn")
                    self._work_done = context.Value("d", 0.0)
                    self._executor = ProcessPoolExecutor(
                        self._workers, context, _start_worker, (self._work_done,)
                    )
                self._work_done.value = 0.0
                others = set(active_children()) - self._processes
                numbers = {self._executor.submit(function, *todo[n]): n for n in todo}
                self._processes = set(active_children()) - others
            waiting, shown = set(numbers), 0.0
            while waiting:
                ended, waiting = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    results[numbers[future]] = future.result()
                # Without the lock: a worker that died may hold it.
                done = self._work_done.get_obj().value
                bar.advance(done - shown)
                shown = done
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every worker now, whatever it is doing; files are written atomically."""
        if self._executor is None:
            return
        executor, self._executor = self._executor, None
        executor.shutdown(wait=False, cancel_futures=True)
        processes, self._processes = self._processes, set()
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


@contextmanager
def trial_runner(workers: int = 1) -> Iterator[TrialRunner]:
    """A runner of its own, without progress bars and with a temporary cache."""
    pool = WorkerPool(workers, Progress(visible=False))
    with tempfile.TemporaryDirectory(prefix="needreplay-") as folder, closing(pool):
        yield TrialRunner(pool, Path(folder))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started inside use one thread each, so results do not depend on the machine."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
