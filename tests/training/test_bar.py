"""What stands beside the bar, and settings explained."""

from __future__ import annotations

from dataclasses import fields

import pytest

from needlab.runs.bar import status
from needlab.runs.config import Protocol, RunConfig, explained, field_docs
from needlab.worlds.named import WorldSettings


def test_time_to_finish() -> None:
    row = {"train_return": 3.14159, "eval_return": 10.0}
    assert status(10, 36_010, 10.0, row) == (
        "10 of 36,010 steps, 10 per second, 60 min to finish, return 3.142, in evaluation 10"
    )
    assert status(0, 10, 0.0, None) == "0 of 10 steps"
    assert ", 0 s to finish" in status(12, 10, 1.0, None), "the last episode is played to its end"


def test_every_setting_has_its_meaning() -> None:
    torch = pytest.importorskip("torch")
    assert torch
    from needlab.deep import DeepSettings

    for kind in (DeepSettings, WorldSettings, Protocol):
        said = field_docs(kind)
        assert set(said) == {field.name for field in fields(kind)}
        assert all(text and "\n" not in text for text in said.values())
    config = RunConfig("minatar/breakout", overrides={"scale": "raw"})
    (scale,) = [each for each in explained(config.resolved().agent) if each.name == "scale"]
    assert (scale.value, scale.choices) == ("raw", ("raw", "mean", "max"))
