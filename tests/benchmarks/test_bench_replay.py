"""``benchmarks/bench_replay.py``: a table without peers, its JSON, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks/bench_replay.py"


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark as a module; what it sets for its process is undone."""
    for library in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    return import_module("bench_replay")


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    # In a process of its own: a benchmark keeps its process to one core.
    return subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True, text=True)


def test_the_table_and_its_numbers(tmp_path: Path) -> None:
    done = bench("--rounds", "2", "--capacity", "300", "--json", str(tmp_path / "b.json"))
    assert done.returncode == 0, done.stderr
    assert "| us a call, N = 300 | needreplay |" in done.stdout
    assert "2 alternating rounds" in done.stdout
    assert done.stderr == ""
    written = json.loads((tmp_path / "b.json").read_text())
    assert [len(result["rounds"]["needreplay"]) for result in written["results"]] == [2] * 9
    for result in written["results"]:
        first, second = result["rounds"]["needreplay"]
        assert result["medians"]["needreplay"] == pytest.approx((first + second) / 2)
        assert first > 0


def test_a_row_of_fewer_transitions_says_so(replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_STACKS", 50)
    stacks = next(task for task in replay.TASKS if task.name == "frames 32")
    options: dict[str, Any] = {"rounds": 1, "clock": "cpu", "libraries": ["needreplay"]}
    assert replay.measure(stacks, capacity=60, **options).words == f"{stacks.words}, N = 50"
    assert replay.measure(stacks, capacity=50, **options).words == stacks.words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rounds", "0"), "argument --rounds: must be at least 1, not 0"),
        (("--capacity", "-5"), "argument --capacity: must be at least 1, not -5"),
    ],
)
def test_refusals(words: tuple[str, ...], said: str) -> None:
    done = bench(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
