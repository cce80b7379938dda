"""Tasks for worker processes; run as a script, it starts two that sleep."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from needreplay.errors import NeedReplayError
from needreplay.runs.many import run_many


def slow_if_early(job: int) -> int:
    time.sleep(0.05 * (5 - job))
    return job * job


def process_id(job: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def fail_at_three(job: int) -> int:
    if job == 3:
        raise NeedReplayError("job 3 has no goal")
    return job


def die(job: int) -> None:
    os._exit(1)


def sleep() -> None:
    time.sleep(60)


def begin_and_sleep(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


if __name__ == "__main__":
    run_many(begin_and_sleep, [sys.argv[1]] * 4, workers=2)
