"""``needreplay.need.diagnose`` for the agent of a training run."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from needlab.runs.evaluation import load_player
from needreplay.replay import Batch

if TYPE_CHECKING:
    from needreplay.need import Diagnosis


def diagnose_run(
    folder: str | Path, *, allow_code: Collection[str] = (), **options: Any
) -> Diagnosis:
    """Diagnose the agent of a run's newest checkpoint, on its replay buffer.

    Args:
        folder: the run's.
        allow_code: modules that the run may import.
        **options: as ``needreplay.need.diagnose`` takes them.
    """
    from needlab.deep.dqn import to_transitions
    from needreplay.need import NeedBuffer, diagnose

    agent = load_player(folder, with_buffer=True, allow_code=allow_code).agent

    def loss(network: Any, batch: Batch) -> Any:
        learner, one = copy.copy(agent.q), np.ones(len(batch))
        learner.online = network
        own = Batch(batch.ids, one, one, agent.buffer.read(batch.ids))
        error = learner.td_errors(
            to_transitions(own, agent.buffer, agent.settings, agent.device)
        ).error
        return error**2 / 2

    has_need = isinstance(agent.replay, NeedBuffer)
    return diagnose(agent.q.online, loss, agent.replay if has_need else agent.buffer, **options)
