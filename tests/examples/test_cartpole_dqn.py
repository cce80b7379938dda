"""The example runs, learns from every draw, and is as short as it says."""

from __future__ import annotations

import importlib.util
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


def test_every_draw_runs_and_differs_from_the_others(example: Any) -> None:
    """They share everything until the first update, and part then."""
    runs = {draw: example.train(draw, steps=750, seed=2) for draw in ("uniform", "per", "need")}
    first, second, third = runs.values()
    assert first[0] == second[0] == third[0]
    assert first != second
    assert second != third
    assert third == example.train("need", steps=750, seed=2), "a seed decides everything"
