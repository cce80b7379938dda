"""What a tabular agent knows, as arrays that compiled kernels write in place.

One record per pair (s, a) and one per state: all that a kernel needs of a pair lies in one cache
line. Pair number = s · actions + a. Links that may be -1 are signed; numbers that cannot be are
unsigned, since a signed index costs a kernel the test for counting from the end.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay.core.types import FloatArray, IntArray

Records: TypeAlias = npt.NDArray[Any]

PAIR = np.dtype(
    [
        ("q", np.float64),  # Q(s, a)
        ("gain", np.float64),  # in the queue; 0: not queued
        ("queued_at", np.int64),  # when it was queued, counted from 0
        ("reward", np.float64),  # of the model: the last one seen
        ("discount", np.float64),  # of the model: gamma, or 0 where the episode terminated
        ("state", np.uint32),  # s
        ("next_state", np.int32),  # of the model; -1: never experienced
        ("after", np.int32),  # the next pair that leads to the same state; -1: none
        ("before", np.int32),  # the one before; -1: none
        ("seen", np.uint32),  # entry i: the i-th pair that was experienced
    ],
    align=True,
)

STATE = np.dtype(
    [
        ("value", np.float64),  # max_a Q(s, a), kept beside Q
        ("trace", np.float64),  # the eligibility e(s); 0: not alive
        ("live", np.uint32),  # entry i: the i-th state whose trace is alive
        ("best_pair", np.uint32),  # the pair with the best queued gain; of equals, the first queued
        ("first", np.int32),  # the first pair that leads to this state; -1: none
        ("last", np.int32),  # the last one; -1: none
    ],
    align=True,
)

LIVE, SEEN, INSERTED, WAITING, STEPS, UPDATES, EVENTS, N_ACTIONS, BLOCK_SHIFT = range(9)
"""Places in ``counts``: live traces, pairs experienced, pairs ever queued, pairs queued now, steps
walked in a table, Q-updates, replay events; the number of actions; how many bits of a state's
number are its place in its block."""


class Knowledge(NamedTuple):
    """All that a tabular agent knows.

    ``best``, ``need``, ``key`` and ``block`` are the queue (see ``queue``); they are padded to a
    whole number of blocks with states that are never queued.
    """

    pairs: Records
    states: Records
    counts: IntArray
    best: FloatArray
    """[state]: its largest queued gain; 0: nothing queued"""
    need: FloatArray
    """[state]: what its gain is multiplied with"""
    key: FloatArray
    """[state]: best x need, its priority"""
    block: FloatArray
    """[block of states]: the largest positive key in it, or 0"""
    M: FloatArray
    """[state, state]: the successor matrix; empty for an agent that has none"""
    error: FloatArray
    """room for one row of M's TD-errors"""


def new_knowledge(n_states: int, n_actions: int, M: FloatArray | None = None) -> Knowledge:
    """An agent with Q = 0 that has seen nothing; ``M`` is where its need begins (copied)."""
    pairs = np.zeros(n_states * n_actions, PAIR)
    pairs["state"] = np.repeat(np.arange(n_states), n_actions)
    for link in ("next_state", "after", "before"):
        pairs[link] = -1
    states = np.zeros(n_states, STATE)
    for link in ("first", "last"):
        states[link] = -1
    shift = round(math.log2(n_states) / 2)
    blocks = (n_states + (1 << shift) - 1) >> shift
    padded = blocks << shift
    counts = np.zeros(9, np.int64)
    counts[N_ACTIONS], counts[BLOCK_SHIFT] = n_actions, shift
    return Knowledge(
        pairs=pairs,
        states=states,
        counts=counts,
        best=np.zeros(padded),
        need=np.ones(padded),
        key=np.zeros(padded),
        block=np.zeros(blocks),
        M=np.zeros((0, 0)) if M is None else np.array(M, dtype=np.float64, order="C"),
        error=np.zeros(n_states),
    )


def q_values(knowledge: Knowledge) -> FloatArray:
    """Q as a matrix [state, action]: a view, not a copy."""
    Q: FloatArray = knowledge.pairs["q"].reshape(len(knowledge.states), -1)
    return Q
