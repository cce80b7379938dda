"""Worker processes: results, errors and deaths are distinguished, and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from needlab.runs import RunSpec
from needlab.runs.cluster import _cpus
from needlab.runs.local import LOG, LocalEngine
from needlab.runs.runner import Ended, Item
from needlab.runs.stopping import Stopped, sigterm_stops
from needlab.runs.sweep_run import execute
from needreplay._core.errors import NeedReplayError

Finish = Callable[..., Ended]


def item(spec: RunSpec, folder: Path) -> Item:
    return Item(spec.name, execute, spec, folder / "done.json", owns_folder=True)


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    found = LocalEngine(2)
    yield found
    found.close()


@pytest.fixture
def finish(engine: LocalEngine, tmp_path: Path) -> Finish:
    """Run one fake to its end, in the folder named like it."""

    def run(task: str, **config: str) -> Ended:
        engine.start(item(RunSpec(f"fake_tasks:{task}", config), tmp_path / task))
        (ended,) = engine.wait(120)
        return ended

    return run


def test_results_errors_and_deaths(engine: LocalEngine, finish: Finish, tmp_path: Path) -> None:
    assert engine.wait(0) == []
    before = os.environ.get("OMP_NUM_THREADS")
    assert finish("environment").how == "done"
    assert os.environ.get("OMP_NUM_THREADS") == before
    process, threads, deaf = (tmp_path / "environment" / "seen.txt").read_text().split()
    assert (threads, deaf) == ("1", "True")
    assert int(process) != os.getpid()
    failed = finish("fail")
    assert (failed.how, failed.lines[-1]) == ("raised", "ValueError: the maze has no goal")
    assert "Traceback" in failed.lines[0]
    assert finish("die").lines == ("Its process ended with exit code 1.",)
    with pytest.raises(NeedReplayError, match="workers must be at least 1, not 0"):
        LocalEngine(0)


def test_a_process_that_does_not_exit_is_killed(
    finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python waits for a run's threads; the engine waits a little, not forever."""
    monkeypatch.setattr("needlab.runs.local._SECONDS_TO_EXIT", 0.2)
    assert finish("finish_and_stay", path=str(tmp_path / "a")).how == "done"
    lost = finish("hang_up_and_stay", path=str(tmp_path / "b"))
    assert (lost.how, lost.lines[0]) == ("lost", "Its process ended with signal 9.")
    assert multiprocessing.active_children() == []
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_close_ends_its_own_processes_only(engine: LocalEngine, tmp_path: Path) -> None:
    from fake_tasks import sleep

    other = multiprocessing.get_context("spawn").Process(target=sleep)
    other.start()
    try:
        for seed in range(2):
            spec = RunSpec("fake_tasks:begin_and_sleep", {"path": str(tmp_path), "seed": seed})
            engine.start(item(spec, tmp_path / spec.name))
        engine.close()
        assert multiprocessing.active_children() == [other]
        assert other.is_alive()
        assert engine.wait(0) == []
    finally:
        other.terminate()
        other.join()


def test_a_run_that_is_stopped_may_save_a_checkpoint(engine: LocalEngine, tmp_path: Path) -> None:
    """As training does; tests/training/test_stopping.py is about that."""
    folder, started = tmp_path / "run", tmp_path / "started"
    started.mkdir()
    engine.start(item(RunSpec("fake_tasks:save_when_stopped", {"path": str(started)}), folder))
    (process,) = _wait_for_files(started, 1)
    engine.close()
    assert (folder / "checkpoint").read_text() == "saved"
    assert "Traceback" not in (folder / LOG).read_text()
    assert not _is_alive(process)


def test_a_signal_while_a_worker_starts_leaves_none(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = SpawnProcess.start

    def start_and_hear(process: SpawnProcess) -> None:
        start(process)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(SpawnProcess, "start", start_and_hear)
    with sigterm_stops(), pytest.raises(Stopped):
        engine.start(item(RunSpec("fake_tasks:environment", {}), tmp_path / "run"))
    assert len(multiprocessing.active_children()) == 1
    engine.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(
    fakes_folder: Path, tmp_path: Path, how: signal.Signals
) -> None:
    started = tmp_path / "started"
    started.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "fake_tasks.py", str(started), str(tmp_path / "runs")],
        cwd=fakes_folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C and hands that on; these tests send it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    workers = _wait_for_files(started, 2)
    if how == signal.SIGINT:
        # Ctrl-C in a terminal reaches every process of the group.
        os.killpg(parent.pid, how)
    else:
        parent.send_signal(how)
    _, said = parent.communicate(timeout=120)
    assert said.count("Traceback") <= (how == signal.SIGINT)
    assert "SpawnProcess" not in said
    deadline = time.monotonic() + 120
    while any(_is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.05)


def _wait_for_files(folder: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 120
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


@pytest.mark.parametrize(
    ("workers", "each", "cpus"),
    [(1, 1.5, 2), (3, 0.5, 2), (2, 1.0, 2), (4, 0.25, 1), (1, 0.0, 1), (3, 1.1, 4), (None, 2, None)]
)  # fmt: skip
def test_a_ray_cluster_that_is_started_here_holds_its_runs(
    workers: int | None, each: float, cpus: int | None
) -> None:
    assert _cpus(workers, each) == cpus
