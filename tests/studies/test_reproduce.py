"""Running studies: what is written, raised and kept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from needlab.core import tables
from needlab.report import figures
from needlab.runs.display import Display
from needlab.runs.runner import RunState
from needlab.runs.stopping import Stopped
from needlab.studies import folder as folders
from needlab.studies import load_study, study_names
from needlab.studies import reproduce as reproducing
from needlab.studies.reproduce import (
    cache_folder,
    is_up_to_date,
    only_one,
    plan,
    reproduce,
)
from needlab.studies.study import Options, Result, Study
from needreplay._core.errors import NeedReplayError

OPTIONS = Options(presets=(), trials=4, seed=3, workers=1, size="quick")
ARGV = ["needreplay", "reproduce", "curve"]

pytestmark = pytest.mark.usefixtures("fake_studies")


def another_source() -> str:
    return "another source"


another_source.__wrapped__ = another_source  # type: ignore[attr-defined]


def test_a_figures_folder_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = reproduce(["curve"], OPTIONS, tmp_path / "out", ARGV)
    folder = tmp_path / "out" / "curve"
    written = {path.name for path in folder.iterdir()}
    assert written == {
        "claims.json",
        "data.csv",
        "figure.pdf",
        "figure.png",
        "figure.svg",
        "histogram.pdf",
        "histogram.png",
        "histogram.svg",
        "meta.json",
        "summary.csv",
    }
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"curve", "report.html"}
    data = tables.read_table(folder / "data.csv")
    assert len(data) == 2 * 2 * 4 * 20
    meta = tables.read_json(folder / "meta.json")
    assert meta["seed"] == 3
    assert meta["config"]["trials"] == 4
    assert meta["presets"] == ["printed", "released"]
    assert meta["command_line"] == "needreplay reproduce curve"
    assert meta["command"] == (
        "needreplay reproduce curve --preset printed released --trials 4 --seed 3 --size quick "
        f"--out {tmp_path / 'out'}"
    )
    assert set(meta["versions"]) >= {"needreplay", "python", "numpy", "numba"}
    assert set(meta["files"]) == written
    assert {"seconds", "date", "machine"} <= set(meta)
    assert meta["commit"] is None or re.fullmatch(r"[0-9a-f]{12,}(-dirty)?", meta["commit"])
    assert str(page) in capsys.readouterr().out


def test_the_same_seed_gives_the_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    for name, options in (
        ("one", OPTIONS),
        ("two", replace(OPTIONS, workers=2)),
        ("other", replace(OPTIONS, seed=4)),
    ):
        reproduce(["curve"], options, tmp_path / name, ARGV)
    for file in ("data.csv", "figure.svg", "figure.png", "claims.json"):
        one, two, other = (
            (tmp_path / name / "curve" / file).read_bytes() for name in ("one", "two", "other")
        )
        assert one == two
        assert one != other


def test_commands_into_one_folder_add_up(tmp_path: Path) -> None:
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    (tmp_path / "curve").rename(tmp_path / "older")
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert 'id="figure-older"' in text
    assert 'id="figure-curve"' in text


def test_a_second_run_replaces_the_first_and_keeps_the_users_files(tmp_path: Path) -> None:
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    folder = tmp_path / "curve"
    (folder / "my notes.txt").write_text("mine")
    meta = tables.read_json(folder / "meta.json")
    (folder / "stale.csv").write_text("a\n1\n")
    tables.write_json(folder / "meta.json", {**meta, "files": [*meta["files"], "stale.csv"]})
    reproduce(["curve"], replace(OPTIONS, trials=2), tmp_path, ARGV)
    assert (folder / "my notes.txt").read_text() == "mine"
    assert not (folder / "stale.csv").exists()
    assert tables.read_json(folder / "meta.json")["trials"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"curve", "report.html"}


def test_a_folder_that_is_not_ours_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducing, "_make", lambda *_: pytest.fail("it must not even run"))
    (tmp_path / "curve").mkdir()
    (tmp_path / "curve" / "thesis.tex").write_text("years of work")
    with pytest.raises(NeedReplayError, match="was not written by needreplay"):
        reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    assert (tmp_path / "curve" / "thesis.tex").exists()


def test_a_full_disk_leaves_the_older_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    before = (tmp_path / "curve" / "data.csv").read_bytes()

    def full(*_: Any) -> None:
        raise NeedReplayError("'figure.svg' cannot be written: the disk is full.")

    monkeypatch.setattr(folders, "save_figure", full)
    with pytest.raises(NeedReplayError, match="the disk is full"):
        reproduce(["curve"], replace(OPTIONS, seed=9), tmp_path, ARGV)
    assert (tmp_path / "curve" / "data.csv").read_bytes() == before
    # The runs are done, and a second try needs them.
    assert {path.name for path in tmp_path.iterdir()} == {"curve", "curve-cache", "report.html"}


def test_a_stop_says_what_is_done_and_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> Study:
        def stop(*_: Any) -> Result:
            raise KeyboardInterrupt

        study = load_study(name)
        return replace(study, run=stop) if name == "hanging" else study

    monkeypatch.setattr(reproducing, "load_study", interrupted)
    with pytest.raises(Stopped) as stop:
        reproduce([], replace(OPTIONS, trials=None), tmp_path, ARGV)
    assert str(stop.value) == (
        f"stopped; finished in {tmp_path}: curve. Run the rest with:\n"
        f"  needreplay reproduce hanging raising --seed 3 --size quick --out {tmp_path}"
    )
    assert 'id="figure-curve"' in (tmp_path / "report.html").read_text("utf-8")


class Stopping(Display):
    """Somebody presses Ctrl-C when so many trials (of 2 s each) are done."""

    def __init__(self, log: Path, after: int) -> None:
        super().__init__(visible=False)
        self.after = after
        self.hang = log.with_name("hang after")

    @contextmanager
    def showing(self, *_: Any, **__: Any) -> Iterator[Any]:
        self.hang.write_text(str(self.after))

        def watch(state: RunState) -> None:
            if sum(item.units for item in state.done) >= 2.0 * self.after:
                raise KeyboardInterrupt

        try:
            yield watch
        finally:  # Only now is the worker dead that would run one more trial.
            self.hang.unlink()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the fake trials leave a file each."""
    folder = tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("FAKE_LOG", str(folder))
    return folder


