"""The processes below everything local: values, errors and deaths, each told apart."""

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

from needreplay.core.errors import NeedReplayError
from needreplay.sweeps.engines.pool import Outcome, Pool


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


@pytest.fixture
def pool() -> Iterator[Pool]:
    found = Pool(1)
    yield found
    found.close()


def done(pool: Pool, task: object, argument: object) -> Outcome:
    pool.start("key", task, argument)  # type: ignore[arg-type]
    (outcome,) = pool.wait()
    return outcome


def test_values_errors_and_deaths(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    from fake_tasks import die, fail_at_three, new_lock, process_id

    assert pool.wait() == []
    assert done(pool, process_id, 0).value != os.getpid()
    failed = done(pool, fail_at_three, 3)
    assert isinstance(failed.error, NeedReplayError)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert done(pool, os.getenv, "OPENBLAS_NUM_THREADS").value == "1"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    # A lock cannot be sent to another process: that is an error, not the end of the pool.
    unsendable = done(pool, new_lock, 0)
    assert "cannot pickle" in str(unsendable.error)
    assert done(pool, die, 0).exit_code == 1
    assert done(pool, fail_at_three, 1).value == 1, "the pool goes on"


def test_a_fresh_process_for_every_piece() -> None:
    from fake_tasks import process_id

    pool = Pool(2)
    for key in range(2):
        pool.start(key, process_id, key)
    found = [*pool.wait(60)]
    while len(found) < 2:
        found += pool.wait(60)
    assert found[0].value != found[1].value
    assert {outcome.key for outcome in found} == {0, 1}
    assert pool.wait(0) == []
    with pytest.raises(NeedReplayError, match="workers must be at least 1, not 0"):
        Pool(0)


def test_a_process_that_does_not_exit_is_ended(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python waits for a run's threads; the sweep waits a little, and not for ever."""
    from fake_tasks import answer_and_stay, hang_up_and_stay

    monkeypatch.setattr("needreplay.sweeps.engines.pool._SECONDS_TO_EXIT", 0.2)
    assert done(pool, answer_and_stay, str(tmp_path / "a")).value == "answered"
    assert done(pool, hang_up_and_stay, str(tmp_path / "b")).exit_code == -signal.SIGKILL
    assert multiprocessing.active_children() == []
    assert list(tmp_path.iterdir()) == []


def test_close_ends_its_own_processes_only() -> None:
    from fake_tasks import sleep

    other = multiprocessing.get_context("spawn").Process(target=sleep)
    other.start()
    try:
        pool = Pool(2)
        for key in range(2):
            pool.start(key, time.sleep, 60)
        pool.close()
        assert multiprocessing.active_children() == [other]
        assert other.is_alive()
        assert pool.wait() == []
    finally:
        other.terminate()
        other.join()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(
    fakes_folder: Path, tmp_path: Path, how: signal.Signals
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "fake_tasks.py", str(tmp_path)],
        cwd=fakes_folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C and hands that on; these tests send it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    workers = _wait_for_files(tmp_path, 2)
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


def test_the_very_first_process_is_deaf_to_ctrl_c(fakes_folder: Path) -> None:
    """In a process of its own: Python starts its helper with the first process that is started."""
    script = (
        "from fake_tasks import is_deaf\nfrom needreplay.sweeps.engines.pool import Pool\n"
        "pool = Pool(1); pool.start(0, is_deaf, 0); print(pool.wait()[0].value); pool.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=fakes_folder, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
