"""What the server of killed runs imports once: torch, and kernels that a short run has loaded.

Nothing is learned here: torch refuses to go backward in a process forked from one that has.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
from killed import CONFIGS, POOL

from needlab.deep import DeepAgent, UpdateStats
from needlab.runs.run import run_training
from needreplay._core.types import AnyArray
from needreplay.need import NeedModel, quality


def draw_only(agent: DeepAgent, present: AnyArray) -> UpdateStats:
    """An update without its backward pass: the buffer is sampled and updated."""
    drawn = agent._sample(present)
    agent.replay.update_priorities(drawn.ids, np.ones(len(drawn.ids)))
    return UpdateStats(0.0, 0.0, 1.0, None)


quality.POOL = POOL
learning, DeepAgent._update = DeepAgent._update, draw_only  # type: ignore[assignment, method-assign]
need_learning, NeedModel.learn = NeedModel.learn, lambda *_: np.nan  # type: ignore[method-assign]
for config in CONFIGS.values():
    overrides = {**config.overrides, "min_history": 10, "iteration_steps": 10_000}
    with tempfile.TemporaryDirectory() as folder:
        run_training(replace(config, steps=50, overrides=overrides), folder)
DeepAgent._update = learning  # type: ignore[method-assign]
NeedModel.learn = need_learning  # type: ignore[method-assign]
