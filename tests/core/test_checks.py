"""Settings as text, and as every command reads them."""

from __future__ import annotations

import pytest

from needlab.core.presets import parsed_settings, parsed_value
from needlab.report.watched import watched_run, world_named
from needreplay._core.errors import NeedReplayError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e5", 100_000),
        ("1e-3", 0.001),
        ("2.0", 2.0),
        ("true", True),
        ("raw", "raw"),
        ("x=y", "x=y"),
    ],
)
def test_words_become_values(text: str, value: object) -> None:
    found = parsed_value(text)
    assert (found, type(found)) == (value, type(value))
    assert parsed_settings([f"a={text}", "b=1"], "it") == {"a": value, "b": 1}


@pytest.mark.parametrize("wrong", ["a", "=1", "a="])
def test_what_is_no_setting_raises(wrong: str) -> None:
    with pytest.raises(NeedReplayError, match=f"it '{wrong}' is not of the form NAME=VALUE"):
        parsed_settings(["b=1", wrong], "it")


def test_watch_reads_whole_numbers_as_train_does() -> None:
    """A setting that must be whole: 1e1 was a float here, and raised."""
    track = world_named("linear-track")
    ten, same = (watched_run(f"evb,backups={text}", track, episodes=2) for text in ("10", "1e1"))
    assert ten.backups.tolist() == same.backups.tolist()
