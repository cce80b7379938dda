"""Settings with what they mean: a dataclass's field docstrings, read from its source."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

if TYPE_CHECKING:
    from needreplay.training.config import Resolved


class Setting(NamedTuple):
    """One setting of a run."""

    name: str
    value: Any
    choices: tuple[str, ...]
    """what it may be, where that is a choice of words"""
    meaning: str


def meanings(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass, on one line."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    name = None
    for part in body.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            name = part.target.id
        elif name is not None and isinstance(part, ast.Expr):
            if isinstance(part.value, ast.Constant) and isinstance(part.value.value, str):
                found[name] = " ".join(part.value.value.split())
            name = None
    return found


def explained(resolved: Resolved) -> dict[str, list[Setting]]:
    """Every setting of a run under its heading: agent, world, protocol."""
    return {f.name: settings_of(getattr(resolved, f.name)) for f in fields(resolved)}


def settings_of(settings: Any) -> list[Setting]:
    """Every field of a dataclass, explained."""
    hints, said = get_type_hints(type(settings)), meanings(type(settings))
    return [
        Setting(
            field.name,
            getattr(settings, field.name),
            tuple(map(str, get_args(hints[field.name]))),
            said[field.name],
        )
        for field in fields(settings)
    ]
