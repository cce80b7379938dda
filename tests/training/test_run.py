"""A run's folder: what is in it, who may write, and what raises before anything is written."""

from __future__ import annotations

import csv
import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from killed import CARTPOLE, TINY

from needlab.deep import UpdateStats
from needlab.deep.need import NeedStats
from needlab.runs.bar import run_with_bar
from needlab.runs.config import RunConfig
from needlab.runs.metrics import COLUMNS, MetricsFile, Sums
from needlab.runs.run import run_training
from needlab.runs.run_folder import claimed, newest_checkpoint, write_checkpoint
from needreplay._core.errors import NeedReplayError
from needreplay.need import NeedModel, NeedQuality
from needreplay.need.quality import Scores

pytest.importorskip("torch")


def test_a_second_process_raises_and_the_lock_goes_with_its_holder(tmp_path: Path) -> None:
    with (
        claimed(tmp_path, CARTPOLE),
        pytest.raises(NeedReplayError, match="Another process trains in"),
        claimed(tmp_path, CARTPOLE),
    ):
        pass
    assert (tmp_path / "lock").exists(), "the file stays, the lock does not"
    with claimed(tmp_path, CARTPOLE):
        pass


def test_a_folder_that_holds_another_run_raises(tmp_path: Path) -> None:
    with claimed(tmp_path, CARTPOLE):
        pass
    before = (tmp_path / "config.json").read_bytes()
    other = replace(CARTPOLE, seed=4)
    with pytest.raises(NeedReplayError, match="holds a run with seed 3, not 4"):
        run_training(other, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (RunConfig("Pendulum-v1"), "'Pendulum-v1' has the action space"),
        (RunConfig("CartPole-v1", "sarsa"), "no agent 'sarsa'"),
        (RunConfig("CartPole-v1", preset="x"), "no preset 'x'"),
        (RunConfig("CartPole-v1", overrides={"featurs": 3}), "no setting 'featurs'; choose from"),
        (RunConfig("CartPole-v1", overrides={"sticky": 2}), "sticky is 2"),
        (RunConfig("CartPole-v1", overrides={"eval_steps": -1}), "eval_steps is -1"),
        (RunConfig("CartPole-v1", overrides={"network": "nature"}), "'nature' takes observations"),
        (RunConfig("CartPole-v1", device="abacus"), "device 'abacus' cannot be used"),
    ],
)
def test_what_cannot_be_run_raises_before_anything_is_written(
    config: RunConfig, said: str, tmp_path: Path
) -> None:
    with pytest.raises(NeedReplayError, match=said):
        run_training(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_and_evaluation_are_recorded_and_summed_up(tmp_path: Path) -> None:
    reported: list[tuple[int, Any]] = []
    metrics = run_training(
        replace(CARTPOLE, steps=210),
        tmp_path,
        on_steps=lambda steps, row: reported.append((steps, row)),
    )
    rows = list(csv.DictReader(metrics.read_text().splitlines()))
    assert tuple(rows[0]) == tuple(COLUMNS)
    assert [int(row["iteration"]) for row in rows][:2] == [1, 2]
    assert all(int(row["eval_episodes"]) >= 1 for row in rows)
    assert 0.0 <= float(rows[-1]["need_auc"]) <= 1.0
    assert all(row["need_auc"] == "" for row in rows[:-1])
    for row in rows:
        del row["need_nearness"]  # of poor need it is negative
    assert all(cell == "" or float(cell) >= 0.0 for row in rows for cell in row.values())
    assert all(float(row["need_mean"]) > 0 for row in rows[1:])
    assert [row for _, row in reported if row is not None][-1]["iteration"] == int(
        rows[-1]["iteration"]
    )
    done = json.loads((tmp_path / "done.json").read_text())
    for name in ("train_return", "eval_return"):
        returns = [float(row[name]) for row in rows]
        assert done[name]["best"] == max(returns)
        assert done[name]["final"] == returns[-1]
    assert done["steps"] == int(rows[-1]["steps"]) >= 210


def test_need_is_accurate_where_no_preset_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The agent with need by default samples by a need that knows the future."""
    overrides = {"min_history": 500, "update_period": 2, "iteration_steps": 1_250, "eval_steps": 0}
    config = RunConfig("CartPole-v1", "per-sr-sampling", steps=2_500, overrides=overrides)
    settings = config.resolved().agent
    assert (settings.need_learner, settings.uniform_mix) == ("cosine", 0.25)
    path = run_with_bar(config, tmp_path)
    last = list(csv.DictReader(path.read_text().splitlines()))[-1]
    assert float(last["need_auc"]) >= 0.8
    said = [line for line in capfd.readouterr().err.splitlines() if "need is not accurate" in line]
    assert len(said) == (last["need_accurate"] == "0")


def test_need_below_the_gate_is_said_and_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = Scores(0.4, 0.5, 0.5, 0.5)
    quality = NeedQuality(*poor, 1.0, 9.0, 9.0, 0.1, {"recency": Scores(0.6, 0.5, 0.5, 0.5)})
    monkeypatch.setattr(NeedModel, "quality", lambda *_, **__: quality)
    path = run_with_bar(replace(CARTPOLE, steps=110), tmp_path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["need_accurate"] for row in rows] == [*[""] * (len(rows) - 1), "0"]
    assert (
        f"need is not accurate at step {int(rows[-1]['steps']):,}: AUC 0.40, trivial scores 0.60"
        in capfd.readouterr().err
    )


def test_best_final_and_the_last_ten_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    lines = ["iteration,train_return,eval_return"]
    lines += [f"{k},{(5.0, 90.0)[k == 2]},{k if k > 3 else ''}" for k in range(1, 13)]
    path.write_text("\n".join(lines) + "\n")
    assert MetricsFile(path).summary() == {
        "rows": 12,
        "train_return": {"best": 90.0, "best_iteration": 2, "final": 5.0, "last_10": 5.0},
        "eval_return": {"best": 12.0, "best_iteration": 12, "final": 12.0, "last_10": 8.0},
    }


def test_an_unknown_mean_survives_a_checkpoint(tmp_path: Path) -> None:
    """JSON has no NaN, which the entropy is for draws that do not know their probabilities."""
    from needlab.core.tables import read_json, write_json

    values = {"sampling_entropy": float("nan"), "loss": 0.1}
    sums = Sums(1, 2.5, 10, 25.0, 3, values, dict.fromkeys(values, 3))
    write_json(tmp_path / "run.json", sums)
    back = Sums.from_json(read_json(tmp_path / "run.json"))
    back._add(sampling_entropy=1.0, loss=0.2)
    assert back.means()["loss"] == (0.1 + 0.2) / 4
    assert back.sums["sampling_entropy"] != back.sums["sampling_entropy"]


@pytest.mark.parametrize(
    ("counts", "said"),
    [({"loss": 0}, "counts.loss"), ({"loss": 2.5}, "counts.loss"), ({}, "different names")],
)
def test_sums_without_their_counts_raise(counts: dict[str, Any], said: str) -> None:
    returns = {"episodes": 1, "returns": 0.0, "steps": 9, "returns_by_step": 0.0}
    plain = {**returns, "updates": 3, "sums": {"loss": 0.1}, "counts": counts}
    with pytest.raises(NeedReplayError, match=said):
        Sums.from_json(plain)


def test_returns_by_episode_and_by_step() -> None:
    """Episodes of 10 and 30 steps with returns 1 and 5: 3 over episodes, 4 over steps."""
    sums = Sums()
    sums.add_episode(1.0, 10)
    sums.add_episode(5.0, 30)
    means = sums.means()
    assert (means["train_return"], means["train_return_by_step"]) == (3.0, 4.0)


def test_means_are_over_the_updates_that_have_a_value() -> None:
    sums = Sums()
    for need in (None, NeedStats(2.0, 0.5, 0.0, 0.1), None, NeedStats(4.0, 1.5, 0.0, 0.3)):
        sums.add_update(UpdateStats(1.0, 0.5, 0.9, need))
    means = sums.means()
    assert (means["loss"], means["need_mean"], means["need_variation"]) == (1.0, 3.0, 1.0)


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_a_row_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv")
    metrics.start(0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NeedReplayError, match=r"No space left.*The same command resumes"):
        metrics.append({"iteration": 1})


def test_a_full_disk_at_a_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_checkpoint(tmp_path, 10, lambda _: None, "")
    with pytest.raises(NeedReplayError, match=r"step 20 cannot be written: No space.*resumes"):
        write_checkpoint(tmp_path, 20, full, "")
    assert newest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint.part").exists(), "half-written, it would keep the disk full"


def test_metrics_that_lost_rows_raise(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv")
    with pytest.raises(NeedReplayError, match="does not hold the 2 rows"):
        metrics.start(2, "a digest")


def test_curves_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    config = replace(CARTPOLE, steps=110, overrides={**TINY, "eval_steps": 0})
    run_training(config, tmp_path, tensorboard=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    rows = list(csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines()))
    points = found.Scalars("train_return")
    assert [point.step for point in points] == [int(row["steps"]) for row in rows]
    assert points[0].value == pytest.approx(float(rows[0]["train_return"]))
    assert "eval_return" not in found.Tags()["scalars"]
