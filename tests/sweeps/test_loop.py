"""A sweep in local processes: its good days, and the bad ones."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from needlab.runs import RunSpec, RunState, Sweep, load_sweep, run_sweep
from needlab.runs.display import Display, Report
from needlab.runs.local import LocalEngine
from needlab.runs.runner import Item
from needlab.runs.sweep_run import item_of
from needreplay._core.errors import NeedReplayError


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


def run(
    out: Path,
    specs: list[RunSpec],
    workers: int = 2,
    watch: Callable[[RunState], None] = lambda _state: None,
) -> RunState:
    sweep = Sweep("counting", "", tuple(specs))
    return run_sweep(sweep, out, lambda _: LocalEngine(workers), watch=watch)


def results(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.glob("runs/*/metrics.csv")}


def starts(log: Path) -> dict[str, int]:
    names = [path.name.split("-")[0] for path in log.iterdir() if "began" in path.name]
    return {name: names.count(name) for name in names}


def test_bad_days(tmp_path: Path) -> None:
    """One raises, one always dies, one dies once, one fills the disk: the others do not care."""
    from fake_runs import counting

    log, space = tmp_path / "log", tmp_path / "space"
    log.mkdir()
    shared = {"log": str(log)}
    specs = [
        counting(0, **shared),
        counting(1, how="raise", **shared),
        counting(2, how="die", **shared),
        counting(3, how="die once", **shared),
        counting(4, how="full disk", space=str(space), **shared),
        RunSpec("fake_runs:no_mark", {"seed": 5}),
        counting(6, **shared),
    ]
    states: list[tuple[int, int]] = []
    out = tmp_path / "out"
    found = run(out, specs, watch=lambda s: states.append((len(s.done), len(s.running))))
    names = [spec.name for spec in specs]
    assert {spec.name for spec in found.done} == {names[0], names[3], names[6]}
    failed = {failure.item.name: failure for failure in found.failures}
    assert set(failed) == {names[1], names[2], names[4], names[5]}
    assert failed[names[1]].lines[-1] == "RuntimeError: seed 1 has <no> luck"
    assert failed[names[2]].attempts == 3
    assert failed[names[2]].lines == (
        "Its process ended with signal 9.", *["about to die"] * 3,
    )  # fmt: skip
    assert "the disk is full" in failed[names[4]].lines[0]
    assert "without writing done.json" in failed[names[5]].lines[0]
    assert sorted(found.retried) == sorted([names[2], names[2], names[3]])
    assert starts(log) == {"0": 1, "1": 1, "2": 3, "3": 2, "4": 1, "6": 1}
    assert max(running for _, running in states) == 2
    said = json.loads((out / "runs" / names[1] / "failed.json").read_text())
    assert said["lines"][-1] == "RuntimeError: seed 1 has <no> luck"

    # The disk has space again, and the same sweep goes on: what is complete is not run again.
    space.touch()
    again = run(out, [specs[0], specs[3], specs[4], specs[6]])
    assert {spec.name for spec in again.kept} == {names[0], names[3], names[6]}
    assert [spec.name for spec in again.done] == [names[4]]
    assert starts(log)["0"] == 1
    assert starts(log)["4"] == 2
    assert not (out / "runs" / names[4] / "failed.json").exists()
    # A run that was resumed has what one has that was not.
    plain = tmp_path / "plain"
    run(plain, [counting(3, **shared)])
    assert next(iter(results(plain).values())) == results(out)[names[3]]


def test_results_do_not_depend_on_workers_or_order(tmp_path: Path) -> None:
    from fake_runs import counting

    specs = [counting(seed) for seed in range(3)]
    run(tmp_path / "a", specs, workers=1)
    run(tmp_path / "b", specs[::-1], workers=3)
    assert len(results(tmp_path / "a")) == 3
    assert results(tmp_path / "a") == results(tmp_path / "b")


def test_a_second_sweep_in_one_folder_raises(tmp_path: Path) -> None:
    from fake_runs import counting

    raised: list[str] = []

    def second(state: RunState) -> None:
        if not raised:
            with pytest.raises(NeedReplayError, match=f"process {os.getpid()} on") as error:
                run(tmp_path, [counting(0)])
            raised.append(str(error.value))

    found = run(tmp_path, [counting(0, seconds=0.5)], watch=second)
    assert len(found.done) == 1
    assert "Another sweep works in" in raised[0]
    assert run(tmp_path, [counting(0, seconds=0.5)]).done == []


def test_a_folder_that_somebody_changed_raises(tmp_path: Path) -> None:
    from fake_runs import counting

    spec = counting(0)
    folder = tmp_path / "runs" / spec.name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    with pytest.raises(NeedReplayError, match="holds another config"):
        run(tmp_path, [spec])
    with pytest.raises(NeedReplayError, match="workers must be at least 1, not 0"):
        LocalEngine(0)


def test_the_table_shows_what_there_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from fake_runs import counting

    specs = [counting(0, seconds=1.5), counting(1, how="raise"), counting(2, world="[red]x")]
    with Display(visible=True).showing("three", 2) as live:
        run(tmp_path / "seen", specs, watch=live)
    out, err = capfd.readouterr()
    assert out == ""
    assert "2 of 3 done, 0 running, 0 waiting, 1 failed" in err
    assert f"failed: {specs[1].name} counting counter seed 1" in err
    with Display().showing("one", 2) as live:
        run(tmp_path / "unseen", specs[:1], watch=live)
    assert capfd.readouterr() == ("", "")


def command(fakes: Path, out: Path, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "needlab",
        "sweep",
        "fake_runs:specs",
        "--out",
        str(out),
        *words,
    ]


def test_ctrl_c_and_kill_keep_what_is_done(fakes_folder: Path, tmp_path: Path) -> None:
    """Stopped three times, in three ways; then every run is complete, and none ended twice."""
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    environment = {
        **os.environ,
        "FAKE_RUNS": "4",
        "FAKE_SECONDS": "1.5",
        "FAKE_LOG": str(log),
        "PYTHONPATH": os.pathsep.join([str(fakes_folder), os.environ.get("PYTHONPATH", "")]),
    }
    for how, ended in ((signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGKILL, 3)):
        process = subprocess.Popen(
            command(fakes_folder, out, "--workers", "1"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell's background job ignores Ctrl-C and hands that on; these tests send it.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        deadline = time.monotonic() + 180
        while len(list(log.glob("*-ended-*"))) < ended:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if how == signal.SIGINT:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        stdout, stderr = process.communicate(timeout=180)
        assert stdout == ""
        if how != signal.SIGKILL:
            assert process.returncode == 128 + how
            assert "of 4 runs are complete in" in stderr
            assert "The same command resumes." in stderr
            assert "Traceback" not in stderr
    done = subprocess.run(
        command(fakes_folder, out), env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 runs" not in done.stdout.split("done before")[0]
    ended_runs = [path.name.split("-")[0] for path in log.glob("*-ended-*")]
    assert sorted(ended_runs) == ["0", "1", "2", "3"]


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from needlab.cli import main

    path = tmp_path / "mine.toml"
    path.write_text(
        '[[runs]]\nkind = "fake_runs:count"\nworld = "w"\nagent = "a"\nsteps = 5\nseed = 0\n'
        '[[runs]]\nkind = "fake_runs:count"\nhow = "raise"\nsteps = 5\nseed = 1\n'
    )
    out = str(tmp_path / "out")
    for flag in ((), ("--dry-run",), ("--allow-code", "other")):
        assert main(["sweep", str(path), "--out", out, *flag]) == 2
        assert "repeat the command with --allow-code fake_runs" in capfd.readouterr().err
    allowed = ["sweep", str(path), "--allow-code", "fake_runs"]
    assert main([*allowed, "--out", out]) == 1
    said = capfd.readouterr()
    assert "mine: 1 run done, 0 done before, 1 failed" in said.out
    assert "RuntimeError: seed 1 has <no> luck" in said.err
    assert main(["report", out]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "seed 1 has &lt;no&gt; luck" in page
    assert "--only" in page
    capfd.readouterr()
    assert main([*allowed, "--out", out, "--dry-run"]) == 0
    said = capfd.readouterr()
    assert "(done)" in said.out
    assert "2 runs, 1 of them done." in said.out
    assert "on this machine" not in said.out, "nothing is known of it"
    assert "The speed of 1 run is not known." in said.out
    for words, error in (
        (["--workers", "0"], "--workers must be at least 1"),
        (["--only", "zzz"], "has no run 'zzz'"),
        (["--address", "auto"], "are for --engine ray"),
        (["--cpus-per-run", "-1"], "must not be negative"),
    ):
        assert main([*allowed, "--out", out, *words]) == 2
        assert error in capfd.readouterr().err
    assert main(["report", str(tmp_path / "nothing")]) == 2


def test_a_dry_run_speaks_of_this_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from needlab.cli import main

    path = tmp_path / "mine.toml"
    path.write_text('[[runs]]\nkind = "tabular"\nagent = "dyna-q"\ntrials = 2\nepisodes = 2\n')
    words = ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "3", "--dry-run"]
    assert main(words) == 0
    said = capfd.readouterr().out
    assert "on this machine with 3 at once" in said
    assert "Ray" not in said
    assert main([*words, "--engine", "ray"]) == 0
    said = capfd.readouterr().out
    assert "on this machine with 3 at once" in said
    assert "The speed of a Ray cluster's nodes" in said
    assert not (tmp_path / "out").exists()


def test_only_keeps_what_the_sweep_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from needlab.cli import main

    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text('[[runs]]\nkind = "fake_runs:count"\nworld = "w"\nsteps = 5\nseeds = 3\n')
    names = [spec.name for spec in load_sweep(path, allow_code=["fake_runs"]).runs]
    own = ["sweep", str(path), "--allow-code", "fake_runs", "--out", str(out)]
    whole = {"command": ["needreplay", *own], "runs": names}
    for words in ([*own, "--only", names[1]], [*own[:2], f"--only={names[2][:8]}", *own[2:]]):
        assert main(words) == 0
        said = json.loads((out / "sweep.json").read_text())
        assert {key: said[key] for key in whole} == whole
    assert sorted(results(out)) == sorted(names[1:])
    assert (out / "runs" / names[1] / "command.txt").read_text().count("--only") == 1
    assert "1 run done" in capfd.readouterr().out
    assert main([*own, "--workers", "2"]) == 0
    assert main([*own, "--only", names[0], "--workers", "1"]) == 0
    said = json.loads((out / "sweep.json").read_text())
    assert said["command"] == ["needreplay", *own, "--workers", "2"], "the sweep's own stays"
    assert said["runs"] == names


def test_equal_runs_are_run_and_counted_once(tmp_path: Path) -> None:
    from fake_runs import counting

    log = tmp_path / "log"
    log.mkdir()
    totals: list[int] = []
    specs = [counting(0, log=str(log)), counting(1, log=str(log)), counting(0, log=str(log))]
    found = run(tmp_path / "out", specs, watch=lambda state: totals.append(state.total))
    assert sorted(spec.name for spec in found.done) == sorted({spec.name for spec in specs})
    assert starts(log) == {"0": 1, "1": 1}
    assert set(totals) == {2}
    assert len(json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]) == 2


def test_the_display_tells_submitted_from_running(tmp_path: Path) -> None:
    """A cluster gets every run at once, and works on as many as it has slots for."""
    from fake_runs import counting
    from rich.console import Console

    items = [item_of(counting(seed), tmp_path) for seed in range(20)]
    state = RunState(running={item.name: item for item in items})

    def progress(item: Item, units: int, seconds: float) -> None:
        item.progress.parent.mkdir(parents=True, exist_ok=True)
        item.progress.write_text(json.dumps({"units": units, "seconds": seconds}))

    progress(items[18], 2, 4.0)
    shown = io.StringIO()
    Console(width=200, file=shown).print(Report("all", None).drawn(state))
    said = shown.getvalue()
    assert "all: 2%, 0 of 20 done, 20 submitted (1 with progress), 0 waiting, 0 failed\n" in said
    assert items[18].label in said, "those with progress are shown first"
    assert "and 8 more" in said
    # 98 of 100 steps are left, at half a step a second; one run at a time has made progress.
    progress(items[18], 3, 6.0)
    assert Report("all", None).line(state).endswith("0 failed, 3 min to finish")
    for item in items:
        progress(item, 1, 2.0)
    assert "0 of 20 done, 20 running, 0 waiting, 0 failed, " in Report("all", None).line(state)


def test_a_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where it looked, and how to give a token, which newer Rays ask for."""
    from needlab.runs import cluster

    class Ray:
        def init(self, **settings: object) -> None:
            raise ConnectionError(f"nobody at {settings['address']}.")

    monkeypatch.setattr(cluster, "imported", lambda _: Ray())
    with pytest.raises(NeedReplayError, match=r"answers at 10\.0\.0\.1:1: nobody.*AUTH_MODE=token"):
        cluster.RayEngine(tmp_path, address="10.0.0.1:1")
    with pytest.raises(NeedReplayError, match=r"not start on this machine: nobody at local\.$"):
        cluster.RayEngine(tmp_path)
