"""``NAME=VALUE`` on the command line: settings that are changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from needreplay.core.errors import NeedReplayError


def parsed_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Each NAME=VALUE with its value as a truth, a number or a word, whichever it reads as.

    >>> parsed_overrides(["scale=raw", "features=32", "reward_clip=false"])
    {'scale': 'raw', 'features': 32, 'reward_clip': False}
    """
    overrides: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name or not text:
            raise NeedReplayError(f"--set {word!r} is not of the form NAME=VALUE.")
        overrides[name] = _value(text)
    return overrides


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
