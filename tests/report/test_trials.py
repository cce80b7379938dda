"""Tabular runs on a sweep's page: every trial of every seed once, and paired with its like."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from needlab.core.tables import read_table
from needlab.report.comparison import agent_labels, cells_of
from needlab.report.sweep_folder import read_sweep
from needlab.report.sweep_page import write_sweep_page

EPISODES = 4


def rows(trials: Iterable[int], height: int) -> list[str]:
    return [f"{trial},{e},{height + trial}" for trial in trials for e in range(EPISODES)]


def write_run(sweep: Path, name: str, metrics: list[str], config: dict[str, Any]) -> None:
    folder = sweep / "runs" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.csv").write_text("\n".join(metrics) + "\n")
    (folder / "done.json").write_text("{}")


def maze(agent: str, seed: int, first: int, trials: int, height: int) -> tuple[list[str], Any]:
    config = {
        "kind": "maze", "world": "dyna-maze", "agent": agent, "preset": "printed", "seed": seed,
        "first_trial": first, "trials": trials,
    }  # fmt: skip
    return ["trial,episode,steps", *rows(range(first, first + trials), height)], config


def test_equal_trials_of_two_seeds_are_not_the_same(tmp_path: Path) -> None:
    """The difference is 10 under seed 0 and 1000 under seed 1: 505 only if pairs are right."""
    for seed, height in ((0, 100), (1, 5000)):
        write_run(tmp_path, f"ps-{seed}", *maze("ps", seed, 0, 3, height))
        other = height - (10, 1000)[seed]
        write_run(tmp_path, f"ps-sr-{seed}", *maze("ps-sr", seed, 0, 3, other))
    write_sweep_page(tmp_path)
    paired = read_table(tmp_path / "report" / "paired.csv")
    assert paired["pairs"].tolist() == [6, 6, 6]
    assert paired["difference"].tolist() == pytest.approx([505.0] * 3)
    scores = read_table(tmp_path / "report" / "scores.csv")
    mine = scores["agent"] == "ps"
    assert scores["seed"][mine].tolist() == [0, 0, 0, 1, 1, 1]
    assert scores["trial"][mine].tolist() == [0, 1, 2, 0, 1, 2]
    assert scores["final"][mine].tolist() == [100, 101, 102, 5000, 5001, 5002]


def test_more_trials_in_the_same_folder_count_once(tmp_path: Path) -> None:
    """``trials`` was 10 and is 20: the run of this sweep counts, the old one is named."""
    write_run(tmp_path, "a-old", *maze("ps", 0, 0, 10, 100))
    write_run(tmp_path, "b-new", *maze("ps", 0, 0, 20, 100))
    (tmp_path / "sweep.json").write_text(json.dumps({"name": "x", "runs": ["b-new"]}))
    page = write_sweep_page(tmp_path).read_text()
    scores = read_table(tmp_path / "report" / "scores.csv")
    assert scores["trial"].tolist() == list(range(20))
    said = "a-old: 10 of its 10 trials of ps on dyna-maze are in b-new too, and count once."
    assert said in page
    assert "over 1 task: " in page


def test_chunks_that_overlap_count_once(tmp_path: Path) -> None:
    for first, trials in ((0, 6), (4, 4), (8, 2)):
        write_run(tmp_path, f"run-{first}", *maze("ps", 0, first, trials, 100))
    runs = read_sweep(tmp_path).runs
    (cell,), repeats = cells_of(runs, agent_labels(runs))
    assert [trial.number for trial in cell.trials] == list(range(10))
    assert cell.scores["final"].tolist() == [100.0 + i for i in range(10)]
    assert repeats == [
        "run-4: 2 of its 4 trials of ps on dyna-maze are in run-0 too, and count once."
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("trial,episode,steps 0,0,1 1,0,2 0,1,3 1,1,4", "not together"),
        ("trial,episode,steps 0,0,1 0,1,2 1,1,3 1,0,4", "not numbered alike"),
        ("trial,episode,steps 0,1,1 0,0,2 1,1,3 1,0,4", "not numbered alike"),
        ("trial,episode,steps 0,0,1 0.5,0,2", "not an integer"),
        ("trial,episode,steps 0,0,1 1e30,0,2", "not an integer"),
        ("states,trial,updates 3,0,9 3,1,8 3,0,9", "twice"),
    ],
)
def test_trials_must_be_whole_and_once_in_a_table(tmp_path: Path, table: str, said: str) -> None:
    write_run(tmp_path, "bad", table.split(" "), {"kind": "maze", "agent": "ps"})
    results = read_sweep(tmp_path)
    assert results.runs[0].state == "damaged"
    assert any("bad: " in line and said in line for line in results.problems)


def test_trials_in_any_order_keep_their_numbers(tmp_path: Path) -> None:
    table = ["trial,episode,steps", *rows([2, 0, 1], 10)]
    write_run(tmp_path, "a", table, {"kind": "maze", "agent": "ps"})
    write_sweep_page(tmp_path)
    scores = read_table(tmp_path / "report" / "scores.csv")
    assert scores["trial"].tolist() == [0, 1, 2]
    assert scores["final"].tolist() == [10, 11, 12]
