"""Sweeps of linear agents: rows, resumed and split trials, and what raises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import read_table
from needlab.runs.kinds import kind_named
from needlab.runs.linear_runs import make_task
from needlab.runs.sweep_file import load_sweep
from needreplay import NeedReplayError

KIND = kind_named("linear")
MAZE: dict[str, Any] = {"world": "S..\n...\n..G", "agent": "linear-per-sr", "episodes": 4}
CAR: dict[str, Any] = {
    "world": "MountainCar-v0", "agent": "linear", "episodes": 2, "trials": 1,
    "max_episode_steps": 30, "code_options": {"cells": 4, "tilings": 2},
}  # fmt: skip


def rows(folder: Path, **config: Any) -> Any:
    folder.mkdir(exist_ok=True)
    KIND.run(KIND.complete({**MAZE, **config}), folder, lambda _: None)
    return read_table(folder / "metrics.csv")


def test_trials_do_not_depend_on_how_they_are_split(tmp_path: Path) -> None:
    whole = rows(tmp_path / "whole", trials=3)
    later = rows(tmp_path / "later", trials=1, first_trial=2)
    assert whole["trial"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert whole["steps"][8:].tolist() == later["steps"].tolist()
    assert whole["steps"][:4].tolist() != later["steps"].tolist()
    assert (whole["steps"] >= 4).all()  # the shortest path
    np.testing.assert_allclose(whole["return"], 1.0, atol=0.5)  # noise of deviation 0.1
    assert whole["terminated"].all()


def test_a_box_is_coded_and_long_episodes_are_cut(tmp_path: Path) -> None:
    found = rows(tmp_path / "car", **CAR)
    assert found["steps"].tolist() == [30, 30]
    assert not found["terminated"].any()
    env, encoding, n_actions = make_task(KIND.complete(CAR))
    assert (encoding.n_features, n_actions) == (2 * 5 * 5, 3)
    assert env.observation_space.shape == (2,)


def test_the_sweep_on_the_page_can_run(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/linear.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    (tmp_path / "mine.toml").write_text(text)
    runs = load_sweep(tmp_path / "mine.toml").runs
    assert [run.config["agent"] for run in runs] == ["linear", "linear-per", "linear-per-sr"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**MAZE, "agent": "ps"}, "linear-per-sr"),
        ({**MAZE, "code": "tiles"}, "tiles"),
        ({**MAZE, "code_options": {"cell": 3}}, "code_options"),
        ({**MAZE, "world": "Pendulum-v1"}, "Discrete"),
        ({**MAZE, "max_episode_steps": 0}, "max_episode_steps"),
        ({"world": "dyna-maze"}, "agent"),
        ({**MAZE, "overrides": {"alpha": 2.0}}, "alpha"),
    ],
)
def test_what_raises(config: dict[str, Any], words: str) -> None:
    with pytest.raises(NeedReplayError, match=words):
        KIND.complete(config)
