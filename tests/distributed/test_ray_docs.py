"""The page's code and the example run on a cluster."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

DOCS = Path(__file__).parents[2] / "docs"


def test_the_code_of_the_page(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "many_machines.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(block, {})
    promised = [line.split("#")[-1].strip() for line in block.splitlines() if "print(" in line]
    assert capsys.readouterr().out.split("\n")[:-1] == promised


def test_the_example_trains(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    train = import_module("ray_cartpole").train
    assert train(updates=400) >= 8.0, "no episode of CartPole is shorter"
    printed = capsys.readouterr().out
    assert f"'sampled': {(400 + 2) * 64}," in printed, "two batches are prefetched"
    assert "'lost': 0" in printed
