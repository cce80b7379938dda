"""What stands beside the bar, and settings explained."""

from __future__ import annotations

from dataclasses import fields

import pytest

from needreplay.training.config import Protocol, RunConfig
from needreplay.training.explain import explained, meanings
from needreplay.training.watch import beginning, told
from needreplay.worlds.named import WorldSettings


def test_time_to_finish() -> None:
    row = {"train_return": 3.14159, "eval_return": 10.0}
    assert told(10, 36_010, 10.0, row) == (
        "10 of 36,010 steps, 10 a second, 60 min to finish, return 3.142, in evaluation 10"
    )
    assert told(0, 10, 0.0, None) == "0 of 10 steps"
    assert ", 0 s to finish" in told(12, 10, 1.0, None), "the last episode is played to its end"


def test_every_setting_has_its_meaning() -> None:
    torch = pytest.importorskip("torch")
    assert torch
    from needreplay.deep import DeepSettings

    for kind in (DeepSettings, WorldSettings, Protocol):
        said = meanings(kind)
        assert set(said) == {field.name for field in fields(kind)}
        assert all(text and "\n" not in text for text in said.values())
    found = explained(RunConfig("minatar/breakout", overrides={"scale": "raw"}).resolved())
    (scale,) = [each for each in found["agent"] if each.name == "scale"]
    assert (scale.value, scale.choices) == ("raw", ("raw", "mean", "max"))


@pytest.mark.parametrize(("kept", "words"), [(True, "beginning"), (False, "compiled")])
def test_who_waits_for_kernels_is_told_so(
    kept: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("needreplay.core.jit.has_cached_kernels", lambda _package: kept)
    assert words in beginning()
    assert ("compiled" in beginning()) != kept
