"""A training run in a process of its own that kills itself, as by kill -9, at a chosen moment."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from needlab.runs.config import RunConfig
from needlab.runs.run import run_training

TINY: dict[str, Any] = {
    "capacity": 300,
    "min_history": 60,
    "batch_size": 8,
    "features": 8,
    "target_period": 50,
    "update_period": 4,
    "iteration_steps": 100,
    "eval_steps": 30,
    "checkpoint_steps": 90,
    "epsilon_steps": 200,
}

POOL = 16
"""Transitions that the quality of need compares with, in all of these runs."""

CARTPOLE = RunConfig("CartPole-v1", "per-sr", steps=330, seed=3, overrides=TINY)
CONFIGS = {
    "per-sr": CARTPOLE,
    "n-step": RunConfig(
        "CartPole-v1", "per-sr-sampling", "corrected", steps=330, overrides={**TINY, "n_step": 3}
    ),
    "pser": RunConfig("CartPole-v1", "pser", "released", steps=330, overrides=TINY),
    "released": RunConfig("minatar/breakout", "per-sr", "released", steps=330, overrides=TINY),
    # Frames stored once, lost lives, idle starts: all of it has to come back.
    "atari": RunConfig(
        "atari/Breakout",
        "per-sr",
        "printed",
        steps=330,
        overrides={
            **TINY,
            "update_period": 40,
            "batch_size": 2,
            "decoder": "none",
            "episode_cap": 80,
            "sticky": 0.25,
            "noops": 5,
        },
    ),
    "sampling": RunConfig("minatar/breakout", "per-sr-sampling", steps=330, overrides=TINY),
}


def run_until(config: RunConfig, folder: Path, moment: str, count: int) -> None:
    """Run, and die at the ``count``-th ``moment``; in a process that is not needed any more."""
    from needlab.deep import DeepAgent
    from needreplay.need import quality

    quality.POOL = POOL

    def dying(work: Callable[..., Any]) -> Callable[..., Any]:
        seen = 0

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*args, **options)

        return counted

    if moment == "step":
        DeepAgent.observe = dying(DeepAgent.observe)  # type: ignore[method-assign]
    elif moment == "sync":
        os.fsync = dying(os.fsync)
    elif moment == "rename":
        Path.rename = dying(Path.rename)  # type: ignore[method-assign]
    elif moment == "remove":
        shutil.rmtree = dying(shutil.rmtree)  # type: ignore[assignment]
    run_training(config, folder)
