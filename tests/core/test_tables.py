"""Files that are whole or absent."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlab.core import tables
from needlab.core.tables import Table
from needreplay._core.errors import NeedReplayError


def test_a_table_is_these_bytes(tmp_path: Path) -> None:
    table = Table({"agent": ["ps", "ps-sr"], "trial": [0, 1], "x": [0.1, 3.0], "ok": [True, False]})
    tables.write_table(tmp_path / "data.csv", table)
    expected = b"agent,trial,x,ok\nps,0,0.1,true\nps-sr,1,3.0,false\n"
    assert (tmp_path / "data.csv").read_bytes() == expected


def test_kinds_of_columns_come_back(tmp_path: Path) -> None:
    table = Table({"a": ["x,y", 'q"\n'], "i": [-1, 2**62], "f": [1.0, np.inf], "b": [True, False]})
    tables.write_table(tmp_path / "t.csv", table)
    read = tables.read_table(tmp_path / "t.csv")
    assert read.names == ("a", "i", "f", "b")
    assert [read[name].dtype.kind for name in read.names] == ["U", "i", "f", "b"]
    for name in read.names:
        np.testing.assert_array_equal(read[name], table[name])


@given(st.lists(st.floats(width=64), min_size=1))
def test_floats_come_back_exactly(values: list[float]) -> None:
    cells = list(tables._cells(np.array(values)))
    np.testing.assert_array_equal([float(cell) for cell in cells], values)


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    tables.write_table(tmp_path / "t.csv", Table({"a": [], "b": []}))
    read = tables.read_table(tmp_path / "t.csv")
    assert (read.names, len(read)) == (("a", "b"), 0)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "at least one column"),
        ({"a": [1], "b": [1, 2]}, "a has 1, b has 2"),
        ({"a": [[1, 2]]}, "Column 'a'"),
        ({"a": [None]}, "Column 'a'"),
        ({"a": [1, "x"]}, "mixes text with numbers"),
        ({"a": [[1], [1, 2]]}, "Column 'a'"),
    ],
)
def test_what_is_no_table_raises(columns: dict[str, list[object]], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        Table(columns)


def test_a_table_does_not_change_with_the_array_it_was_made_of() -> None:
    array = np.zeros(2)
    table = Table({"a": array})
    array[0] = 1
    assert table["a"][0] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"a,b\n1\n", "Row 2 .* has 1 cells instead of 2"),
        (b"a,a\n1,2\n", "two columns of one name"),
        (b"a\n\xff\n", "not a CSV table"),
        (b'a\n"1\n', "not a CSV table"),
    ],
)
def test_a_damaged_table_raises(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(NeedReplayError, match=said):
        tables.read_table(tmp_path / "t.csv")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(NeedReplayError, match="cannot be read: no such file"):
        tables.read_table("/nowhere/t.csv")
    with pytest.raises(NeedReplayError, match="cannot be read: no such file"):
        tables.read_json("/nowhere/t.json")


def test_json_of_what_a_config_holds(tmp_path: Path) -> None:
    value = {"a": np.float64(0.5), "b": np.arange(2), "c": (1, None), "d": Path("x"), "e": np.inf}
    tables.write_json(tmp_path / "m.json", value)
    assert tables.read_json(tmp_path / "m.json") == {
        "a": 0.5,
        "b": [0, 1],
        "c": [1, None],
        "d": "x",
        "e": "inf",
    }
    with pytest.raises(NeedReplayError, match="cannot be written as JSON"):
        tables.write_json(tmp_path / "n.json", {"a": object()})
    assert sorted(tmp_path.iterdir()) == [tmp_path / "m.json"]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "\ud800"])
def test_damaged_json_raises(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(NeedReplayError, match="is not JSON"):
        tables.read_json(tmp_path / "m.json")


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    tables.write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NeedReplayError, match=r"a\.txt' cannot be written: the disk is full\.$"):
        tables.write_text(path, "new")

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tables.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_really_runs_out_in_the_middle(tmp_path: Path) -> None:
    script = (
        "import resource; from needlab.core import tables\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: tables.write_bytes('a.bin', bytes(100_000))\n"
        "except tables.NeedReplayError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "'a.bin' cannot be written: the disk is full.\n"
    assert list(tmp_path.iterdir()) == []


def test_written_files_can_be_read_by_whom_the_user_lets(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        tables.write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


def test_a_folder_that_cannot_be_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/needreplay")):
        with pytest.raises(NeedReplayError, match=r"cannot be written: .*; choose another"):
            tables.prepare_folder(path)
    made = tables.prepare_folder(tmp_path / "a" / "b")
    assert made.is_dir()
    assert list(made.iterdir()) == []


def test_json_is_the_same_bytes_for_the_same_data(tmp_path: Path) -> None:
    tables.write_json(tmp_path / "a.json", {"b": 1, "a": "é"})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "b": 1,\n  "a": "é"\n}\n'
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["a"] == "é"


def test_a_table_is_a_mapping_of_columns_and_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"state": [1, 2], "gain": [0.5, float("nan")], "when": ["before", "<after>"]})
    columns = dict(table)
    assert list(columns) == ["state", "gain", "when"]
    assert columns["state"].tolist() == [1, 2]
    fake = SimpleNamespace(DataFrame=lambda columns: {n: c.tolist() for n, c in columns.items()})
    monkeypatch.setitem(sys.modules, "pandas", fake)
    assert table.to_pandas()["when"] == ["before", "<after>"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NeedReplayError, match="pip install pandas"):
        table.to_pandas()


def test_rows_and_what_is_distinct() -> None:
    table = Table({"agent": ["b", "a", "b"], "seed": [2, 1, 2]})
    assert list(table.rows())[1:] == [{"agent": "a", "seed": 1}, {"agent": "b", "seed": 2}]
    assert table.distinct("agent") == ["b", "a"]
    assert table.distinct("agent", "seed") == [("b", 2), ("a", 1)]


def test_an_empty_cell_is_a_number_that_is_not_known() -> None:
    np.testing.assert_array_equal(tables.as_numbers(np.array(["1.5", "", "2"])), [1.5, np.nan, 2])
    np.testing.assert_array_equal(tables.as_numbers(np.array([True, False])), [1.0, 0.0])


def test_a_notebook_shows_the_first_rows() -> None:
    shown = Table({"when": ["<after>"] * 12})._repr_html_()
    assert shown.count("<tr>") == 11
    assert "<td>&lt;after&gt;</td>" in shown
    assert shown.endswith("<p>12 rows</p>")
