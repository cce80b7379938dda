"""A study that never ends: each job leaves a file that says it has begun, and sleeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

from needreplay.runs.many import run_many
from needreplay.runs.progress import Progress
from needreplay.studies.base import Outcome, Request, Study


def begin_and_sleep(job: int) -> None:
    Path(os.environ["FAKE_STARTED"], str(os.getpid())).touch()
    time.sleep(600)


def run(request: Request, progress: Progress) -> Outcome:
    with progress.task("hanging", total=4) as bar:
        run_many(begin_and_sleep, range(4), workers=request.workers, progress=bar)
    raise AssertionError("it cannot come to an end")


STUDY = Study("hanging", "Never done", "Will it end?", ("printed",), run, "docs/hanging.md")
