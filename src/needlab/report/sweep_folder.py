"""Read a sweep's folder; it may come from anybody (see ``files``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from needlab.core.types import JsonObject
from needlab.report.files import UntrustedFolder, plain_name
from needlab.report.series import Series, last_number, series_of
from needreplay._core.errors import NeedReplayError

State = Literal["done", "failed", "running", "not started", "damaged"]

NEED = (
    "need_auc",
    "need_auc_baseline",
    "need_auc_past",
    "need_auc_time",
    "need_variation",
    "need_effective",
    "need_nearness",
)
"""Columns of a run's metrics that say how accurate need was."""


@dataclass
class ReadRun:
    """What was read from a run's folder."""

    name: str
    config: JsonObject
    state: State
    command: str = ""
    seconds: float | None = None
    lines: list[str] = field(default_factory=list)
    """of its failure, or what is damaged"""
    series: list[Series] = field(default_factory=list)
    """what it measured; only of a complete run"""
    need: dict[str, float] = field(default_factory=dict)
    """the quality of its need, last measured, NaN if it never was; empty without need"""


@dataclass
class SweepResults:
    """What was read from a sweep's folder."""

    name: str
    about: str
    command: str
    runs: list[ReadRun]
    problems: list[str]


def read_sweep(path: str | Path) -> SweepResults:
    """All runs in a sweep's folder; a folder without any raises."""
    folder = UntrustedFolder(Path(path))
    runs_folder = folder.path / "runs"
    if not runs_folder.is_dir():
        raise NeedReplayError(
            f"{str(path)!r} is not the folder of a sweep: it has no folder runs. "
            "needreplay sweep makes one."
        )
    record = folder.record("sweep.json")
    paths = [p for p in runs_folder.iterdir() if p.is_dir() and not p.is_symlink()]
    paths.sort(key=_order(record.get("runs")))
    runs = [_read_run(path) for path in paths if not path.name.startswith(".")]
    if not runs:
        raise NeedReplayError(f"There is no run in {str(runs_folder)!r} yet.")
    folder.problems += [
        f"{run.name}: {line}" for run in runs if run.state == "damaged" for line in run.lines
    ]
    command = record.get("command")
    return SweepResults(
        name=str(record.get("name") or folder.path.name),
        about=str(record.get("about") or ""),
        command=" ".join(map(str, command)) if isinstance(command, list) else "",
        runs=runs,
        problems=folder.problems,
    )


def _order(listed: object) -> Callable[[Path], tuple[int, str]]:
    """As the sweep lists its runs; others after them, by name."""
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    rank = {name: place for place, name in enumerate(names)}
    return lambda path: (rank.get(path.name, len(rank)), path.name)


def _read_run(path: Path) -> ReadRun:
    folder = UntrustedFolder(path)
    config = folder.record("config.json")
    if folder.problems:
        return ReadRun(plain_name(path), {}, "damaged", lines=folder.problems)
    run = ReadRun(plain_name(path), config, "not started", command=folder.text("command.txt"))
    run.seconds = _seconds(folder.record("progress.json", required=False).get("seconds"))
    if folder.has("done.json"):
        run.state = "done"
        try:
            table = folder.table("metrics.csv")
            run.series = series_of(run.config, table)
            need = {name: last_number(table, name) for name in NEED}
            run.need = need if np.isfinite(list(need.values())).any() else {}
        except NeedReplayError as error:
            run.state, run.lines = "damaged", [f"{folder.short(error)} It is left out."]
    elif folder.has("failed.json"):
        run.state = "failed"
        lines = folder.record("failed.json", required=False).get("lines")
        run.lines = [str(line) for line in lines] if isinstance(lines, list) else []
    elif folder.has("metrics.csv") or folder.has("progress.json"):
        run.state = "running"
    return run


def _seconds(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
