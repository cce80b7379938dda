"""A study that never ends: each run leaves a file that says it has begun, and sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from needreplay.core.progress import Progress
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.runs import run_specs, runs_folder
from needreplay.sweeps import RunSpec


def begin_and_sleep(config: dict[str, Any], folder: Path, on_units: Callable[[int], None]) -> None:
    Path(os.environ["FAKE_STARTED"], str(os.getpid())).touch()
    time.sleep(600)


def run(request: Request, progress: Progress) -> Outcome:
    specs = [RunSpec("fake_hanging:begin_and_sleep", {"number": number}) for number in range(4)]
    with runs_folder(request) as folder, progress.task("hanging", total=4) as bar:
        run_specs(specs, folder, request.workers, bar, name="hanging")
    raise AssertionError("it cannot come to an end")


STUDY = Study("hanging", "Never done", "Will it end?", ("printed",), run, "docs/hanging.md")
