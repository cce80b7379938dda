"""Each Atari preset trains, evaluates and writes, with a small buffer; nothing more is claimed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from needlab.runs.config import RunConfig
from needlab.runs.run import run_training

pytest.importorskip("torch")
pytest.importorskip("ale_py")

SMALL = {
    "capacity": 300,
    "min_history": 300,
    "update_period": 50,
    "features": 32,
    # Evaluation plays whole games, and who has learned nothing may never serve the ball.
    "episode_cap": 200,
    "iteration_steps": 400,
    "eval_steps": 20,
    "checkpoint_steps": 10_000,
}


@pytest.mark.parametrize("preset", ["printed", "released", "corrected"])
@pytest.mark.parametrize("agent", ["per", "per-sr"])
def test_an_atari_preset_runs_400_steps(
    preset: str, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("needreplay.need.quality.POOL", 16)
    config = RunConfig("atari/Breakout", agent, preset, steps=400, overrides=SMALL)
    rows = list(csv.DictReader(run_training(config, tmp_path).read_text().splitlines()))
    assert int(rows[-1]["steps"]) >= 400
    assert int(rows[-1]["updates"]) >= 3
    assert float(rows[-1]["loss"]) > 0.0
    assert (rows[-1]["need_mean"] != "") == (agent == "per-sr")
    assert float(rows[-1]["train_return"]) >= 0.0
