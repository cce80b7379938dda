"""Do one run of a sweep in its folder, in a worker process or a Ray task."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from needlab.core.lock import locked
from needlab.core.machine import record_machine
from needlab.runs.kinds import kind_named
from needlab.runs.sweep_file import RunSpec
from needlab.runs.sweep_folder import DONE, FAILED, PROGRESS, prepare_run, read_progress
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

LAST_LINES = 6
_SECONDS_BETWEEN_REPORTS = 1.0
_SECONDS_FOR_ANOTHER = 600.0
"""A node that the cluster has given up may still work on the run."""


def execute(spec: RunSpec, folder: Path, version: str = __version__) -> None:
    """Run ``spec`` in ``folder`` until it is complete; leave a complete run as it is.

    Args:
        spec: what to run.
        folder: the run's folder.
        version: of needreplay where the sweep was started; another one here is refused, because
            the runs of a sweep must not depend on the machine that does them.
    """
    if version != __version__:
        raise NeedReplayError(
            f"The sweep was started by needreplay {version}, but this machine has {__version__}; "
            "install the same version on every machine."
        )
    prepare_run(folder, spec)
    busy = f"{{holder}} is still working on the run in {str(folder)!r}."
    with locked(folder / ".lock", busy, wait=_SECONDS_FOR_ANOTHER):
        if (folder / DONE).exists():
            return
        (folder / FAILED).unlink(missing_ok=True)
        if spec.kind != "deep" and (warning := record_machine(folder)):
            print(f"needreplay: {warning}", file=sys.stderr)
        with Pace(folder / PROGRESS) as pace:
            kind_named(spec.kind).run(dict(spec.config), folder, pace.update)
        if not (folder / DONE).exists():
            raise NeedReplayError(
                f"The run {spec.name} of kind {spec.kind!r} ended without writing {DONE}."
            )


def errors_of(spec: RunSpec, folder: Path, version: str = __version__) -> tuple[str, ...]:
    """``execute``; the last lines of its error, or nothing if the run is complete."""
    try:
        execute(spec, folder, version)
    except Exception as error:
        return last_lines(error)
    return ()


def last_lines(error: BaseException) -> tuple[str, ...]:
    """The end of a traceback; of a refusal its message alone."""
    if isinstance(error, NeedReplayError):
        return (str(error),)
    lines = "".join(traceback.format_exception(error)).splitlines()
    return tuple(line.rstrip() for line in lines if line.strip())[-LAST_LINES:]


class Pace:
    """Writes about once a second how many units a run has done, and its seconds of work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0.0
        self._units = 0
        self._started = time.monotonic() - read_progress(path)[1]

    def __enter__(self) -> Pace:
        return self

    def __exit__(self, *error: object) -> None:
        self._write()

    def update(self, units: int) -> None:
        """Record that ``units`` are done."""
        self._units = units
        now = time.monotonic()
        if now - self._written >= _SECONDS_BETWEEN_REPORTS:
            self._written = now
            self._write()

    def _write(self) -> None:
        seconds = round(time.monotonic() - self._started, 3)
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(json.dumps({"units": self._units, "seconds": seconds}))
            part.replace(self._path)
        except OSError:
            # The run matters more than its progress.
            part.unlink(missing_ok=True)
