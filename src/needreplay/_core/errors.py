"""The one exception that the command line turns into a sentence and exit code 2; and its words."""

from __future__ import annotations

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


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