def run_so_far(log: Path) -> list[str]:
    return sorted(path.name.rpartition(" ")[0] for path in log.iterdir())


def test_a_figure_that_was_stopped_resumes(tmp_path: Path, log: Path) -> None:
    reproduce(["curve"], OPTIONS, tmp_path / "undisturbed", ARGV)
    all_trials = run_so_far(log)
    assert len(all_trials) == len(set(all_trials)) == 16
    for path in log.iterdir():
        path.unlink()
    out = tmp_path / "stopped"
    with pytest.raises(Stopped) as stop:
        reproduce(["curve"], OPTIONS, out, ARGV, display=Stopping(log, after=8))
    assert str(stop.value).startswith(
        "stopped; no figure is finished; curve resumes from its cache. Run the rest with:\n"
    )
    assert len(run_so_far(log)) == 8
    assert {path.name for path in out.iterdir()} == {"curve-cache"}
    reproduce(["curve"], replace(OPTIONS, workers=2), out, ARGV)
    assert run_so_far(log) == all_trials
    for file in ("data.csv", "figure.svg", "claims.json"):
        whole = (tmp_path / "undisturbed" / "curve" / file).read_bytes()
        assert (out / "curve" / file).read_bytes() == whole
    assert {path.name for path in out.iterdir()} == {"curve", "report.html"}


