"""Tasks for worker processes.

Run as a script it starts two of them, which leave a file each in a folder and then are busy.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from needreplay.core.errors import NeedReplayError
from needreplay.sweeps.engines.pool import Pool


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


def answer_and_stay(path: str) -> str:
    """A thread of it is busy for a while, and then says so: Python waits for it before it exits."""

    def busy() -> None:
        time.sleep(20)
        Path(path).touch()

    threading.Thread(target=busy).start()
    return "answered"


def hang_up_and_stay(path: str) -> None:
    """Closes its end of the pipe without an answer, and is busy for a while."""
    for pipe in [found for found in gc.get_objects() if isinstance(found, Connection)]:
        pipe.close()
    time.sleep(20)
    Path(path).touch()


def is_deaf(job: int) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def sleep() -> None:
    time.sleep(60)


def begin_and_sleep(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


if __name__ == "__main__":
    pool = Pool(2)
    try:
        for key in range(2):
            pool.start(key, begin_and_sleep, sys.argv[1])
        pool.wait()
    finally:
        pool.close()
