"""Read a sweep's folder, believing nothing in it.

A folder may come from somebody else, be half-written or damaged: whatever cannot be read is named
and left out. Nothing in it is ever run; files that are not plain files are not opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import Table, read_json, read_table
from needreplay.report.series import Series, series_of, series_of_parts

State = Literal["done", "failed", "under way", "not begun", "damaged"]


@dataclass
class ReadRun:
    """What a run's folder says."""

    name: str
    config: dict[str, Any]
    state: State
    command: str = ""
    seconds: float | None = None
    lines: list[str] = field(default_factory=list)
    """of its failure, or what is damaged"""
    series: list[Series] = field(default_factory=list)
    """what it measured; only of a complete run"""
    parts: list[ReadRun] = field(default_factory=list)
    """of a chunk: each part as a run of its own config"""

    @property
    def pieces(self) -> list[ReadRun]:
        """The parts of a chunk; any other run is one piece."""
        return self.parts or [self]


@dataclass
class Results:
    """What a sweep's folder says."""

    name: str
    about: str
    command: str
    runs: list[ReadRun]
    problems: list[str]


def read_results(folder: str | Path) -> Results:
    """All runs in ``folder``; a folder without any is refused."""
    folder = Path(folder)
    place = folder / "runs"
    if not place.is_dir():
        raise NeedReplayError(
            f"{str(folder)!r} is not the folder of a sweep: it has no folder runs. "
            "needreplay sweep makes one."
        )
    problems: list[str] = []
    said = _record(folder / "sweep.json", problems)
    paths = [p for p in place.iterdir() if p.is_dir() and not p.is_symlink()]
    paths.sort(key=_order(said.get("runs")))
    runs = [_read_run(path) for path in paths if not path.name.startswith(".")]
    if not runs:
        raise NeedReplayError(f"There is no run in {str(place)!r} yet.")
    problems += [
        f"{run.name}: {line}" for run in runs if run.state == "damaged" for line in run.lines
    ]
    command = said.get("command")
    return Results(
        name=str(said.get("name") or folder.name),
        about=str(said.get("about") or ""),
        command=" ".join(map(str, command)) if isinstance(command, list) else "",
        runs=runs,
        problems=problems,
    )


def _order(said: Any) -> Callable[[Path], tuple[int, str]]:
    """As the sweep lists its runs; others after them, by name."""
    listed = [str(name) for name in said] if isinstance(said, list) else []
    rank = {name: place for place, name in enumerate(listed)}
    return lambda path: (rank.get(path.name, len(rank)), path.name)


def _read_run(path: Path) -> ReadRun:
    problems: list[str] = []
    # A file's name may be bytes that are no text.
    name = path.name.encode(errors="backslashreplace").decode()
    config = _record(path / "config.json", problems)
    if problems:
        return ReadRun(name, {}, "damaged", lines=problems)
    run = ReadRun(name, config, "not begun", command=_text(path / "command.txt"))
    try:
        run.parts = _parts(run)
    except NeedReplayError as error:
        run.state, run.lines = "damaged", [f"{error} It is left out."]
        return run
    run.seconds = _seconds(_quietly(path / "progress.json").get("seconds"))
    if _is_plain(path / "done.json"):
        run.state = "done"
        try:
            _measured(run, _table(path / "metrics.csv"))
        except NeedReplayError as error:
            run.state, run.lines = "damaged", [f"{_short(error, path)} It is left out."]
    elif _is_plain(path / "failed.json"):
        run.state = "failed"
        lines = _quietly(path / "failed.json").get("lines")
        run.lines = [str(line) for line in lines] if isinstance(lines, list) else []
    elif _is_plain(path / "metrics.csv") or _is_plain(path / "progress.json"):
        run.state = "under way"
    return run


def _parts(run: ReadRun) -> list[ReadRun]:
    """The parts of a chunk, each as a run; what is no chunk has none."""
    if run.config.get("kind") != "chunk":
        return []
    said = run.config.get("parts")
    if not isinstance(said, list) or not said or not all(isinstance(one, dict) for one in said):
        raise NeedReplayError("config.json of a chunk has no list of parts.")
    of = run.config.get("of")
    return [
        ReadRun(f"{run.name}, part {number}", {"kind": of, **one}, run.state)
        for number, one in enumerate(said)
    ]


def _measured(run: ReadRun, table: Table) -> None:
    if not run.parts:
        run.series = series_of(run.config, table)
        return
    found = series_of_parts([part.config for part in run.parts], table)
    for part, series in zip(run.parts, found, strict=True):
        part.series = series


def _seconds(said: Any) -> float | None:
    try:
        return float(said) if isinstance(said, int | float) else None
    except OverflowError:
        return None


def _table(path: Path) -> Table:
    if not _is_plain(path):
        raise NeedReplayError(f"{path.name} is missing.")
    return read_table(path)


def _record(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        if not _is_plain(path):
            raise NeedReplayError(f"{path.name} is missing.")
        found = _writable(read_json(path))
        if isinstance(found, dict):
            return found
        problems.append(f"{path.name} is not a record.")
    except NeedReplayError as error:
        problems.append(_short(error, path.parent))
    return {}


def _writable(found: Any) -> Any:
    """With a question mark for half a character, which JSON can spell and no file can hold."""
    try:
        return json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise NeedReplayError(f"A record cannot be read: {error}.") from error


def _quietly(path: Path) -> dict[str, Any]:
    return _record(path, [])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() if _is_plain(path) else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _short(error: NeedReplayError, folder: Path) -> str:
    return str(error).replace(f"{folder}/", "")
