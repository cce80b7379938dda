"""The processes below everything local: values, errors and deaths, each told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from needreplay.errors import NeedReplayError
from needreplay.runs.engines.pool import Outcome, Pool


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


@pytest.fixture
def pool() -> Iterator[Pool]:
    found = Pool(1, environment={"FAKE_VARIABLE": "seen"})
    yield found
    found.close()


def done(pool: Pool, task: object, argument: object) -> Outcome:
    pool.start("key", task, argument)  # type: ignore[arg-type]
    (outcome,) = pool.wait()
    return outcome


def test_values_errors_and_deaths(pool: Pool) -> None:
    from fake_tasks import die, fail_at_three, new_lock, process_id

    assert pool.wait() == []
    first = done(pool, process_id, 0)
    assert first.value != os.getpid()
    assert done(pool, process_id, 1).value == first.value, "the process stays"
    assert pool.free == 1
    failed = done(pool, fail_at_three, 3)
    assert isinstance(failed.error, NeedReplayError)
    assert done(pool, os.getenv, "FAKE_VARIABLE").value == "seen"
    assert "FAKE_VARIABLE" not in os.environ
    # A lock cannot be sent to another process: that is an error, not the end of the pool.
    unsendable = done(pool, new_lock, 0)
    assert "cannot pickle" in str(unsendable.error)
    assert done(pool, die, 0).exit_code == 1
    assert done(pool, fail_at_three, 1).value == 1, "a new process took its place"


def test_a_fresh_process_for_every_piece() -> None:
    from fake_tasks import process_id

    pool = Pool(2, fresh=True)
    for key in range(2):
        pool.start(key, process_id, key)
    assert pool.free == 0
    found = [*pool.wait(60)]
    while len(found) < 2:
        found += pool.wait(60)
    assert found[0].value != found[1].value
    assert {outcome.key for outcome in found} == {0, 1}
    assert pool.wait(0) == []
    with pytest.raises(NeedReplayError, match="workers must be at least 1, not 0"):
        Pool(0)


def test_the_very_first_process_is_deaf_to_ctrl_c(fakes_folder: Path) -> None:
    """In a process of its own: Python starts its helper with the first process that is started."""
    script = (
        "from fake_tasks import is_deaf\nfrom needreplay.runs.engines.pool import Pool\n"
        "pool = Pool(1); pool.start(0, is_deaf, 0); print(pool.wait()[0].value); pool.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=fakes_folder, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
