"""Hostile tables for ``watch`` and ``fit``, and arrays for the detectors of events."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from needlab.report.viewer import write_viewer
from needlab.report.watched import World, watched_runs, world_named
from needlab.tabular.decoded import detect_events
from needlab.tabular.fit import data_of, fit_events, read_data, write_data
from needlab.tabular.replay_events import replay_events
from needlab.tabular.rivals import simulate_model
from needlab.worlds import tabular_world
from needreplay._core.errors import NeedReplayError

MAZE = "S......G"
HOSTILE = (
    "", " ", "-1", "-2", "0", "7", "1.5", "nan", "inf", "-inf", "1e400", "1e39", "true", "False",
    "none", "forward", "=1+1", "<script>", '"', "'", "\x00", "\ufeff", "\u0663", "9" * 30,
    "x" * 300, "0x10", "1_000", "1,2", "1e300", "9223372036854775808", "\n", "\r", "published",
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

    def read() -> None:
        logs = watched_runs(str(path), _world())
        if rng.random() < 0.05:
            write_viewer(place / "page.html", logs, title="a hostile table")

    return answered(text, read)


def answered(what: str, read: Callable[[], object]) -> tuple[str, str]:
    """Read something hostile: it is read, or rejected in a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read()
    except NeedReplayError as error:
        message = str(error)
        one_sentence = message.endswith((".", "?")) and len(message) > 20
        return f"rejected: {what!r}", "" if one_sentence else message
    except Exception:
        return f"failed: {what!r}", traceback.format_exc(limit=-2)
    return f"read: {what!r}", ""


@cache
def _data() -> tuple[str, str]:
    """Two good tables, of replayed states and of positions."""
    found = simulate_model("recency", tabular_world(MAZE), episodes=3)
    with TemporaryDirectory() as folder:
        names = Path(folder) / "events.csv", Path(folder) / "steps.csv"
        write_data(data_of(found, tabular_world(MAZE)), *names)
        events, steps = (name.read_text() for name in names)
    return events, steps


def damaged(text: str, rng: np.random.Generator) -> str:
    """A table in which a cell, a row, a column or a name is wrong."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(int(rng.integers(1, 3))):
        row, how = int(rng.integers(len(rows))), rng.random()
        column = int(rng.integers(len(rows[row]) or 1))
        if how < 0.6 and rows[row]:
            rows[row][column] = str(rng.choice(HOSTILE))
        elif how < 0.7:
            del rows[row]
        elif how < 0.8:
            other = int(rng.integers(len(rows)))
            rows[row], rows[other] = rows[other], rows[row]
        elif how < 0.9:
            rows = [[cell for k, cell in enumerate(each) if k != column] for each in rows]
        else:
            rows = rows[: row + 1]
        if not rows:
            break
    return "\n".join(",".join(row) for row in rows)


def attack_fit(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Let ``fit`` read two tables, and fit what it accepts now and then."""
    texts, names = list(_data()), ("events.csv", "steps.csv")
    which = int(rng.integers(2))
    texts[which] = damaged(texts[which], rng)
    if rng.random() < 0.2:
        texts[1 - which] = damaged(texts[1 - which], rng)
    for name, text in zip(names, texts, strict=True):
        (place / name).write_bytes(text.encode())

    def read() -> None:
        data = read_data(place / names[0], place / names[1], tabular_world(MAZE))
        if rng.random() < 0.1:
            fit_events(data, "recency,lapse=0.01", free=("stay",), intervals="none")

    return answered(texts[which], read)


def attack_events(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Let ``detect_events`` and ``replay_events`` see hostile arrays."""
    numbers: list[Any] = [0, 1, 2, 8, -1, -2, 9, 2**31, 2**63 - 1, 2**63, 10**30, 0.5, 1e400]
    numbers += [float("nan"), None, "1", "", True, [], 1j]

    def hostile(count: int, allowed: int) -> Any:
        entries: list[Any] = rng.integers(-1 if allowed > 2 else 0, allowed, count).tolist()
        for _ in range(int(rng.integers(0, 2))):
            if entries:
                entries[int(rng.integers(count))] = numbers[int(rng.integers(len(numbers)))]
        dtype = rng.choice(["", "", "i4", "u1", "f8", "O", "M8[s]", "U3"])
        if not dtype:
            return entries
        try:
            with np.errstate(all="ignore"):
                return np.array(entries, dtype)
        except (TypeError, ValueError, OverflowError):
            return entries

    count = int(rng.integers(0, 9))
    states, times = hostile(count, 9), np.arange(count) * 0.1
    table = [[max(s - 1, 0), min(s + 1, 8)] for s in range(9)]
    adjacency: Any = [np.eye(9, k=1, dtype=bool), table, hostile(9, 2), np.zeros((0, 0), bool),
                      hostile(3, 3)][int(rng.choice([0, 0, 1, 1, 2, 3, 4]))]  # fmt: skip
    options: dict[str, Any] = {"adjacency": adjacency}
    if rng.random() < 0.3:
        options["times"] = hostile(count, 9) if rng.random() < 0.5 else times
    for name in ("skip", "shortest", "stay", "order"):
        if rng.random() < 0.1:
            options[name] = numbers[int(rng.integers(len(numbers)))]
            if name == "order" and rng.random() < 0.7:
                options[name] = hostile(9, 9)
    if rng.random() < 0.5:
        what = f"detect_events({states!r}, {options!r})"
        return answered(what, lambda: detect_events(states, **options))
    actions = hostile(count, 2)
    more = {name: options[name] for name in ("shortest",) if name in options}
    for name in ("permutations", "level", "count"):
        if rng.random() < 0.1:
            more[name] = numbers[int(rng.integers(len(numbers)))]
    if more.get("permutations") in (2**31, 2**63 - 1, 2**63, 10**30):
        del more["permutations"]  # they are work for years
    moves = table if rng.random() < 0.7 else adjacency
    what = f"replay_events({states!r}, {actions!r}, {moves!r}, {more!r})"
    return answered(what, lambda: replay_events(states, actions, moves, **more))


ATTACKS = {
    "tables for watch": attack,
    "tables for fit": attack_fit,
    "arrays of events": attack_events,
}
