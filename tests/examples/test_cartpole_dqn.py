"""The example runs, learns from every draw, and is as short as it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("draw", ["uniform", "per", "need"])
def test_every_draw_learns(example: Any, draw: str) -> None:
    returns = example.train(draw, steps=1_200, seed=1)
    assert len(returns) > 10
    assert returns == example.train(draw, steps=1_200, seed=1), "a seed decides everything"


def test_the_draws_differ(example: Any) -> None:
    """They share everything until the first update, and part then."""
    first, second, third = (
        np.array(example.train(draw, steps=1_000, seed=2)) for draw in ("uniform", "per", "need")
    )
    assert first[0] == second[0] == third[0]
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)
