"""What the server of killed runs imports once: torch, and kernels that a short run has loaded.

No update is made here: torch refuses to learn in a process forked from one that has.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace

from killed import CONFIGS

import needreplay.deep  # noqa: F401
from needreplay.runs.training.run import run_training

for config in CONFIGS.values():
    overrides = {**config.overrides, "min_history": 10_000, "iteration_steps": 10_000}
    with tempfile.TemporaryDirectory() as folder:
        run_training(replace(config, steps=40, overrides=overrides), folder)
