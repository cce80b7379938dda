"""What a tabular agent has learned, as arrays that compiled kernels change in place.

One record per pair (s, a) and one per state, so that all a kernel needs of a pair lies in one cache
line. Pair number = s · actions + a. Links that may be -1 are signed; other numbers are unsigned,
since a signed index costs a kernel the test for counting from the end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from needreplay._core.types import AnyArray, FloatArray, IntArray

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
        ("before", np.int32),  # the previous one; -1: none
        ("seen", np.uint32),  # entry i: the i-th pair that was experienced
    ],
    align=True,
)

STATE = np.dtype(
    [
        ("value", np.float64),  # max_a Q(s, a)
        ("best_pair", np.uint32),  # the pair with the best queued gain; of equals, the first queued
        ("first", np.int32),  # the first pair that leads to this state; -1: none
        ("last", np.int32),  # the last one; -1: none
    ],
    align=True,
)

SEEN, INSERTED, QUEUED, STEPS, UPDATES, EVENTS, N_ACTIONS, BLOCK_SHIFT = range(8)
"""Places in ``counts``: pairs experienced, pairs ever queued, pairs queued now, steps in the world,
Q-updates, logged events; the number of actions; how many bits of a state's number are its place in
its block."""


class AgentArrays(NamedTuple):
    """All that a tabular agent has learned.

    ``best``, ``need``, ``key`` and ``block`` are the queue (see ``queue``), padded to complete
    blocks with states that are never queued.
    """

    pairs: AnyArray
    """[pair]: Q, the model and the queue"""
    states: AnyArray
    """[state]"""
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
    trace: FloatArray
    """[state]: the eligibility trace of M"""
    active: IntArray
    """[state + 1]: the states with a trace, and at the end how many (``tabular.successor``)"""
    error: FloatArray
    """[state]: work space for one row of TD errors of M"""

    @property
    def Q(self) -> FloatArray:
        """[state, action]: a view, not a copy."""
        Q: FloatArray = self.pairs["q"].reshape(len(self.states), -1)
        return Q

    @property
    def updates(self) -> int:
        """How many Q-updates were made."""
        return int(self.counts[UPDATES])


def new_arrays(n_states: int, n_actions: int, M: FloatArray | None = None) -> AgentArrays:
    """An agent with Q = 0 that has seen nothing; ``M`` is the initial successor matrix (copied)."""
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
    counts = np.zeros(8, np.int64)
    counts[N_ACTIONS], counts[BLOCK_SHIFT] = n_actions, shift
    return AgentArrays(
        pairs=pairs,
        states=states,
        counts=counts,
        best=np.zeros(padded),
        need=np.ones(padded),
        key=np.zeros(padded),
        block=np.zeros(blocks),
        M=np.zeros((0, 0)) if M is None else np.array(M, dtype=np.float64, order="C"),
        trace=np.zeros(n_states),
        active=np.zeros(n_states + 1, np.int64),
        error=np.zeros(n_states),
    )
