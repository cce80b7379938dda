"""A sweep on a real Ray cluster of two nodes, each with its own processes, and bad days."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from needlab.runs import Sweep, run_sweep
from needlab.runs.local import LocalEngine
from needreplay._core.errors import NeedReplayError

pytestmark = [
    pytest.mark.ray,
    # Ray's own code leaves sockets and files to the garbage collector.
    pytest.mark.filterwarnings("default"),
]

RUNS = 8


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What every process of these tests has: the fakes, and little patience with a lost head."""
    # Where landings hang on it, its absence is a failure.
    if not os.environ.get("NEEDREPLAY_CI"):
        pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    fakes = Path(__file__).parents[1] / "fakes"
    added = {
        "PYTHONPATH": os.pathsep.join([str(fakes), os.environ.get("PYTHONPATH", "")]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "4",
        "RAY_health_check_initial_delay_ms": "500",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_timeout_ms": "2000",
        "RAY_health_check_failure_threshold": "2",
        "FAKE_RUNS": str(RUNS),
        "FAKE_SECONDS": "2",
        "FAKE_LOG": str(tmp_path_factory.mktemp("log")),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in added.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(fakes))
        yield {**os.environ, **added}


@pytest.fixture(scope="module")
def expected(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """What the local engine makes of the same sweep."""
    from fake_runs import specs

    out = tmp_path_factory.mktemp("local")
    sweep = Sweep("counting", "", tuple(specs()))
    assert len(run_sweep(sweep, out, lambda _: LocalEngine(4)).done) == RUNS
    return results(out)


def results(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.glob("runs/*/metrics.csv")}


def started(environment: dict[str, str], address: str, out: Path, *words: str) -> Any:
    return subprocess.Popen(
        [
            sys.executable, "-m", "needlab", "sweep", "fake_runs:specs", "--engine", "ray",
            "--address", address, "--out", str(out), *words,
        ],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(condition: Callable[[], bool], process: Any) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the sweep does not move"
        time.sleep(0.05)


def count(log: Path, what: str) -> list[str]:
    return sorted(path.name.split("-")[0] for path in log.glob(f"*-{what}-*"))


def new_cluster(cpus: int, address: str | None = None) -> Any:
    from ray.cluster_utils import Cluster

    place = {} if address is None else {"gcs_server_port": int(address.rpartition(":")[2])}
    return Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, **place})


def test_a_node_is_killed_and_then_the_head(
    environment: dict[str, str], expected: dict[str, bytes], tmp_path: Path
) -> None:
    log, out = Path(environment["FAKE_LOG"]), tmp_path / "out"
    for path in log.iterdir():
        path.unlink()
    cluster = new_cluster(cpus=1)
    try:
        node = cluster.add_node(num_cpus=2)
        # Half of the runs, one node killed while it works.
        names = sorted(expected)[: RUNS // 2]
        only = [word for name in names for word in ("--only", name)]
        process = started(environment, cluster.address, out, *only)
        wait_for(lambda: len(count(log, "began")) >= 3, process)
        cluster.remove_node(node, allow_graceful=False)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        assert f"{RUNS // 2} runs done" in stdout
        assert "was lost with its process (killed, or out of memory) and started" in stderr
        assert results(out) == {name: expected[name] for name in names}
        assert len(count(log, "ended")) == len(set(count(log, "ended"))) == RUNS // 2
        # All runs; the head is killed while the rest is at work.
        address = cluster.address
        process = started(environment, address, out)
        wait_for(lambda: len(count(log, "ended")) > RUNS // 2, process)
    finally:
        cluster.shutdown()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode != 0, "a sweep without a head cannot be complete"

    # The head is back where it was: the very same command goes on.
    cluster = new_cluster(cpus=2, address=address)
    try:
        assert cluster.address == address
        process = started(environment, address, out)
        stdout, stderr = process.communicate(timeout=120)
    finally:
        cluster.shutdown()
    assert process.returncode == 0, stderr
    assert "0 failed" in stdout
    assert results(out) == expected
    assert count(log, "ended") == sorted(map(str, range(RUNS))), "every run ended once"


def test_without_a_shared_folder_results_are_brought_back(
    environment: dict[str, str], expected: dict[str, bytes], tmp_path: Path
) -> None:
    from fake_runs import counting

    from needlab.runs.cluster import RayEngine

    names = sorted(expected)[:2]
    from fake_runs import specs

    chosen = [spec for spec in specs() if spec.name in names]
    bad = [counting(0, how="raise"), counting(1, how="die")]
    sweep = Sweep("counting", "", (*chosen, *bad))

    def engine(folder: Path) -> RayEngine:
        return RayEngine(folder, workers=2, bring_back=True)

    found = run_sweep(sweep, tmp_path, engine)
    assert sorted(spec.name for spec in found.done) == names
    assert {name: results(tmp_path)[name] for name in names} == {n: expected[n] for n in names}
    failed = {failure.item.name: failure for failure in found.failures}
    assert failed[bad[0].name].lines[-1] == "RuntimeError: seed 0 has <no> luck"
    assert failed[bad[0].name].attempts == 1
    assert failed[bad[1].name].attempts == 3
    again = run_sweep(Sweep("counting", "", tuple(chosen)), tmp_path, engine)
    assert sorted(spec.name for spec in again.kept) == names


@pytest.mark.parametrize("bring_back", [False, True])
def test_a_studys_trials_run_on_a_cluster(
    environment: dict[str, str], tmp_path: Path, bring_back: bool
) -> None:
    """The same columns as in local processes, in a shared cache and without one."""
    from fake_trials import Case, trial

    from needlab.runs.cluster import RayEngine
    from needlab.runs.display import Display
    from needlab.runs.trials import TrialRunner, trial_runner

    cases = [Case(seed=1, preset="printed", agent=agent) for agent in ("ps", "ps-sr")]
    with closing(RayEngine(tmp_path, workers=2, bring_back=bring_back)) as engine:
        runner = TrialRunner(engine, tmp_path / "cache", Display(visible=False))
        found = runner.run(trial, cases, 3, label="test", seconds=2.0)
    assert len(list((tmp_path / "cache").iterdir())) == 4
    with trial_runner() as here:
        own = here.run(trial, cases, 3, label="test", seconds=2.0)
    assert {case: columns["steps"].tolist() for case, columns in found.items()} == {
        case: columns["steps"].tolist() for case, columns in own.items()
    }


def test_what_a_cluster_cannot_do_raises(environment: dict[str, str], tmp_path: Path) -> None:
    from needlab.runs.cluster import RayEngine

    with pytest.raises(NeedReplayError, match="No node of the cluster has 1 CPUs and 3 GPUs"):
        RayEngine(tmp_path, workers=1, gpus_per_run=3)
    with pytest.raises(NeedReplayError, match="workers must be at least 1"):
        RayEngine(tmp_path, workers=0)
