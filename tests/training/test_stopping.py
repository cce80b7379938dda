"""A run that is asked to stop saves a checkpoint; one that is complete can be extended."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from killed import CONFIGS

from needlab.core import machine as machines
from needlab.core.tables import read_json
from needlab.runs import run as running
from needlab.runs import stopping
from needlab.runs.bar import resumption
from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.runs.run_folder import newest_checkpoint, steps_of
from needlab.runs.stopping import Stopped
from needreplay._core.errors import NeedReplayError

pytest.importorskip("torch")

SAMPLING = replace(CONFIGS["n-step"], steps=200)
"""Need in the probability: features of new transitions are part of what has to come back."""


def files(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "metrics.csv").read_bytes(), (folder / "done.json").read_bytes()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    folder = tmp_path_factory.mktemp("unbroken")
    run_training(SAMPLING, folder)
    return files(folder)


def raising_at(step: int) -> Any:
    def on_steps(steps: int, _row: object) -> None:
        if steps >= step:
            raise KeyboardInterrupt

    return on_steps


def test_checkpoints_by_the_clock_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken: tuple[bytes, bytes]
) -> None:
    """One after every episode, and a stop in between: the same bytes as with none."""
    monkeypatch.setattr(running, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(running, "CHECKPOINT_COST", float("inf"))
    for step in (60, 140):
        with pytest.raises(KeyboardInterrupt):
            run_training(SAMPLING, tmp_path, on_steps=raising_at(step))
        found = newest_checkpoint(tmp_path)
        assert found is not None
        period = SAMPLING.overrides["checkpoint_steps"]
        assert isinstance(period, int)
        assert steps_of(found) % period != 0
    run_training(SAMPLING, tmp_path)
    assert files(tmp_path) == unbroken


@pytest.mark.parametrize(
    ("signum", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 2)]
)
def test_a_signal_saves_a_checkpoint_at_the_end_of_the_episode(
    signum: int, times: int, tmp_path: Path, unbroken: tuple[bytes, bytes]
) -> None:
    before = signal.getsignal(signum)
    sent: list[int] = []

    def on_steps(steps: int, _row: object) -> None:
        if steps >= 40 and not sent:
            sent.append(steps)
            for _ in range(times):
                os.kill(os.getpid(), signum)

    with pytest.raises(Stopped) as stop:
        run_training(SAMPLING, tmp_path, on_steps=on_steps)
    assert stop.value.signum == signum
    assert signal.getsignal(signum) == before
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert sent[0] <= steps_of(found) < 90, "before the first checkpoint by steps"
    assert resumption(tmp_path) == f"resume from step {steps_of(found)}"
    run_training(SAMPLING, tmp_path)
    assert files(tmp_path) == unbroken


def test_a_signal_in_an_evaluation_repeats_it_when_resumed(
    tmp_path: Path, unbroken: tuple[bytes, bytes]
) -> None:
    def on_evaluation(steps: int) -> None:
        if steps == 5:
            os.kill(os.getpid(), signal.SIGINT)

    for _ in range(3):
        with pytest.raises(Stopped):
            run_training(SAMPLING, tmp_path, on_evaluation=on_evaluation)
        assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 1, "no row yet"
    run_training(SAMPLING, tmp_path)
    assert files(tmp_path) == unbroken
    assert len(list(tmp_path.glob("checkpoint-*"))) == 1


def test_a_second_signal_or_a_long_episode_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_steps(steps: int, _row: object) -> None:
        if steps == 20:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(stopping, "GRACE", -1.0)
    with pytest.raises(Stopped):
        run_training(SAMPLING, tmp_path, on_steps=on_steps)
    assert newest_checkpoint(tmp_path) is None
    assert resumption(tmp_path) == "start from the beginning"
    stop = stopping.Stop()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_complete_run_is_extended(tmp_path: Path) -> None:
    short, long = replace(SAMPLING, steps=100), replace(SAMPLING, steps=200)
    for name in ("one", "two"):
        run_training(short, tmp_path / name)
    first = files(tmp_path / "one")[0]
    with pytest.raises(NeedReplayError, match="holds a run with steps 100, not 90"):
        run_training(replace(SAMPLING, steps=90), tmp_path / "one")
    run_training(long, tmp_path / "one")
    assert files(tmp_path / "one")[0].startswith(first)
    assert read_json(tmp_path / "one" / "config.json")["steps"] == 200
    assert read_json(tmp_path / "one" / "history.json")["extended_from"] == [100]
    # Stopped on the way, with the old checkpoint and the new length, it ends the same.
    with pytest.raises(KeyboardInterrupt):
        run_training(long, tmp_path / "two", on_steps=raising_at(120))
    with pytest.raises(NeedReplayError, match="To extend that run, finish it first"):
        run_training(replace(SAMPLING, steps=300), tmp_path / "two")
    run_training(long, tmp_path / "two")
    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_another_type_of_cpu_warns_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_training(SAMPLING, tmp_path, on_steps=raising_at(100))
    monkeypatch.setattr(machines, "machine", lambda: {"cpu": "another"})
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_training(SAMPLING, tmp_path, on_steps=raising_at(0), on_warning=said.append)
    (line,) = said
    assert "-> another" in line
    assert "no longer the same bits" in line
    assert [each["cpu"] for each in machines.machines_of(tmp_path)][1:] == ["another"]


@pytest.mark.parametrize("name", ["steps", "capacity"])
def test_a_run_that_learns_nothing_raises(name: str, tmp_path: Path) -> None:
    config = RunConfig("CartPole-v1", "per", steps=500, overrides={"min_history": 600})
    if name == "capacity":
        config = replace(config, steps=900, overrides={"min_history": 600, "capacity": 500})
    with pytest.raises(NeedReplayError, match=f"min_history is 600, above {name} 500"):
        run_training(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
