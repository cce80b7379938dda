"""Do one run of a sweep in its folder: what a worker process or a Ray task does."""

from __future__ import annotations

import json
import os
import time
import traceback
from pathlib import Path

from needreplay._version import __version__
from needreplay.core.errors import NeedReplayError
from needreplay.core.lock import locked
from needreplay.sweeps.folder import DONE, FAILED, PROGRESS, begin
from needreplay.sweeps.kinds import kind_named
from needreplay.sweeps.spec import RunSpec

LAST_LINES = 6
_SECONDS_BETWEEN_REPORTS = 1.0
_WAIT_FOR_ANOTHER = 600.0
"""Seconds: a node that the cluster has given up may still be at work on the run."""


def execute(spec: RunSpec, folder: Path, version: str = __version__) -> None:
    """Run ``spec`` in ``folder`` until it is complete; a complete one is left as it is.

    Args:
        spec: what to run.
        folder: the run's own.
        version: needreplay's, where the sweep was started; another one here is refused, because
            runs of one sweep must not differ by the machine that did them.
    """
    if version != __version__:
        raise NeedReplayError(
            f"The sweep was started by needreplay {version}, but this machine has {__version__}; "
            "install the same version on every machine."
        )
    begin(folder, spec, "")
    busy = f"{{holder}} is still working on the run in {str(folder)!r}."
    with locked(folder / ".lock", busy, wait=_WAIT_FOR_ANOTHER):
        if (folder / DONE).exists():
            return
        (folder / FAILED).unlink(missing_ok=True)
        with Pace(folder / PROGRESS) as pace:
            kind_named(spec.kind).run(dict(spec.config), folder, pace.moved)
        if not (folder / DONE).exists():
            raise NeedReplayError(
                f"The run {spec.name} of kind {spec.kind!r} ended without writing {DONE}."
            )


class Pace:
    """Says about once a second how far a run is, and how long it has worked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._said = 0.0
        self._units = 0
        self._before = _seconds(path)

    def __enter__(self) -> Pace:
        return self

    def __exit__(self, *error: object) -> None:
        self._write()

    def moved(self, units: int) -> None:
        """So many units are done."""
        self._units = units
        now = time.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_REPORTS:
            self._said = now
            self._write()

    def _write(self) -> None:
        seconds = self._before + time.monotonic() - self._began
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(json.dumps({"units": self._units, "seconds": round(seconds, 3)}))
            part.replace(self._path)
        except OSError:
            # Nobody is told how far the run is; the run itself is what matters.
            part.unlink(missing_ok=True)


def _seconds(path: Path) -> float:
    """How long earlier attempts have worked."""
    try:
        return float(json.loads(path.read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return 0.0


def last_lines(error: BaseException) -> list[str]:
    """The end of a traceback; of a refusal, which is a sentence, the sentence alone."""
    if isinstance(error, NeedReplayError):
        return [str(error)]
    lines = "".join(traceback.format_exception(error)).splitlines()
    return [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]
