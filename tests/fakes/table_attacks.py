"""Hostile tables for ``needreplay watch``: a fixed part in the tests, more in make fuzz."""

from __future__ import annotations

import traceback
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from needlab.report.viewer import write_viewer
from needlab.report.watched import World, watched_runs, world_named
from needreplay._core.errors import NeedReplayError

HOSTILE = (
    "", " ", "-1", "-2", "0", "7", "1.5", "nan", "inf", "-inf", "1e400", "1e39", "true", "False",
    "none", "forward", "=1+1", "<script>", '"', "'", "\x00", "\ufeff", "\u0663", "9" * 30,
    "x" * 300, "0x10", "1_000", "1,2", "\n", "\r", "published",
)  # fmt: skip
BACKUPS = (
    "pause", "state", "action", "episode", "order", "when", "agent_state", "reward", "gain",
    "need", "chain_length", "direction", "event", "preset", "agent", "trial",
)  # fmt: skip
DECODED = ("event", "time", "state", "direction")


def hostile_table(rng: np.random.Generator) -> str:
    """A table of backups or decoded states in which some cells, names and rows are wrong."""
    columns = BACKUPS if rng.random() < 0.6 else DECODED
    names = [*columns[: int(rng.integers(2, len(columns) + 1))]]
    good = {
        "direction": "none",
        "event": "-1" if columns is BACKUPS else "0",
        "when": "before",
        "time": None,
        "order": None,
    }
    lines = []
    for row in range(int(rng.integers(0, 6))):
        cells = [good.get(name, "0") or str(row) for name in names]
        for place in range(len(cells)):
            if rng.random() < 0.03:
                cells[place] = str(rng.choice(HOSTILE))
        lines.append(",".join(cells[:-1] if rng.random() < 0.02 else cells))
    if rng.random() < 0.1:
        names[int(rng.integers(len(names)))] = str(rng.choice([*HOSTILE, *names]))
    return "\n".join([",".join(names), *lines])


@cache
def _world() -> World:
    return world_named("linear-track")


def attack(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Let ``watch`` read a table; what was tried, and a line if it failed."""
    text, path = hostile_table(rng), place / "hostile.csv"
    path.write_bytes(text.encode())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            logs = watched_runs(str(path), _world())
            if rng.random() < 0.05:
                write_viewer(place / "page.html", logs, title="a hostile table")
    except NeedReplayError as error:
        message = str(error)
        one_sentence = message.endswith(".") and len(message) > 20
        return f"rejected: {text!r}", "" if one_sentence else message
    except Exception:
        return f"failed: {text!r}", traceback.format_exc(limit=-2)
    return f"shown: {text!r}", ""


ATTACKS = {"tables of replay": attack}
