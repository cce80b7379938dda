"""Worlds whose rewards change at an episode, written in the world's own text.

A line ``G from episode 25: 4 sd 0.1`` below the board gives the letter's cells another reward from
that episode on; episodes count from 0. Otherwise the format is that of ``worlds.text``.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from needlab.worlds.make import Source, tabular_world
from needlab.worlds.tabular import Schedule, check_schedule
from needlab.worlds.text import is_text, read_text
from needreplay._core.errors import NeedReplayError

_CHANGE = re.compile(r"[ \t]*(\S)[ \t]+from[ \t]+episode[ \t]+(\d+)[ \t]*:[ \t]*(.*)")


def tabular_schedule(source: Source, **options: Any) -> Schedule:
    r"""A world by name, text or file as a list of (first episode, world).

    Every tabular agent takes such a list in place of a world: ``run_trials``, ``simulate``.

    >>> [(begin, float(world.magnitudes.max())) for begin, world in tabular_schedule(
    ...     "S..G\n\nG: 1\nG from episode 25: 4")]
    [(0, 1.0), (25, 4.0)]

    Args:
        source: as ``tabular_world`` takes it.
        options: as ``tabular_world`` takes them.
    """
    text = ""
    if isinstance(source, str) and is_text(source):
        text = source
    elif isinstance(source, str | Path) and (
        str(source).endswith(".txt") or Path(source).is_file()
    ):
        text = read_text(source)
    if not any(map(_CHANGE.fullmatch, text.splitlines())):
        return [(0, tabular_world(source, **options))]
    name = "The world" if source == text else str(source)
    return check_schedule(
        [(begin, tabular_world(own, **options)) for begin, own in texts_of(text, name)]
    )


def texts_of(text: str, name: str) -> list[tuple[int, str]]:
    """(first episode, text without changes) of every part of a text."""
    kept, changes = [], []
    for line in textwrap.dedent(text).splitlines():
        match = _CHANGE.fullmatch(line)
        if match is None:
            kept.append(line)
        else:
            changes.append((int(match[2]), match[1], match[3]))
    texts = [(0, "\n".join(kept))]
    for begin, letter, reward in sorted(changes, key=lambda change: change[0]):
        before, own = texts[-1]
        if begin == 0:
            raise NeedReplayError(
                f"{name} says '{letter} from episode 0: {reward}'; write '{letter}: {reward}'."
            )
        usual = re.compile(rf"^[ \t]*{re.escape(letter)}[ \t]*:.*$", re.MULTILINE)
        changed, count = usual.subn(f"{letter}: {reward}", own)
        if not count:
            gap = "" if "\n\n" in own.strip("\n") else "\n"
            changed = f"{own.rstrip()}\n{gap}{letter}: {reward}"
        if begin == before:
            texts.pop()
        texts.append((begin, changed))
    return texts
