"""The kinds of run, by name. A kind's module is imported when one of its runs is asked for.

A kind is a function ``run(config, folder, on_units)`` that does the work in ``folder`` and goes on
with what it finds there; it ends by writing ``done.json``. ``on_units`` is told how much is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from needreplay.core.errors import NeedReplayError, unknown

Config: TypeAlias = dict[str, Any]
OnUnits: TypeAlias = Callable[[int], None]

_MODULES = {
    "deep": "needreplay.sweeps.deep",
    "maze": "needreplay.sweeps.maze",
    "cliffwalk": "needreplay.studies.cliffwalk.sweep_kind",
}


def _as_it_is(config: Config) -> Config:
    return config


def _said_units(config: Config) -> int:
    return int(config.get("steps", 1))


def _no_command(config: Config, folder: Path) -> str:  # noqa: ARG001
    return ""


@dataclass(frozen=True)
class Kind:
    """What can be done with runs of one kind."""

    run: Callable[[Config, Path, OnUnits], None]
    complete: Callable[[Config], Config] = _as_it_is
    """every value filled in; what cannot be run is refused"""
    units: Callable[[Config], int] = _said_units
    """how much work it is: steps, or trials"""
    unit: str = "steps"
    probe: Callable[[Config], Config] | None = None
    """a shorter run from which the speed of this one can be told"""
    command: Callable[[Config, Path], str] = _no_command
    """what does this one run by hand; empty: nothing but the sweep does"""


def kind_named(name: str) -> Kind:
    """A kind that ships, or one's own as ``module:name``: a function, or a whole ``Kind``."""
    if name in _MODULES:
        kind: Kind = import_module(_MODULES[name]).KIND
        return kind
    if ":" not in name:
        raise unknown("kind of run", name, [*_MODULES, "module:function"])
    found = _found(name)
    return found if isinstance(found, Kind) else Kind(run=_callable(found, name))


def imported(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names."""
    return _callable(_found(name), name)


def _found(name: str) -> Any:
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except ImportError as error:
        raise NeedReplayError(
            f"{name!r} cannot be imported ({error}); the module must be installed, on PYTHONPATH "
            "or in the present folder, on every machine that runs it."
        ) from error
    except AttributeError as error:
        raise NeedReplayError(f"The module {module!r} has no {function!r}.") from error


def _callable(found: Any, name: str) -> Callable[..., Any]:
    if not callable(found):
        raise NeedReplayError(f"{name!r} is not a function.")
    function: Callable[..., Any] = found
    return function


def filled(config: Config, defaults: Config, kind: str) -> Config:
    """``defaults`` with the values of ``config``; a name that is not known is refused."""
    for name in config:
        if name not in defaults:
            raise unknown(f"entry of a {kind} run", name, defaults)
    missing = [name for name, value in {**defaults, **config}.items() if value is REQUIRED]
    if missing:
        raise NeedReplayError(f"A {kind} run needs its {missing[0]}.")
    return {**defaults, **config}


REQUIRED: Any = object()
