"""Objects of the user's own modules, named ``module:name``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from needreplay.core.errors import NeedReplayError


def allow_current_folder() -> None:
    """Let imports find modules of the current folder, as ``python -m`` does.

    Spawned processes inherit the path.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def load_object(name: str) -> Any:
    """Return what ``module:name`` names."""
    module, _, attribute = name.partition(":")
    allow_current_folder()
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise NeedReplayError(
            f"{name!r} cannot be imported ({error}); the module must be installed, on PYTHONPATH "
            "or in the current folder, on every machine that runs it."
        ) from error
    except AttributeError as error:
        raise NeedReplayError(f"The module {module!r} has no {attribute!r}.") from error
