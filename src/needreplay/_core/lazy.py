"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def load_name(package: str, names: dict[str, Any], home_of: Mapping[str, str], name: str) -> Any:
    """The attribute ``name`` of ``package``, from its module; kept in ``names`` (its globals)."""
    if name not in home_of:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(import_module(home_of[name]), name)
    names[name] = value
    return value


def has_torch() -> bool:
    """Whether torch is installed; without it, names that need it would stop ``import *``."""
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # an import hook, or None in sys.modules, hides it
        return False
