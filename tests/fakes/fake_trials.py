"""Trials for tests of studies: exponentials that leave a file each, raise, die or dawdle."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

EPISODES = 20


class Case(NamedTuple):
    """What is run, and which trial goes wrong in which way, until the file ``mended`` exists."""

    seed: int
    preset: str
    agent: str
    bad: int = -1
    how: Literal["raise", "die", "die once"] = "raise"
    mended: str = ""


def trial(case: Case, number: int) -> dict[str, FloatArray]:
    """A fake learning curve; files in the folder FAKE_LOG say what was run, and how often.

    If there is a file "hang after" beside that folder, a trial hangs after so many others.
    """
    if "FAKE_LOG" in os.environ:
        log = Path(os.environ["FAKE_LOG"])
        hang = log.with_name("hang after")
        if hang.is_file() and len(list(log.iterdir())) >= int(hang.read_text()):
            time.sleep(600)
        name = f"{case.preset} {case.agent} {number} {time.time_ns()}"
        (log / name).touch()
    if number == case.bad:
        _misbehave(case)
    rng = stream(case.seed, case.preset, case.agent, number)
    speed = 0.5 if case.agent == "ps-sr" else 0.3
    return {"steps": 14 + 300 * np.exp(-speed * np.arange(EPISODES)) * rng.uniform(0.5, 1.5)}


def _misbehave(case: Case) -> None:
    mended = Path(case.mended)
    if case.how == "raise" and not mended.is_file():
        raise NeedReplayError("The maze has no goal.")
    if case.how == "die" or (case.how == "die once" and not mended.exists()):
        if case.how == "die once":
            mended.touch()
        os.kill(os.getpid(), signal.SIGKILL)
