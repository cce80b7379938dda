"""The example runs with every sampler, from the command line too, and is short."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
FILE = Path(__file__).parents[2] / "examples" / "cartpole_dqn.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("cartpole_dqn", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_one_file_under_150_lines() -> None:
    assert len(FILE.read_text().splitlines()) < 150


def test_every_sampler_runs_and_differs_from_the_others(example: Any) -> None:
    """They share everything until the first update, and differ after it."""
    runs = {name: example.train(name, steps=750, seed=2) for name in example.SAMPLERS}
    first, second, third = runs.values()
    assert first[0] == second[0] == third[0]
    assert first != second
    assert second != third
    assert third == example.train("need", steps=750, seed=2), "a seed decides everything"


def test_the_command_line() -> None:
    words = [sys.executable, str(FILE), "--sampler", "uniform", "--steps", "100"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uniform: mean return")
