"""Runs of kind ``deep``: the training of a deep agent, resumed from its checkpoints."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from needreplay.sweeps.kinds import Config, Kind, OnUnits
from needreplay.training.config import RunConfig

_PROBE_ITERATION = 500


def _run_config(config: Config) -> RunConfig:
    return RunConfig(**config)


def run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Train, or go on with it."""
    from needreplay.training.run import run_training

    def stepped(steps: int, row: dict[str, Any] | None) -> None:  # noqa: ARG001
        on_units(steps)

    run_training(_run_config(config), folder, on_steps=stepped)


def complete(config: Config) -> Config:
    """All fields of a ``RunConfig``; unknown agents, presets and settings are refused."""
    from needreplay.sweeps.kinds import REQUIRED, filled

    defaults = {**asdict(RunConfig(world="")), "world": REQUIRED}
    found = _run_config(filled(config, defaults, "deep"))
    found.resolved()
    return {**asdict(found), "overrides": dict(found.overrides)}


def probe(config: Config) -> Config:
    """A run that learns from its first steps on, with evaluation in its usual share."""
    resolved = _run_config(config).resolved()
    protocol, agent = resolved.protocol, resolved.agent
    share = protocol.eval_steps / protocol.iteration_steps
    overrides = {
        **config["overrides"],
        "min_history": min(agent.min_history, 200),
        "capacity": min(agent.capacity, 10_000),
        "iteration_steps": _PROBE_ITERATION,
        "eval_steps": round(share * _PROBE_ITERATION),
        "checkpoint_steps": 10**9,
    }
    return {**config, "overrides": overrides, "steps": min(config["steps"], 50_000), "seed": 0}


def command(config: Config, folder: Path) -> str:
    """``needreplay train`` with this run's words."""
    words = ["needreplay", "train"]
    for name in ("world", "agent", "preset", "steps", "seed", "device"):
        words += [f"--{name}", str(config[name])]
    for name, value in config["overrides"].items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join([*words, "--out", str(folder)])


KIND = Kind(run=run, complete=complete, probe=probe, command=command)
