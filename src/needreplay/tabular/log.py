"""A log of replay: what was replayed, when, and what it changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.types import FloatArray, IntArray


class ReplayLog(NamedTuple):
    """Room for replay events; with no room nothing is written and nothing is paid."""

    integers: IntArray
    """[event, 5]: ``INTEGER_COLUMNS``"""
    floats: FloatArray
    """[event, 4]: ``FLOAT_COLUMNS``"""
    count: IntArray
    """one number: events so far, also those for which there was no room"""


INTEGER_COLUMNS = ("episode", "step", "agent_state", "state", "action")
FLOAT_COLUMNS = ("gain", "need", "q_before", "q_after")


def new_log(capacity: int) -> ReplayLog:
    """A log with room for ``capacity`` events."""
    return ReplayLog(
        integers=np.zeros((capacity, len(INTEGER_COLUMNS)), np.int64),
        floats=np.zeros((capacity, len(FLOAT_COLUMNS))),
        count=np.zeros(1, np.int64),
    )


@compiled
def write_event(
    log: ReplayLog,
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
    """Append one event where there is room, and count it. Writes ``log``."""
    event = log.count[0]
    if event < log.integers.shape[0]:
        log.integers[event, 0] = episode
        log.integers[event, 1] = step
        log.integers[event, 2] = agent_state
        log.integers[event, 3] = state
        log.integers[event, 4] = action
        log.floats[event, 0] = gain
        log.floats[event, 1] = need
        log.floats[event, 2] = q_before
        log.floats[event, 3] = q_after
    log.count[0] = event + 1
