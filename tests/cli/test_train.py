"""``needreplay train`` and ``needreplay eval``: what is printed where, and exit codes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from needlab.cli import main

pytest.importorskip("torch")
pytest.importorskip("minatar")

SMALL = (
    "min_history=60 capacity=300 batch_size=8 features=8 iteration_steps=100 eval_steps=20 "
    "checkpoint_steps=100"
)
SETTINGS = [word for setting in SMALL.split() for word in ("--set", setting)]


def words(world: str, steps: int | str, out: Path, *more: str) -> list[str]:
    return ["train", "--world", world, "--steps", str(steps), *SETTINGS, "--out", str(out), *more]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert main(words("minatar/breakout", 220, folder, "--agent", "per-sr")) == 0
    return folder


def test_training_says_a_line_per_iteration_where_nobody_watches(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words("CartPole-v1", "2.1e2", tmp_path, "--agent", "per")) == 0
    out, err = capfd.readouterr()
    rows = (tmp_path / "metrics.csv").read_text().splitlines()[1:]
    assert len(rows) >= 2
    lines = err.splitlines()
    assert [line.split()[0] for line in lines] == [row.split(",")[1] for row in rows]
    assert all(" of 210 steps, " in line for line in lines)
    assert out.count("\n") == 1
    assert "steps, return in training" in out
    assert out.endswith(f"-> {tmp_path / 'metrics.csv'}\n")


def test_settings_are_explained_without_training(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--world", "atari/Pong", "--settings", "--set", "scale=raw"]) == 0
    out, _ = capfd.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert ["*", "scale", "raw"] in [line[:3] for line in lines]
    assert ["sticky", "0.25"] in [line[:2] for line in lines]
    assert ["iteration_steps", "250000"] in [line[:2] for line in lines]
    assert "(raw, mean, max)" in out


def test_eval_reports_returns_and_need(run_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run_folder), "--episodes", "7"]) == 0
    first, need = capfd.readouterr().out.splitlines()
    assert first.startswith("per-sr on minatar/breakout after ")
    assert need.startswith(("Need: AUC 0.", "Need: not measured"))
    assert "95% interval" in first
    assert "(7 episodes, seed 0)" in first


def test_eval_is_decided_by_its_seed(run_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in ("1", "1", "2"):
        assert main(["eval", str(run_folder), "--seed", seed, "--epsilon", "1"]) == 0
        said.append(capfd.readouterr().out.partition(": return")[2].partition("(10 ep")[0])
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train", "Name a folder for the run: --out DIR."),
        ("train --out x --set scale", "--set 'scale' is not of the form NAME=VALUE."),
        ("train --out x --set scale=big", "There is no scale 'big'; choose from: raw, mean, max."),
        ("train --out x --set featurs=3", "There is no setting 'featurs'; choose from: action_set"),
        ("train --out=", "--out is ''; name a folder."),
        ("train --out x --world :", "':' is not of the form module:name."),
        ("train --out x\0y --world CartPole-v1", "--out is 'x\\x00y'; name a folder."),
        ("train --out x --world CartPole-v1 --device meta", "The device 'meta' cannot be used: "),
        ("train --out x --world CartPole-v1 --set capacity=1e30", "An agent with capacity 1,000,"),
        ("train --out x --world CartPole-v1 --set capacity=1e13", "An agent with capacity 10,000"),
        ("train --out x --world CartPole-v1 --steps nan", "steps is nan; it must be a whole numb"),
        ("report x --seed -1", "--seed must be at least 0, not -1."),
        ("train --out x --world Pendulum-v1", "The world 'Pendulum-v1' has the action space Box"),
        ("train --out x --world minatar/pong", "There is no MinAtar game 'pong'; choose from"),
        ("train --out x --steps 0", "steps is 0; it must be a whole number, 1 or more."),
        ("train --world CartPole-v1 --out /proc/x", "The folder '/proc/x' cannot be written"),
        ("eval nowhere", "'nowhere' is not the folder of a training run: it has no config.json."),
        ("eval RUN --episodes 0", "--episodes must be at least 1, not 0."),
        ("eval RUN --epsilon 2", "eval_epsilon is 2.0; it must be a number from 0.0 to 1.0."),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(
    line: str,
    said: str,
    run_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.replace("RUN", str(run_folder)).split()) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"needreplay: {said}")
    assert list(tmp_path.iterdir()) == [], "nothing is left of it"


def test_a_run_without_or_with_a_damaged_checkpoint_cannot_be_played(
    run_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_bytes((run_folder / "config.json").read_bytes())
    assert main(["eval", str(tmp_path)]) == 2
    assert "has no checkpoint yet; train on" in capfd.readouterr().err
    (checkpoint,) = run_folder.glob("checkpoint-*")
    shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    (tmp_path / checkpoint.name / "networks.pt").write_bytes(b"no network")
    assert main(["eval", str(tmp_path)]) == 2
    assert "networks.pt' is damaged" in capfd.readouterr().err
    (tmp_path / "config.json").write_text('{"word": "garden"}')
    assert main(["eval", str(tmp_path)]) == 2
    assert "is not the config of a training run" in capfd.readouterr().err


def test_killed_stopped_and_resumed_from_the_command_line(tmp_path: Path) -> None:
    """kill -9 at moments of the clock, then Ctrl-C, then the same command to its end."""
    random = np.random.default_rng(0)
    line = [sys.executable, "-m", "needlab", *words("CartPole-v1", 700, tmp_path / "run")]

    def begun(checkpoints: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
            # A shell that runs the tests in the background has children that ignore Ctrl-C.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and process.poll() is None:
            found = list((tmp_path / "run").glob("checkpoint-*"))
            if any(int(path.name.rpartition("-")[2]) >= checkpoints * 100 for path in found):
                break
            time.sleep(0.01)
        time.sleep(float(random.uniform(0.0, 0.1)))
        return process

    process = begun(1)
    process.kill()
    assert process.communicate()[0] == ""
    assert process.returncode == -signal.SIGKILL
    process = begun(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    steps = [int(path.name.rpartition("-")[2]) for path in (tmp_path / "run").glob("checkpoint-*")]
    assert f"resume from step {max(steps)} with: needreplay train --world CartPole-v1" in err
    for folder in ("run", "unbroken"):
        assert main(words("CartPole-v1", 700, tmp_path / folder)) == 0
    for name in ("metrics.csv", "done.json"):
        there = [(tmp_path / run / name).read_bytes() for run in ("run", "unbroken")]
        assert there[0] == there[1], name
