"""The folder of a sweep: a folder for each run, and what is known of each by looking.

DIR/sweep.json says what the sweep is; DIR/runs/<name>/ has config.json, command.txt, metrics.csv,
done.json when it is complete, failed.json when it raised, and progress.json while it runs.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from needreplay._version import __version__
from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import prepare_folder, read_json, write_json, write_text
from needreplay.sweeps.file import Sweep
from needreplay.sweeps.kinds import kind_named
from needreplay.sweeps.spec import RunSpec

SWEEP = "sweep.json"
CONFIG, DONE, FAILED, PROGRESS = "config.json", "done.json", "failed.json", "progress.json"


@dataclass(frozen=True)
class SweepFolder:
    """Where a sweep's runs are."""

    path: Path

    def of(self, name: str) -> Path:
        """The folder of a run."""
        return self.path / "runs" / name

    @property
    def lock(self) -> Path:
        """Held while a sweep works here."""
        return self.path / ".lock"

    def prepare(self, sweep: Sweep, argv: Sequence[str], chosen: Sequence[RunSpec]) -> None:
        """Write down what the sweep is, and the config and command of the chosen runs."""
        prepare_folder(self.path / "runs")
        for spec in chosen:
            begin(self.of(spec.name), spec, self._command(spec, argv))
        names = [spec.name for spec in sweep.runs]
        if len(chosen) < len(names) and self._listed() == names:
            # Who does some runs again, with other options, does not change what the sweep is.
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
        """The runs that the folder says it is a sweep of."""
        try:
            return read_json(self.path / SWEEP)["runs"]
        except (NeedReplayError, KeyError, TypeError):
            return None

    def _command(self, spec: RunSpec, argv: Sequence[str]) -> str:
        own = kind_named(spec.kind).command(dict(spec.config), self.of(spec.name))
        return own or (shlex.join([*argv, "--only", spec.name]) if argv else "")

    def is_done(self, name: str) -> bool:
        """Whether a run is complete."""
        return (self.of(name) / DONE).exists()

    def progress(self, name: str) -> tuple[int, float]:
        """How far a run says it is, and how long it has worked; zeros where it does not say."""
        try:
            said = json.loads((self.of(name) / PROGRESS).read_text(encoding="utf-8"))
            units, seconds = int(said["units"]), float(said["seconds"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return 0, 0.0
        return (units, seconds) if math.isfinite(seconds) else (0, 0.0)

    def write_failure(self, name: str, lines: Sequence[str], attempts: int) -> None:
        """Leave word of a failure for the report; a full disk must not stop the other runs."""
        with contextlib.suppress(NeedReplayError):
            write_json(self.of(name) / FAILED, {"attempts": attempts, "lines": list(lines)})


def begin(folder: Path, spec: RunSpec, command: str) -> None:
    """Make a run's folder with its config; one that holds another config is refused."""
    prepare_folder(folder)
    path = folder / CONFIG
    if path.exists():
        _refuse_another(path, spec)
    else:
        write_json(path, spec.plain)
    if command and not (folder / "command.txt").exists():
        write_text(folder / "command.txt", command + "\n")


def _refuse_another(path: Path, spec: RunSpec) -> None:
    there: Any = read_json(path)
    # Through JSON and back, so that a tuple and a list are the same here too.
    if there != json.loads(json.dumps(spec.plain)):
        raise NeedReplayError(
            f"{str(path)!r} holds another config than its name says; somebody changed it. "
            "Remove that folder to run it anew."
        )
