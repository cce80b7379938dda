"""A run that is killed at any moment and resumed writes the same bytes as one that was not.

Killed runs are processes of their own, forked from a server that has imported everything already.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed import CARTPOLE, CONFIGS, POOL, run_until

from needlab.core.tables import read_json, write_json
from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.runs.run_folder import PART, newest_checkpoint
from needreplay._core.errors import NeedReplayError

torch = pytest.importorskip("torch")
pytest.importorskip("minatar")
pytest.importorskip("ale_py")


@pytest.fixture(scope="module")
def forks() -> Iterator[Any]:
    """Processes forked from a server, which looks for modules where its environment says."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed_server"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    yield context
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


@pytest.fixture
def killed(forks: Any) -> Any:
    """Run until some moment, and see the process killed there."""

    def run(config: RunConfig, folder: Path, moment: str, count: int) -> None:
        process = forks.Process(target=run_until, args=(config, folder, moment, count))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, (moment, count, process.exitcode)

    return run


@pytest.fixture(scope="module", autouse=True)
def small_pool() -> Iterator[None]:
    """Runs of this process measure need as the killed ones do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("needreplay.need.quality.POOL", POOL)
        yield


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The metrics and the outcome of a run that was never stopped."""

    @cache
    def files(name: str) -> tuple[bytes, bytes]:
        folder = tmp_path_factory.mktemp(name)
        metrics = run_training(CONFIGS[name], folder)
        return metrics.read_bytes(), (folder / "done.json").read_bytes()

    return files


def test_the_tiny_runs_are_worth_killing(unbroken: Any) -> None:
    for name in CONFIGS:
        rows = unbroken(name)[0].decode().splitlines()
        assert len(rows) >= 4, name
        assert float(rows[-1].split(",")[8]) > 0.0, "it learns"


@pytest.mark.parametrize("name", CONFIGS)
def test_killed_at_random_steps(name: str, killed: Any, unbroken: Any, tmp_path: Path) -> None:
    config = CONFIGS[name]
    for count in np.random.default_rng(len(name)).integers(20, 250, size=2):
        if (tmp_path / "done.json").exists():
            break
        left = config.steps - (0 if (at := newest_checkpoint(tmp_path)) is None else _steps(at))
        killed(config, tmp_path, "step", min(int(count), left - 5))
    run_training(config, tmp_path)
    assert (
        (tmp_path / "metrics.csv").read_bytes(),
        (tmp_path / "done.json").read_bytes(),
    ) == unbroken(name)


def _steps(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


@pytest.mark.parametrize(
    ("moment", "count"),
    [*(("sync", count) for count in range(2, 10)), ("rename", 1), ("remove", 4)],
)
def test_killed_between_any_two_writes(
    moment: str, count: int, killed: Any, unbroken: Any, tmp_path: Path
) -> None:
    """Within a checkpoint's files, before it has its name, before the older one is removed."""
    killed(CARTPOLE, tmp_path, moment, count)
    metrics = run_training(CARTPOLE, tmp_path)
    assert metrics.read_bytes() == unbroken("per-sr")[0]
    assert not (tmp_path / PART).exists()
    assert len(list(tmp_path.glob("checkpoint-*"))) == 1


def test_rows_after_the_checkpoint_are_cut_and_made_anew(
    killed: Any, unbroken: Any, tmp_path: Path
) -> None:
    killed(CARTPOLE, tmp_path, "step", 230)
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("9,9,torn")
    assert run_training(CARTPOLE, tmp_path).read_bytes() == unbroken("per-sr")[0]


def test_a_half_written_checkpoint_does_not_count(
    killed: Any, unbroken: Any, tmp_path: Path
) -> None:
    killed(CARTPOLE, tmp_path, "step", 150)
    (tmp_path / PART).mkdir(exist_ok=True)
    (tmp_path / PART / "networks.pt").write_bytes(b"half")
    (tmp_path / "checkpoint-bak").mkdir()
    assert run_training(CARTPOLE, tmp_path).read_bytes() == unbroken("per-sr")[0]


@pytest.mark.parametrize("file", ["networks.pt", "replay", "agent.json", "run.json"])
def test_a_damaged_checkpoint_raises_in_prose(file: str, killed: Any, tmp_path: Path) -> None:
    killed(CARTPOLE, tmp_path, "step", 150)
    checkpoint = newest_checkpoint(tmp_path)
    assert checkpoint is not None
    whole = (checkpoint / file).read_bytes()
    (checkpoint / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NeedReplayError, match=f"{file}.*remove .*{checkpoint.name}"):
        run_training(CARTPOLE, tmp_path)


def test_a_checkpoint_of_another_version_raises_in_a_sentence(killed: Any, tmp_path: Path) -> None:
    killed(CARTPOLE, tmp_path, "step", 150)
    checkpoint = newest_checkpoint(tmp_path)
    assert checkpoint is not None
    state = torch.load(checkpoint / "networks.pt", weights_only=True)
    state["q"]["head.packed"] = state["q"].pop("head.weight")
    torch.save(state, checkpoint / "networks.pt")
    digests = read_json(checkpoint / "digests.json")
    whole = (checkpoint / "networks.pt").read_bytes()
    digests["networks.pt"] = hashlib.sha256(whole).hexdigest()
    write_json(checkpoint / "digests.json", digests)
    with pytest.raises(NeedReplayError, match="another version of needreplay"):
        run_training(CARTPOLE, tmp_path)


def test_a_complete_run_is_left_as_it_is(tmp_path: Path) -> None:
    metrics = run_training(CARTPOLE, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert run_training(CARTPOLE, tmp_path) == metrics
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert {p: t for p, t in before.items() if p.name != "lock"} == {
        p: t for p, t in after.items() if p.name != "lock"
    }
