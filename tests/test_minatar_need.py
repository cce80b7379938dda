"""tools/minatar_need.py: which runs belong to which arm, and only complete rounds count."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

from needreplay.sweeps import load_sweep

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import minatar_need  # noqa: E402

HEIGHT = {"uniform replay": 1.0, "PER": 2.0, "PER scaled by need": 2.0}


def write_runs(folder: Path, seeds: int) -> dict[str, int]:
    """The sweep's own runs with made-up returns; need doubles what shuffled need has."""
    counts: dict[str, int] = {}
    for spec in load_sweep("minatar-need").runs:
        config = dict(spec.config)
        seed = int(config["seed"])
        if seed >= seeds:
            continue
        arm = minatar_need.arm_of(config)
        counts[arm] = counts.get(arm, 0) + 1
        height = HEIGHT.get(arm, 4.0 if "shuffled" in arm else 8.0)
        run = folder / "runs" / spec.name
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps(config))
        auc = "" if arm in ("uniform replay", "PER") else "0.9"
        rows = [f"{height + 0.1 * seed - 0.5},", f"{height + 0.1 * seed + 0.5},{auc}"]
        (run / "metrics.csv").write_text("\n".join(["train_return,need_auc", *rows, ""]))
        (run / "done.json").write_text("{}")
    return counts


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_planned_comparisons(tmp_path: Path) -> None:
    counts = write_runs(tmp_path, seeds=4)
    assert counts == dict.fromkeys(minatar_need.ARMS, 4 * 4)
    # A round that lacks one run does not count.
    last = load_sweep("minatar-need").runs
    cut = next(spec.name for spec in last if spec.config["seed"] == 3)
    (tmp_path / "runs" / cut / "done.json").unlink()
    minatar_need.main(tmp_path)
    shuffled, per, uniform, scaled = read(tmp_path / "tests.csv")
    assert {row["seeds"] for row in (shuffled, per, uniform, scaled)} == {"3"}
    assert float(shuffled["ratio"]) == pytest.approx(8.1 / 4.1)
    assert float(per["ratio"]) == pytest.approx(8.1 / 2.1)
    assert float(uniform["ratio"]) == pytest.approx(8.1 / 1.1)
    assert [row["ahead"] for row in (shuffled, per, uniform)] == ["4", "4", "4"]
    # All runs of one arm above all of the other in four games: p = 2 / 20^4, below what is drawn.
    assert float(shuffled["p"]) < 0.001 < float(scaled["p"])
    assert float(shuffled["p_holm"]) == pytest.approx(4 * float(shuffled["p"]))
    assert float(scaled["p"]) == float(scaled["p_holm"]) == 1.0
    areas = {(row["game"], row["arm"]): row for row in read(tmp_path / "areas.csv")}
    own = areas["minatar/asterix", "gain x need"]
    assert float(own["area"]) == pytest.approx(8.1)
    assert float(own["need_auc_lowest"]) == pytest.approx(0.9)
    assert areas["minatar/asterix", "PER"]["need_auc"] == "nan"


def test_the_committed_tables_are_those_of_the_committed_runs(tmp_path: Path) -> None:
    committed = ROOT / "results/minatar-need"
    folder = tmp_path / "minatar-need"
    shutil.copytree(committed, folder)
    minatar_need.main(folder)
    for name in ("tests.csv", "areas.csv"):
        for made, kept in zip(read(folder / name), read(committed / name), strict=True):
            for column, text in kept.items():
                try:
                    assert float(made[column]) == pytest.approx(float(text), nan_ok=True), column
                except ValueError:
                    assert made[column] == text


def test_no_complete_round(tmp_path: Path) -> None:
    """A round is one of all four games, also if no run of one of them has begun."""
    write_runs(tmp_path, seeds=2)
    for spec in load_sweep("minatar-need").runs:
        if spec.config["world"] == "minatar/seaquest" and int(spec.config["seed"]) < 2:
            shutil.rmtree(tmp_path / "runs" / spec.name)
    with pytest.raises(SystemExit, match="no complete round"):
        minatar_need.main(tmp_path)
