"""A study that never ends: each trial leaves a file that says it has begun, and sleeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options, Result, Study


def begin_and_sleep(case: int, trial: int) -> dict[str, int]:
    Path(os.environ["FAKE_STARTED"], str(os.getpid())).touch()
    time.sleep(600)
    return {"case": case, "trial": trial}


def run(options: Options, runner: TrialRunner) -> Result:
    runner.run(begin_and_sleep, range(4), 1, label="hanging", seconds=600)
    raise AssertionError("it cannot end")


STUDY = Study("hanging", "Never done", "Will it end?", ("printed",), run, "docs/hanging.md")
