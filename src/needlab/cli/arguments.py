"""Arguments that several subcommands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from needreplay._core.errors import NeedReplayError

AllowCode = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODULE")]


def folder_named(argument: str, text: str) -> Path:
    """The folder of an argument; raises for what is no path."""
    if not text or "\0" in text:
        raise NeedReplayError(f"{argument} is {text!r}; name a folder.")
    return Path(text)


def check_least(least: int, **values: int) -> None:
    """Raise for the value of an option that is below ``least``."""
    for name, value in values.items():
        if value < least:
            raise NeedReplayError(f"--{name} must be at least {least}, not {value}.")
