"""A small, fixed part of ``make fuzz``: files and arguments that nobody should trust."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import kind_attacks
import run_attacks as attacks


@pytest.mark.parametrize(
    ("name", "count"), [("damaged run folders", 25), ("sweep files", 100), ("arguments", 25)]
)
def test_nothing_hostile_gets_through(name: str, count: int, tmp_path: Path) -> None:
    for number in range(count):
        what, failed = attacks.ATTACKS[name](np.random.default_rng([7, number]), tmp_path)
        assert not failed, f"attack {number}, {what}: {failed}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (kind_attacks.attack_by_trajectories, 30),
        (kind_attacks.attack_by_kill, 3),
        (kind_attacks.attack_by_damage, 30),
    ],
)
def test_folders_and_trajectories_of_every_kind(attack: Any, count: int, tmp_path: Path) -> None:
    for number in range(count):
        found = attack(np.random.default_rng([3, number]), tmp_path)
        assert not found[1], (number, *found)


@pytest.mark.parametrize("way", attacks.WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("file", ["networks.pt", "replay", "metrics.csv", "config.json"])
def test_damage_raises_in_one_sentence(way: attacks.Way, file: str, tmp_path: Path) -> None:
    """Of a run that was stopped: it must not resume to other results."""
    folder = attacks.copied(tmp_path, stopped=True)
    (path,) = folder.rglob(file)
    before = path.read_bytes()
    way(path, np.random.default_rng(1))
    if path.is_file() and path.read_bytes() == before:
        pytest.skip("this way leaves the file as it is")
    code, said = attacks.called([*attacks.WORDS, "--seed", "0", "--out", str(folder)])
    assert code == 2
    assert said.startswith("needreplay: ")
    assert said.count("\n") == 1


def test_a_changed_row_of_a_complete_run_is_noticed(tmp_path: Path) -> None:
    folder = attacks.copied(tmp_path, stopped=False)
    path = folder / "metrics.csv"
    header, first, *rest = path.read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("loss")] = "0.5"
    path.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")
    code, said = attacks.called([*attacks.WORDS, "--seed", "0", "--out", str(folder)])
    assert code == 2
    assert "does not fit the rows" in said


def test_a_buffer_of_another_moment_of_the_run_raises(tmp_path: Path) -> None:
    """Whole, with a digest of its own that fits: but not the one of this checkpoint."""
    folder = attacks.copied(tmp_path, stopped=True)
    words = [*attacks.WORDS, "--seed", "0", "--out"]
    assert attacks.called([*words, str(tmp_path / "shorter"), "--steps", "100"])[0] == 0
    (mine,), (earlier,) = folder.rglob("replay"), (tmp_path / "shorter").rglob("replay")
    shutil.copyfile(earlier, mine)
    code, said = attacks.called([*words, str(folder)])
    assert code == 2
    assert "is damaged, or of another checkpoint" in said
