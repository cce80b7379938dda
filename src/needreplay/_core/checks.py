"""Validation of numbers and settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from needreplay._core.errors import NeedReplayError, unknown

N = TypeVar("N", int, float)
Bounds = Mapping[str, tuple[float, float]]

SHARE = (0.0, 1.0)
ANY = (0.0, math.inf)
COUNT = (0, math.inf)
AT_LEAST_ONE = (1, math.inf)
OWN = "module:name"
"""How a user's own class or function is named."""


def check_fields(settings: Any, bounds: Bounds) -> None:
    """Raise for a field whose value is not of its type or outside its bounds."""
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


def words_of(kind: object) -> tuple[str, ...]:
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


def as_made(made: object) -> str:
    """How ``made`` was made: its class, and the arguments that are not the default.

    Its attributes have the names of the arguments.
    """
    said = {
        name: (repr(getattr(made, name, argument.default)), repr(argument.default))
        for name, argument in inspect.signature(type(made)).parameters.items()
    }
    own = [f"{name}={value}" for name, (value, default) in said.items() if value != default]
    return f"{type(made).__name__}({', '.join(own)})"


def is_whole(value: object) -> bool:
    """Whether ``value`` is an integer; True and 2.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_number(name: str, value: Any, kind: type[N], bounds: tuple[float, float] | None) -> N:
    """``value`` as a plain int or float; raises for what is neither, or is outside its bounds."""
    low, high = bounds or (-math.inf, math.inf)
    right = is_whole(value) or (kind is float and isinstance(value, float | np.floating))
    # NaN and infinity pass only where there are no bounds. A float32 cannot be compared with large
    # numbers.
    if right and (bounds is None or (low <= kind(value) <= high and abs(kind(value)) < math.inf)):
        return kind(value)
    number = "a whole number" if kind is int else "a number"
    if right and not is_whole(value) and math.isinf(value):
        number = "a finite number"
    allowed = number
    if bounds is not None:
        allowed += f" from {low} to {high}" if high < math.inf else f", {low} or more"
    raise NeedReplayError(f"{name} is {value!r}; it must be {allowed}.")
