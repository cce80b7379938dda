"""Map a function over trials on a pool of processes; finished chunks are cached on disk.

A study calls ``runner.run(function, cases, trials)``. Trials are cut into chunks by their expected
time, not by the number of workers: a stopped study resumes with any number of workers, and the
results are the same for all of them.
"""

from __future__ import annotations

import io
import math
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
from typing import Any, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from needlab.core.processes import starting_workers, watch_parent
from needlab.core.progress import Bar, Progress
from needlab.core.tables import prepare_folder, write_bytes
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray

C = TypeVar("C")
Columns: TypeAlias = dict[str, AnyArray]
TrialFunction: TypeAlias = Callable[[Any, int], Mapping[str, npt.ArrayLike]]

CHUNK_SECONDS = 5.0
_DEATHS = 3
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class _Chunk:
    """Some trials of one case, and the file that caches their columns."""

    function: TrialFunction
    case: Any
    first: int
    trials: int
    seconds: float
    path: Path

    def read(self) -> Columns | None:
        """The columns of a finished chunk; a missing or damaged one is run again."""
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                columns = dict(arrays)
        except (OSError, ValueError, EOFError, BadZipFile):
            return None
        complete = columns and all(len(column) == self.trials for column in columns.values())
        return columns if complete else None

    def run(self) -> Columns:
        """In a worker: run the trials and cache their columns."""
        rows: list[Mapping[str, npt.ArrayLike]] = []
        for trial in range(self.first, self.first + self.trials):
            advance(self.seconds if rows else 0.0)
            rows.append(self.function(self.case, trial))
        columns = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **columns)
        write_bytes(self.path, file.getvalue())
        advance(self.seconds)
        return columns


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
            seconds: about how long a trial takes; a wrong guess makes uneven chunks and, at
                first, a wrong time to finish; nothing else.
        """
        if len(set(cases)) < len(cases):
            raise NeedReplayError(f"{label} has a case twice; each must be different.")
        prepare_folder(self.cache)
        stem = "".join(letter if letter.isalnum() else "-" for letter in label)
        chunks: list[list[_Chunk]] = []
        for number, (case, count, each) in enumerate(
            zip(cases, _each(trials, cases), _each(seconds, cases), strict=True)
        ):
            size = max(1, int(CHUNK_SECONDS / each))
            own = [
                _Chunk(function, case, first, min(size, count - first), each, self.cache / name)
                for first in range(0, count, size)
                for name in [f"{stem}-{number}-{first}.npz"]
            ]
            chunks.append(own)
        found = {chunk.path: chunk.read() for own in chunks for chunk in own}
        todo = [chunk for own in chunks for chunk in own if found[chunk.path] is None]
        work = [chunk.trials * chunk.seconds for chunk in todo]
        columns = self.pool.map(_Chunk.run, [(chunk,) for chunk in todo], label=label, work=work)
        found.update(zip([chunk.path for chunk in todo], columns, strict=True))
        stacked = (_stacked([found[chunk.path] for chunk in own]) for own in chunks)
        return dict(zip(cases, stacked, strict=True))


def _each(value: Any, cases: Sequence[Any]) -> Sequence[Any]:
    return [value] * len(cases) if isinstance(value, int | float) else value


def _stacked(parts: Sequence[Any]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
        speed = float(min(self._workers, max(1, len(jobs))))
        with self._progress.task(label, total=math.fsum(work), speed=speed) as bar:
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
            with starting_workers():
                if self._executor is None:
                    context = get_context("spawn")
                    self._work_done = context.Value("d", 0.0)
                    self._executor = ProcessPoolExecutor(
                        self._workers, context, _start_worker, (self._work_done,)
                    )
                shown = self._work_done.value
                others = set(active_children()) - self._processes
                numbers = {self._executor.submit(function, *todo[n]): n for n in todo}
                self._processes = set(active_children()) - others
            waiting = set(numbers)
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
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._executor, self._processes = None, set()


@contextmanager
def trial_runner(workers: int = 1) -> Iterator[TrialRunner]:
    """A runner of its own, without progress bars and with a temporary cache."""
    pool = WorkerPool(workers, Progress(visible=False))
    with tempfile.TemporaryDirectory(prefix="needreplay-") as folder, closing(pool):
        yield TrialRunner(pool, Path(folder))
