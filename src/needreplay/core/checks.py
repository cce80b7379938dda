"""Validation of numbers and settings, presets (named sets of settings), and settings as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from needreplay.core.errors import NeedReplayError, unknown

S = TypeVar("S")
N = TypeVar("N", int, float)
Bounds = Mapping[str, tuple[float, float]]

SHARE = (0.0, 1.0)
ANY = (0.0, math.inf)
COUNT = (0, math.inf)
AT_LEAST_ONE = (1, math.inf)
OWN = "module:name"
"""How a user's own class or function is named."""


def check_fields(settings: Any, bounds: Bounds) -> None:
    """Refuse a field whose value is not of its type or outside its bounds."""
    cls: Any = type(settings)
    for name, kind in _kinds(cls).items():
        value = getattr(settings, name)
        words = words_of(kind)
        if words:
            own = OWN in words and isinstance(value, str) and ":" in value
            if not own and (not isinstance(value, str) or value not in words):
                raise unknown(name, value, words)
        elif kind is bool:
            if not isinstance(value, bool | np.bool_):
                raise NeedReplayError(f"{name} is {value!r}; it must be True or False.")
        elif kind is str:
            if not isinstance(value, str):
                raise NeedReplayError(f"{name} is {value!r}; it must be text.")
        elif kind in (int, float):
            check_number(name, value, kind, bounds.get(name))


def words_of(kind: Any) -> tuple[str, ...]:
    """The words that a field of type ``kind`` takes; ``Literal | str``: one's own, too.

    >>> words_of(Literal["dqn"] | str)
    ('dqn', 'module:name')
    """
    if get_origin(kind) is Literal:
        return get_args(kind)
    parts = get_args(kind)
    return (*get_args(parts[0]), OWN) if str in parts and get_origin(parts[0]) is Literal else ()


@cache
def _kinds(settings: Any) -> dict[str, Any]:
    return get_type_hints(settings)


def is_whole(value: object) -> bool:
    """Whether ``value`` is an integer; True and 2.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_number(name: str, value: Any, kind: type[N], bounds: tuple[float, float] | None) -> N:
    """``value`` as a plain int or float; refuse what is neither, or outside its bounds."""
    low, high = bounds or (-math.inf, math.inf)
    right = is_whole(value) or (kind is float and isinstance(value, float | np.floating))
    # NaN passes only where there are no bounds.
    if right and (bounds is None or low <= value <= high):
        return kind(value)
    number = "a whole number" if kind is int else "a number"
    allowed = number
    if bounds is not None:
        allowed += f" from {low} to {high}" if high < math.inf else f", {low} or more"
    raise NeedReplayError(f"{name} is {value!r}; it must be {allowed}.")


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

    >>> from needreplay.tabular.settings import PS_SR
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
