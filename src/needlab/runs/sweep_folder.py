"""The folder of a sweep, with a folder for each run.

DIR/sweep.json describes the sweep; DIR/runs/<name>/ has config.json, command.txt, metrics.csv,
done.json when complete, failed.json if it failed, and progress.json while it runs.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from needlab.core.tables import prepare_folder, read_json, write_json, write_text
from needlab.runs.kinds import kind_named
from needlab.runs.runner import LAST_LINES, Failure
from needlab.runs.sweep_file import RunSpec, Sweep
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

SWEEP = "sweep.json"
CONFIG, DONE, FAILED = "config.json", "done.json", "failed.json"


@dataclass(frozen=True)
class SweepFolder:
    """The folder of a sweep."""

    path: Path

    def of(self, name: str) -> Path:
        """The folder of a run."""
        return self.path / "runs" / name

    @property
    def lock(self) -> Path:
        """The lock of the sweep that works here."""
        return self.path / ".lock"

    def prepare(self, sweep: Sweep, argv: Sequence[str], chosen: Sequence[RunSpec]) -> None:
        """Write the description of the sweep, and config and command of the chosen runs."""
        prepare_folder(self.path / "runs")
        for spec in chosen:
            prepare_run(self.of(spec.name), spec, self._command(spec, argv))
        names = [spec.name for spec in sweep.runs]
        if len(chosen) < len(names) and self._listed() == names:
            # A repeat of some runs, maybe with other options, leaves the description as it is.
            return
        write_json(
            self.path / SWEEP,
            {
                "name": sweep.name,
                "about": sweep.about,
                "command": list(argv),
                "needreplay": __version__,
                "runs": names,
            },
        )

    def _listed(self) -> Any:
        try:
            return read_json(self.path / SWEEP)["runs"]
        except (NeedReplayError, KeyError, TypeError):
            return None

    def _command(self, spec: RunSpec, argv: Sequence[str]) -> str:
        own = kind_named(spec.kind).command(dict(spec.config), self.of(spec.name))
        return own or shlex.join([*argv, "--only", spec.name])

    def write_failure(self, failure: Failure) -> None:
        """Record a failure for the report; a full disk must not stop the other runs."""
        record = {"attempts": failure.attempts, "lines": failure.lines[-LAST_LINES:]}
        with contextlib.suppress(NeedReplayError):
            write_json(self.of(failure.item.name) / FAILED, record)


def prepare_run(folder: Path, spec: RunSpec, command: str = "") -> None:
    """Make a run's folder with its config; refuse a folder with another config."""
    prepare_folder(folder)
    path = folder / CONFIG
    if not path.exists():
        write_json(path, spec.plain)
    # Through JSON and back: there a tuple is a list.
    elif read_json(path) != json.loads(json.dumps(spec.plain)):
        raise NeedReplayError(
            f"{str(path)!r} holds another config than its folder's name stands for, so somebody "
            "changed it; remove that folder to start the run again."
        )
    if command and not (folder / "command.txt").exists():
        write_text(folder / "command.txt", command + "\n")
