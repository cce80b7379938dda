"""Many jobs on all cores, with results that do not depend on how many cores there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from typing import TypeVar

from needreplay.errors import NeedReplayError
from needreplay.runs.processes import deaf_children, watch_parent
from needreplay.runs.progress import Bar

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass
class _Pool:
    executor: ProcessPoolExecutor
    children: set[BaseProcess] = field(default_factory=set)


# Workers stay for the next call: a fresh one costs a second of imports and of loading kernels.
_pools: dict[int, _Pool] = {}


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
    except BrokenProcessPool as error:
        stop_workers()
        raise NeedReplayError(
            "A worker process died (out of memory, or killed from outside, or a script without "
            'if __name__ == "__main__":); try again with fewer workers.'
        ) from error
    except BaseException:
        stop_workers()
        raise


def _in_processes(
    task: Callable[[Job], Result], jobs: Sequence[Job], workers: int, bar: Bar
) -> list[Result]:
    pool = _pools.get(workers)
    if pool is None:
        pool = _Pool(ProcessPoolExecutor(workers, get_context("spawn"), watch_parent))
        _pools[workers] = pool
    others = set(active_children())
    try:
        with deaf_children():
            futures = [pool.executor.submit(task, job) for job in jobs]
    finally:
        pool.children |= set(active_children()) - others
    for future in as_completed(futures):
        future.result()
        bar.advance()
    return [future.result() for future in futures]


def stop_workers() -> None:
    """End every worker process at once, whatever it is doing."""
    while _pools:
        _, pool = _pools.popitem()
        for child in pool.children:
            child.terminate()
        pool.executor.shutdown(wait=True, cancel_futures=True)
