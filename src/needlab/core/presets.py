"""Presets, which are named sets of settings, and settings as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from needreplay._core.errors import NeedReplayError, unknown

S = TypeVar("S")


def changed(settings: S, **overrides: Any) -> S:
    """Copy ``settings`` with fields changed; refuse an unknown name and list the known ones."""
    record: Any = settings
    known = [field.name for field in fields(record)]
    for name in overrides:
        if name not in known:
            raise unknown("setting", name, known)
    result: S = replace(record, **overrides)
    return result


def preset(presets: Mapping[str, S], name: str, **overrides: Any) -> S:
    """The settings of a named preset, with any field changed.

    >>> from needlab.tabular.settings import PS_SR
    >>> preset(PS_SR, "printed", planning_updates=10).planning_updates
    10
    """
    if name not in presets:
        raise unknown("preset", name, presets)
    return changed(presets[name], **overrides)


def parsed_settings(words: Iterable[str], source: str) -> dict[str, Any]:
    """Settings that a command line has as NAME=VALUE; an error says that they are of ``source``.

    >>> parsed_settings(["scale=raw", "capacity=1e5", "reward_clip=false"], "--set")
    {'scale': 'raw', 'capacity': 100000, 'reward_clip': False}
    """
    settings = {}
    for word in words:
        name, _, text = word.partition("=")
        if not name or not text:
            raise NeedReplayError(f"{source} {word!r} is not of the form NAME=VALUE.")
        settings[name] = parsed_value(text)
    return settings


def parsed_value(text: str) -> Any:
    """A boolean, a number or a word, whichever fits first; 1e5 is a whole number.

    >>> [parsed_value(text) for text in ("true", "3", "1e5", "1e-3", "0.5", "raw")]
    [True, 3, 100000, 0.001, 0.5, 'raw']
    """
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    whole = "e" in text.lower() and number.is_integer()
    return int(number) if whole else number
