"""Many jobs: order, failures, and processes that never stay behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from needreplay.errors import NeedReplayError
from needreplay.runs.many import run_many, stop_workers
from needreplay.runs.progress import Bar


@pytest.fixture(autouse=True)
def _helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "fakes"))
    yield
    stop_workers()


class Counter(Bar):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0.0

    def advance(self, amount: float = 1) -> None:
        self.total += amount


@pytest.mark.parametrize("workers", [1, 2])
def test_results_stand_in_the_order_of_jobs(workers: int) -> None:
    from fake_tasks import slow_if_early

    bar = Counter()
    assert run_many(slow_if_early, range(5), workers=workers, progress=bar) == [0, 1, 4, 9, 16]
    assert bar.total == 5


def test_two_workers_are_two_other_processes_that_stay() -> None:
    from fake_tasks import process_id

    first = set(run_many(process_id, range(6), workers=2))
    second = set(run_many(process_id, range(6), workers=2))
    assert os.getpid() not in first
    assert len(first | second) <= 2
    stop_workers()
    assert multiprocessing.active_children() == []


def test_one_worker_is_this_process() -> None:
    from fake_tasks import process_id

    assert run_many(process_id, [0, 1], workers=1) == [os.getpid()] * 2


def test_no_jobs_no_results() -> None:
    assert run_many(str, [], workers=3) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_job_raises_with_its_own_message(workers: int) -> None:
    from fake_tasks import fail_at_three

    with pytest.raises(NeedReplayError, match="job 3 has no goal"):
        run_many(fail_at_three, range(5), workers=workers)
    assert multiprocessing.active_children() == []
    assert run_many(fail_at_three, [0, 1], workers=workers) == [0, 1]


def test_stopping_workers_spares_other_children() -> None:
    from fake_tasks import process_id, sleep

    other = multiprocessing.get_context("spawn").Process(target=sleep)
    other.start()
    try:
        run_many(process_id, range(2), workers=2)
        stop_workers()
        assert other.is_alive()
    finally:
        other.terminate()
        other.join()


def test_a_worker_that_dies_is_said() -> None:
    from fake_tasks import die

    with pytest.raises(NeedReplayError, match="A worker process died"):
        run_many(die, range(3), workers=2)


def test_fewer_than_one_worker_is_refused() -> None:
    with pytest.raises(NeedReplayError, match="workers must be at least 1, not 0"):
        run_many(str, [1], workers=0)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("busy", signal.SIGINT),
        ("idle", signal.SIGINT),
        ("busy", signal.SIGTERM),
        ("busy", signal.SIGKILL),
    ],
)
def test_workers_end_with_the_process_that_started_them(
    fakes_folder: Path, tmp_path: Path, what: str, how: signal.Signals
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "fake_tasks.py", str(tmp_path), what],
        cwd=fakes_folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C and hands that on; these tests send it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    workers = _wait_for_files(tmp_path, 2)
    if what == "idle":
        time.sleep(2)
    if how == signal.SIGINT:
        # Ctrl-C in a terminal reaches every process of the group.
        os.killpg(parent.pid, how)
    else:
        parent.send_signal(how)
    _, said = parent.communicate(timeout=30)
    assert said.count("Traceback") <= (how == signal.SIGINT)
    assert "SpawnProcess" not in said
    deadline = time.monotonic() + 30
    while any(_is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.05)


def _wait_for_files(folder: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 60
    while len(names := [path.name for path in folder.iterdir()]) < count:
        assert time.monotonic() < deadline, "the workers do not start"
        time.sleep(0.05)
    return [int(name) for name in names]


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    # An orphan that nobody has fetched yet (a container without an init) is over all the same.
    return state != "Z"
