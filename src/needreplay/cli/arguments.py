"""Arguments that several subcommands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from needreplay.core.errors import NeedReplayError

AllowCode = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODULE")]


def folder_named(argument: str, text: str) -> Path:
    """The folder of an argument; refuse what is no path."""
    if not text or "\0" in text:
        raise NeedReplayError(f"{argument} is {text!r}; name a folder.")
    return Path(text)


def check_seed(seed: int) -> None:
    """Refuse a seed that is no seed."""
    if seed < 0:
        raise NeedReplayError(f"--seed must be 0 or more, not {seed}.")