def test_a_figure_whose_process_was_killed_resumes(
    tmp_path: Path, log: Path, fakes_folder: Path
) -> None:
    reproduce(["curve"], OPTIONS, tmp_path / "undisturbed", ARGV)
    all_trials = run_so_far(log)
    for path in log.iterdir():
        path.unlink()
    hang = log.with_name("hang after")
    hang.write_text("5")
    out = tmp_path / "killed"
    words = ["reproduce", "curve", "--trials", "4", "--seed", "3", "--workers", "1"]
    process = subprocess.Popen(
        [sys.executable, str(fakes_folder / "fake_cli.py"), *words, "--out", str(out)]
    )
    chunks = "curve-cache/*/*.npz"
    deadline = time.monotonic() + 60
    while len(run_so_far(log)) < 5 or len(list(out.glob(chunks))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    hang.unlink()
    assert len(list(out.glob(chunks))) == 2
    # Four trials are cached, the fifth was in a chunk that was not finished.
    reproduce(["curve"], OPTIONS, out, ARGV)
    assert len(run_so_far(log)) == 16 + 1
    assert sorted(set(run_so_far(log))) == all_trials
    undisturbed = (tmp_path / "undisturbed" / "curve" / "data.csv").read_bytes()
    assert (out / "curve" / "data.csv").read_bytes() == undisturbed


def test_runs_of_another_source_are_not_resumed(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stopped):
        reproduce(["curve"], OPTIONS, tmp_path, ARGV, display=Stopping(log, after=8))
    assert len(run_so_far(log)) == 8
    (tmp_path / "curve-cache" / "mine.txt").write_text("mine")
    monkeypatch.setattr(reproducing, "source_digest", another_source)
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    assert len(run_so_far(log)) == 8 + 16
    # Those of the older source go with the others; what is not ours stays.
    assert [path.name for path in (tmp_path / "curve-cache").iterdir()] == ["mine.txt"]


def test_a_shorter_request_leaves_the_runs_of_a_longer_one_that_was_stopped(
    tmp_path: Path, log: Path
) -> None:
    longer = replace(OPTIONS, trials=10)
    with pytest.raises(Stopped):
        reproduce(["curve"], longer, tmp_path, ARGV, display=Stopping(log, after=20))
    before = run_so_far(log)
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    assert (tmp_path / "curve-cache").is_dir()
    reproduce(["curve"], longer, tmp_path, ARGV)
    assert len(run_so_far(log)) == 40 + 16
    assert len(before) >= 20
    assert not (tmp_path / "curve-cache").exists()


def test_one_process_at_a_time_makes_a_figure(tmp_path: Path) -> None:
    with (
        only_one(tmp_path / "curve"),
        pytest.raises(NeedReplayError, match=r"^Another process \(process \d+ on .*making curve"),
    ):
        reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)


def test_runs_that_a_kill_left_behind_go_when_the_figure_is_kept(tmp_path: Path) -> None:
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    (study, own), *_ = plan(["curve"], OPTIONS)
    left = cache_folder(tmp_path / "curve", study, own)
    left.mkdir(parents=True)
    (left / "curve-0-0.npz").write_text("")
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    assert not (tmp_path / "curve-cache").exists()


