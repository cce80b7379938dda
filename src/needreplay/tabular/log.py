"""A log of replay: what was replayed, when, and what it changed."""

from __future__ import annotations

import numpy as np

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import IntArray
from needreplay.tabular.layout import EVENTS, Records

EVENT = np.dtype(
    [
        ("episode", np.int64),
        ("step", np.int64),
        ("agent_state", np.int64),  # where the agent stands while it replays
        ("state", np.int64),  # the pair that was replayed
        ("action", np.int64),
        ("gain", np.float64),  # its gain when it was popped
        ("need", np.float64),  # its state's need; 1 where need plays no part
        ("q_before", np.float64),
        ("q_after", np.float64),
    ]
)


def new_log(capacity: int) -> Records:
    """Room for ``capacity`` events; with no room nothing is written and nothing is paid."""
    return np.zeros(capacity, EVENT)


@compiled_in_place
def write_event(
    log: Records,
    counts: IntArray,
    episode: int,
    step: int,
    agent_state: int,
    state: int,
    action: int,
    gain: float,
    need: float,
    q_before: float,
    q_after: float,
) -> None:
    """Append one event where there is room, and count it. Writes ``log`` and ``counts``."""
    event = counts[EVENTS]
    counts[EVENTS] = event + 1
    if event < log.shape[0]:
        log[event]["episode"] = episode
        log[event]["step"] = step
        log[event]["agent_state"] = agent_state
        log[event]["state"] = state
        log[event]["action"] = action
        log[event]["gain"] = gain
        log[event]["need"] = need
        log[event]["q_before"] = q_before
        log[event]["q_after"] = q_after
