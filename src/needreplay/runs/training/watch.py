"""A training run that somebody watches: a bar with speed, return and time to finish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from needreplay.runs.progress import Progress
from needreplay.runs.training.config import RunConfig
from needreplay.runs.training.run import run_training


def run_watched(config: RunConfig, folder: str | Path) -> Path:
    """``run_training`` with progress; Ctrl-C says how to go on."""
    done = 0
    with Progress().task(f"{config.agent} on {config.world}", total=config.steps) as bar:

        def moved(steps: int, row: dict[str, Any] | None) -> None:  # noqa: ARG001
            nonlocal done
            bar.advance(min(steps, config.steps) - done)
            done = min(steps, config.steps)

        try:
            return run_training(config, folder, on_steps=moved)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"stopped at step {done:,}; the same command goes on from the last checkpoint."
            ) from stop