def test_a_study_may_keep_its_runs(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = replace(load_study("curve"), keeps_cache=True)
    monkeypatch.setattr(reproducing, "load_study", lambda _: keeping)
    reproduce(["curve"], replace(OPTIONS, trials=10), tmp_path, ARGV)
    assert len(run_so_far(log)) == 40
    shutil.rmtree(tmp_path / "curve")
    reproduce(["curve"], replace(OPTIONS, trials=10), tmp_path, ARGV)
    assert len(run_so_far(log)) == 40


def test_an_error_of_a_study_names_it(tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match=r"^raising: The maze has no goal\.$"):
        reproduce(["raising"], OPTIONS, tmp_path, ARGV)


def test_presets_of_named_and_of_all_studies() -> None:
    def planned(names: list[str], *presets: str) -> list[tuple[str, tuple[str, ...]]]:
        found = plan(names, replace(OPTIONS, presets=presets))
        return [(study.name, options.presets) for study, options in found]

    assert planned(["curve", "curve"]) == [("curve", ("printed", "released"))]
    assert planned(["curve"], "released") == [("curve", ("released",))]
    assert planned([], "printed") == [("curve", ("printed",)), ("hanging", ("printed",))]
    assert planned([], "corrected", "corrected") == [("raising", ("corrected",))]
    with pytest.raises(NeedReplayError, match=r"curve has no preset 'corrected'; .*: printed, rel"):
        planned(["curve", "raising"], "corrected")


@pytest.mark.parametrize(
    ("names", "change", "said"),
    [
        (["fig9"], {}, "There is no figure 'fig9'; choose from: curve, hanging, raising."),
        (["curve"], {"presets": ("x",)}, "There is no preset 'x'; choose from: printed, released."),
        ([], {"presets": ("curve",)}, "'curve' is a figure, not a preset"),
        ([], {"trials": 0}, "--trials must be at least 1, not 0."),
        ([], {"workers": 0}, "--workers must be at least 1, not 0."),
        ([], {"seed": -1}, "--seed must be at least 0, not -1."),
    ],
)
def test_what_makes_no_sense_raises_before_anything_is_written(
    tmp_path: Path, names: list[str], change: dict[str, Any], said: str
) -> None:
    with pytest.raises(NeedReplayError) as error:
        reproduce(names, replace(OPTIONS, **change), tmp_path / "out", ARGV)
    assert said in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tables": {}}, "no table called 'data'"),
        ({"figures": {}}, "no figure called 'figure'"),
        ({"captions": {"other": "x"}}, "a caption without a figure: 'other'"),
    ],
)
def test_an_incomplete_outcome_raises(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    table = tables.Table({"a": [1]})
    result = Result(tables={"data": table}, figures={"figure": figures.new_figure()[0]})
    with pytest.raises(NeedReplayError, match=said):
        folders.write_study(
            tmp_path / "curve", load_study("curve"), OPTIONS, replace(result, **change), {}
        )
    result.tables["../data"] = table
    with pytest.raises(NeedReplayError, match="cannot be a table's file name"):
        folders.write_study(tmp_path / "curve", load_study("curve"), OPTIONS, result, {})
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_studies() -> None:
    assert study_names() == ("curve", "hanging", "raising")
    assert load_study("curve").presets == ("printed", "released")
    with pytest.raises(NeedReplayError, match="no figure 'x'"):
        load_study("x")


def test_claims_are_a_plain_list(tmp_path: Path) -> None:
    reproduce(["curve"], OPTIONS, tmp_path, ARGV)
    claims = json.loads((tmp_path / "curve" / "claims.json").read_text("utf-8"))
    assert [claim["preset"] for claim in claims] == ["printed", "released"]
    names = {"statement", "source", "measured", "verdict", "preset", "detail", "doubt", "figure"}
    assert set(claims[0]) == names


ONE = replace(OPTIONS, presets=("printed",), trials=2)


def test_a_second_time_is_quick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "curve"
    reproduce(["curve"], ONE, tmp_path, [])
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    capsys.readouterr()
    page = reproduce(["curve"], replace(ONE, workers=2), tmp_path, [])
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "curve: up to date" in capsys.readouterr().out
    assert page.is_file()
    reproduce(["curve"], replace(ONE, seed=4), tmp_path, [])
    assert "curve: up to date" not in capsys.readouterr().out


def test_what_makes_a_figure_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, study = tmp_path / "curve", load_study("curve")
    assert not is_up_to_date(folder, study, ONE)
    reproduce(["curve"], ONE, tmp_path, [])
    assert is_up_to_date(folder, study, ONE)
    for other in (
        replace(ONE, seed=4),
        replace(ONE, trials=None),
        replace(ONE, size="full"),
        replace(ONE, presets=("released",)),
    ):
        assert not is_up_to_date(folder, study, other)
    with monkeypatch.context() as patch:
        patch.setattr(reproducing, "source_digest", another_source)
        assert not is_up_to_date(folder, study, ONE)
    data = (folder / "data.csv").read_bytes()
    (folder / "data.csv").unlink()
    assert not is_up_to_date(folder, study, ONE)
    (folder / "data.csv").write_bytes(data)
    meta = json.loads((folder / "meta.json").read_text())
    others: list[object] = [{**meta, "files": None}, {**meta, "made_from": {}}, {}, []]
    for damaged in others:
        (folder / "meta.json").write_text(json.dumps(damaged))
        assert not is_up_to_date(folder, study, ONE)
