"""A memory filled beforehand: every string of actions, lived through once from the start.

Schaul et al. 2016, section 3.1; Yuan & Mattar, appendix B.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from needreplay.compiled import compiled
from needreplay.types import BoolArray, IntArray, TransitionTable


def exhaustive_memory(
    table: TransitionTable, length: int, *, until_fall: bool
) -> tuple[npt.NDArray[np.int32], BoolArray]:
    """The pairs of all ``actions ** length`` strings, and which of them begin a string.

    Slot i holds one transition of a deterministic world, so its pair s · actions + a says all of
    it. Slots are in the order in which they were lived: string by string, from its first action.

    Args:
        table: the world; its reward is 0 but for the goal's.
        length: actions of each string.
        until_fall: stop a string where it returns to the start; otherwise it goes on from there.
    """
    n_actions = table.n_actions
    n_strings = n_actions**length
    pair = np.empty(n_strings * length, np.int32)
    begins = np.zeros(pair.size, np.bool_)
    stored = _live_all(table.next_state, table.start, length, n_strings, until_fall, pair, begins)
    return pair[:stored].copy(), begins[:stored].copy()


@compiled
def _live_all(
    next_state: IntArray,
    start: int,
    length: int,
    n_strings: int,
    until_fall: bool,
    pair: npt.NDArray[np.int32],
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
