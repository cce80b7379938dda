"""Many jobs on all cores, with results that do not depend on how many cores there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from needreplay.errors import NeedReplayError
from needreplay.runs.engines.pool import Pool
from needreplay.runs.progress import Bar

Job = TypeVar("Job")
Result = TypeVar("Result")

# Workers stay for the next call: a fresh one costs a second of imports and of loading kernels.
_pools: dict[int, Pool] = {}


def run_many(
    task: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int,
    progress: Bar | None = None,
) -> list[Result]:
    """``[task(job) for job in jobs]``, by ``workers`` processes.

    The first job that fails ends the call with its own exception; the others are stopped. A
    script that calls this with more than one worker needs ``if __name__ == "__main__":``. It is
    not meant to be called from two threads at once.

    Args:
        task: a function at the top of a module (processes find it by name).
        jobs: what the task is called with; each says its own seed or stream.
        workers: how many processes; 1 stays in this one.
        progress: a bar that moves on by 1 with every job done.
    """
    if workers < 1:
        raise NeedReplayError(f"workers must be at least 1, not {workers}.")
    bar = progress or Bar()
    if workers == 1 or len(jobs) < 2:
        results = []
        for job in jobs:
            results.append(task(job))
            bar.advance()
        return results
    try:
        return _in_processes(task, jobs, workers, bar)
    except BaseException:
        stop_workers()
        raise


def _in_processes(
    task: Callable[[Job], Result], jobs: Sequence[Job], workers: int, bar: Bar
) -> list[Result]:
    pool = _pools.setdefault(workers, Pool(workers))
    found: dict[int, Result] = {}
    waiting = iter(enumerate(jobs))
    while len(found) < len(jobs):
        while pool.free and (numbered := next(waiting, None)) is not None:
            pool.start(numbered[0], task, numbered[1])
        for outcome in pool.wait():
            if outcome.exit_code is not None:
                raise NeedReplayError(
                    "A worker process died (out of memory, or killed from outside, or a script "
                    'without if __name__ == "__main__":); try again with fewer workers.'
                )
            if outcome.error is not None:
                raise outcome.error
            assert isinstance(outcome.key, int)
            found[outcome.key] = outcome.value
            bar.advance()
    return [found[number] for number in range(len(jobs))]


def stop_workers() -> None:
    """End every worker process at once, whatever it is doing."""
    while _pools:
        _, pool = _pools.popitem()
        pool.close()
