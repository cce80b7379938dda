"""A memory filled beforehand: every string of actions, lived through once from the start.

Schaul et al. 2016, section 3.1; Yuan & Mattar, appendix B.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import BoolArray, IntArray, TransitionTable

MOST = 2**27
"""Transitions; a trial takes some 60 bytes for each."""


class ExhaustiveMemory(NamedTuple):
    """Slot i holds one transition of a deterministic world: its pair (s, a) says all of it.

    Slots are sorted by state, and within a state in the order in which they were lived: what is
    drawn together lies together.
    """

    pair: npt.NDArray[np.int16]
    """[slot]: s · actions + a"""
    before: npt.NDArray[np.int32]
    """[slot]: the slot of what was lived just before it, in the same string; -1: none"""


def exhaustive_memory(table: TransitionTable, length: int, *, until_fall: bool) -> ExhaustiveMemory:
    """All ``actions ** length`` strings, each lived from the start.

    Args:
        table: the world.
        length: actions of each string.
        until_fall: stop a string where it returns to the start; otherwise it goes on from there.
    """
    n_strings = table.n_actions**length
    if n_strings * length > MOST:
        raise NeedReplayError(
            f"{length} states are a memory of up to {n_strings * length:,} transitions, and more "
            f"than {MOST:,} would not fit; choose fewer states."
        )
    lived = np.empty(n_strings * length, np.int16)
    begins = np.zeros(lived.size, np.bool_)
    stored = _live_all(table.next_state, table.start, length, n_strings, until_fall, lived, begins)
    lived, begins = lived[:stored], begins[:stored]
    order = np.argsort(lived // table.n_actions, kind="stable")
    slot_of = np.empty(stored, np.int32)
    slot_of[order] = np.arange(stored, dtype=np.int32)
    before = np.where(begins, np.int32(-1), np.roll(slot_of, 1))
    return ExhaustiveMemory(lived[order], before[order])


@jit
def _live_all(
    next_state: IntArray,
    start: int,
    length: int,
    n_strings: int,
    until_fall: bool,
    pair: npt.NDArray[np.int16],
    begins: BoolArray,
) -> int:
    """Walk every string; writes ``pair`` and ``begins``, answers with how many were stored.

    String number i, written in base ``actions`` with ``length`` digits, is its list of actions.
    """
    n_actions = next_state.shape[1]
    stored = 0
    for string in range(n_strings):
        state = start
        digit = n_strings // n_actions
        begins[stored] = True
        for _ in range(length):
            action = (string // digit) % n_actions
            digit = max(digit // n_actions, 1)
            pair[stored] = state * n_actions + action
            stored += 1
            state = next_state[state, action]
            if until_fall and state == start:
                break
    return stored
