"""Runs that count, for tests of sweeps: they resume, raise, die or fill the disk when asked to."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from needlab.core.tables import write_json
from needlab.runs import RunSpec

KIND = "fake_runs:count"


def specs() -> list[RunSpec]:
    """For ``needreplay sweep fake_runs:specs``; FAKE_* say how they behave."""
    seconds = float(os.environ.get("FAKE_SECONDS", "0"))
    log = os.environ.get("FAKE_LOG", "")
    return [
        counting(seed, seconds=seconds, log=log) for seed in range(int(os.environ["FAKE_RUNS"]))
    ]


def counting(seed: int, **config: Any) -> RunSpec:
    base = {"world": "counting", "agent": "counter", "seed": seed, "steps": 5}
    return RunSpec(KIND, {**base, **config})


def count(config: dict[str, Any], folder: Path, on_units: Callable[[int], None]) -> None:
    """Write the squares of the steps times the seed, one a row, going on after what is there."""
    _log(config, "began")
    path = folder / "metrics.csv"
    lines = path.read_text().splitlines() if path.exists() else ["steps,eval_return"]
    for step in range(len(lines), config["steps"] + 1):
        time.sleep(config.get("seconds", 0.0) / config["steps"])
        if step == 3:
            _misbehave(config, folder)
        lines.append(f"{step},{(config['seed'] + 1) * step * step / 7}")
        path.write_text("\n".join(lines) + "\n")
        on_units(step)
    write_json(folder / "done.json", {"steps": config["steps"]})
    _log(config, "ended")


def no_mark(config: dict[str, Any], folder: Path, on_units: Callable[[int], None]) -> None:
    """Forgets to say that it is done."""


def _misbehave(config: dict[str, Any], folder: Path) -> None:
    how = config.get("how")
    if how == "raise":
        raise RuntimeError(f"seed {config['seed']} has <no> luck")
    if how == "die":
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "die once" and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "full disk" and not Path(config["space"]).exists():
        # A file may not grow any more: what a full disk is to whoever writes.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        write_json(folder / "more.json", list(range(100)))


def _log(config: dict[str, Any], what: str) -> None:
    if config.get("log"):
        name = f"{config['seed']}-{what}-{time.time_ns()}-{os.getpid()}"
        Path(config["log"], name).touch()
