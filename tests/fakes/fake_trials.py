"""Trials for tests of studies: exponentials that leave a file each, raise, die or dawdle."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.sweeps.kinds import Config
from needreplay.sweeps.trials import Trials, numbers_of, trial_kind

EPISODES = 20


def _rows(config: Config, trial: int) -> dict[str, Any]:
    _log(config, trial)
    if trial == config.get("bad"):
        _misbehave(config)
    rng = stream(config["seed"], config["preset"], config["agent"], trial)
    speed = 0.5 if config["agent"] == "ps-sr" else 0.3
    steps = 14 + 300 * np.exp(-speed * np.arange(EPISODES)) * rng.uniform(0.5, 1.5)
    return {"trial": np.full(EPISODES, trial), "steps": steps}


def _log(config: Config, trial: int) -> None:
    """Trials leave files in the folder FAKE_LOG: what was run, and how often."""
    if "FAKE_LOG" in os.environ:
        name = f"{config['preset']} {config['agent']} {trial} {time.time_ns()}"
        Path(os.environ["FAKE_LOG"], name).touch()


def _misbehave(config: Config) -> None:
    mended = Path(config["mended"])
    if config["how"] == "raise" and not mended.exists():
        raise NeedReplayError("The maze has no goal.")
    if config["how"] == "die":
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if config["how"] == "die once" and not mended.exists():
        mended.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def trials_of(config: Config) -> Trials:
    return Trials(numbers_of(config), partial(_rows, config), EPISODES)


KIND = trial_kind(trials_of, dict)
