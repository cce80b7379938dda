"""The exception that the command line turns into a sentence and exit code 2, and the warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches


class NeedReplayError(ValueError):
    """Something that was asked for cannot be done; the message says what to do instead."""


def unknown(kind: str, name: object, known: Iterable[str]) -> NeedReplayError:
    """The error for a name that is not in a list.

    >>> print(unknown("agent", "pre", ["uniform", "per", "rank"]))
    There is no agent 'pre'; choose from: uniform, per, rank. Did you mean 'per'?
    """
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return NeedReplayError(f"There is no {kind} {name!r}; choose from: {', '.join(names)}.{hint}")


def not_installed(who_needs_what: str, extra: str) -> NeedReplayError:
    """The error for a package that is not installed: names the extra, and what it asks for.

    >>> print(not_installed("Deep agents need torch", "deep"))
    Deep agents need torch, which is not installed; install it with: pip install 'needreplay[deep]'
    (torch>=2.6)
    """
    from importlib import metadata  # slow, and this is rare

    try:
        required = [line.partition(";") for line in metadata.requires("needreplay") or ()]
    except metadata.PackageNotFoundError:  # the source alone
        required = []
    pins = [pin.strip() for pin, _, when in required if f"'{extra}'" in when.replace('"', "'")]
    return NeedReplayError(
        f"{who_needs_what}, which is not installed; install it with: "
        f"pip install 'needreplay[{extra}]'" + (f" ({', '.join(pins)})" if pins else "")
    )


class NeedReplayWarning(UserWarning):
    """What makes replay wrong without an error. Each is shown once for a buffer."""


def warn(message: str) -> None:
    """Warn of the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("needreplay."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, NeedReplayWarning, stacklevel=level)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
