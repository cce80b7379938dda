"""Objects of the user's own modules, named ``module:name``.

Only the user may name code: what a file asks for is checked with ``check_code`` first.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from needreplay._core.errors import NeedReplayError

_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^:\s]+)")
_LOOKS_LIKE_CODE = re.compile(r"\s*[\w.]+\s*:")


def find_module(name: str) -> str:
    """The module of ``module:name``; the current folder is searched too, as by ``python -m``.

    Anything else with a colon raises. Spawned processes inherit the search path.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise NeedReplayError(f"{name!r} is not of the form module:name.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return found[1]


def load_object(name: str) -> Any:
    """Return what ``module:name`` names."""
    module, attribute = find_module(name), name.partition(":")[2]
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise NeedReplayError(
            f"{name!r} cannot be imported ({error}); the module must be installed, on PYTHONPATH "
            "or in the current folder, on every machine that runs it."
        ) from error
    except AttributeError as error:
        raise NeedReplayError(f"The module {module!r} has no {attribute!r}.") from error


def call_object(name: str, *args: object) -> Any:
    """Call what ``module:name`` names; an error in it becomes one sentence that says where."""
    return call_users(repr(name), load_object(name), *args)


def call_users(name: str, function: Callable[..., Any], *args: object) -> Any:
    """Call a function of the user's; an error in it becomes one sentence that says where."""
    try:
        return function(*args)
    except NeedReplayError:
        raise
    except Exception as error:
        passed = ", ".join(type(each).__name__ for each in args) or "nothing"
        frames = traceback.extract_tb(error.__traceback__)[1:]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise NeedReplayError(
            f"{name}, called with {passed}, raised {type(error).__name__}: {error}{where}."
        ) from error


def check_code(values: object, allowed: Collection[str], source: object) -> None:
    """Raise for ``values`` of a file that name code of a module which is not ``allowed``.

    A module allows its submodules, too.
    """
    for name in _code_in(values):
        module = name.partition(":")[0].strip()
        if not any(module == each or module.startswith(f"{each}.") for each in allowed):
            raise NeedReplayError(
                f"{source} asks for {name!r}, which runs code of the module {module!r}. A file "
                "cannot choose what runs here: if you trust that module, repeat the command with "
                f"--allow-code {module} (in Python: allow_code=[{module!r}])."
            )


def _code_in(value: object) -> Iterator[str]:
    """Every text that could be taken for ``module:name``."""
    if isinstance(value, str):
        if _LOOKS_LIKE_CODE.match(value):
            yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key != "device":  # cuda:1
                yield from _code_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _code_in(item)
