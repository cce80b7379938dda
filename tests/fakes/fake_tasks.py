"""Tasks for worker processes.

Run as a script it starts two of them, which leave a file each in a folder, and then are busy or,
with the word idle, wait for work while the script sleeps.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
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


def new_lock(job: int) -> object:
    return threading.Lock()


def is_deaf(job: int) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def sleep() -> None:
    time.sleep(60)


def begin_and_sleep(job: tuple[str, float]) -> None:
    folder, seconds = job
    Path(folder, str(os.getpid())).touch()
    time.sleep(seconds)


if __name__ == "__main__":
    folder, how = sys.argv[1:]
    run_many(begin_and_sleep, [(folder, 0.5 if how == "idle" else 60)] * 4, workers=2)
    time.sleep(60)
