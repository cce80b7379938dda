"""A figure that is there already is kept, until anything that it follows from changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from needreplay.studies import kept, load_study
from needreplay.studies.base import Request
from needreplay.studies.engine import reproduce
from needreplay.studies.kept import is_kept

REQUEST = Request(presets=("printed",), trials=2, seed=3, workers=1, size="quick")

pytestmark = pytest.mark.usefixtures("fake_studies")


def test_a_second_time_is_quick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "curve"
    reproduce(["curve"], REQUEST, tmp_path, [])
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    capsys.readouterr()
    page = reproduce(["curve"], replace(REQUEST, workers=2), tmp_path, [])
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "curve: kept, as nothing has changed" in capsys.readouterr().out
    assert page.is_file()
    reproduce(["curve"], replace(REQUEST, seed=4), tmp_path, [])
    assert "curve: kept" not in capsys.readouterr().out


def test_what_makes_a_figure_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, study = tmp_path / "curve", load_study("curve")
    assert not is_kept(folder, study, REQUEST)
    reproduce(["curve"], REQUEST, tmp_path, [])
    assert is_kept(folder, study, REQUEST)
    for other in (
        replace(REQUEST, seed=4),
        replace(REQUEST, trials=None),
        replace(REQUEST, size="full"),
        replace(REQUEST, presets=("released",)),
    ):
        assert not is_kept(folder, study, other)
    with monkeypatch.context() as patch:
        patch.setattr(kept, "source_digest", lambda: "another source")
        assert not is_kept(folder, study, REQUEST)
    data = (folder / "data.csv").read_bytes()
    (folder / "data.csv").unlink()
    assert not is_kept(folder, study, REQUEST)
    (folder / "data.csv").write_bytes(data)
    meta = json.loads((folder / "meta.json").read_text())
    others: list[object] = [{**meta, "files": None}, {**meta, "made_from": {}}, {}, []]
    for damaged in others:
        (folder / "meta.json").write_text(json.dumps(damaged))
        assert not is_kept(folder, study, REQUEST)
