"""The page's code and the example run on a cluster."""

from __future__ import annotations

import csv
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


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


def test_the_numbers_of_the_page_are_those_of_the_data() -> None:
    with (ROOT / "results/actors/returns.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    means = []
    for actors in ("0", "1"):
        own = [row for row in rows if row["actors"] == actors]
        runs = [[float(r["eval_return"]) for r in own if r["seed"] == str(k)] for k in range(8)]
        means.append(np.array([np.mean(run) for run in runs]))
    without, with_one = means
    interval = stats.ttest_ind(with_one, without, equal_var=False).confidence_interval()
    said = (
        f"was {with_one.mean():.1f} with an actor and {without.mean():.1f} without: a difference "
        f"of {with_one.mean() - without.mean():.1f}, 95% interval {interval.low:.1f} to "
        f"{interval.high:.1f}"
    )
    page = " ".join((DOCS / "many_machines.md").read_text(encoding="utf-8").split())
    assert said in page
