"""The Blind Cliffwalk: a chain in which one action of two is right, and the other falls.

Schaul et al. 2016, section 3.1; Yuan & Mattar, section 4.2 and appendix B.2.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from needlab.worlds.tabular import TabularWorld, world_of_arrays
from needreplay._core.checks import check_number
from needreplay._core.errors import unknown
from needreplay._core.types import IntArray

Fall: TypeAlias = Literal["ends", "teleports"]
RightActions: TypeAlias = Literal["alternate", "first"]


def right_action_of(states: IntArray, right_actions: RightActions) -> IntArray:
    """The right action of each state: ``state % 2`` (alternate) or always 0 (first)."""
    if right_actions not in get_args(RightActions):
        raise unknown("rule of right actions", right_actions, get_args(RightActions))
    return states % 2 if right_actions == "alternate" else np.zeros_like(states)


def cliffwalk_world(
    n: int, fall: Fall = "ends", right_actions: RightActions = "alternate"
) -> TabularWorld:
    """A cliffwalk with states 0 (the start) to ``n`` - 1, and state ``n``, the goal.

    The right action leads to the next state; the goal gives reward 1 and ends the episode. The
    wrong one, a fall, has reward 0 and its next state is the start. From the goal every action
    stays.

    The paper can be read in two ways: a fall ends the episode, or returns to the start and the
    episode continues. With ``fall="ends"`` the next state is still the start, but nothing of its
    value or occupancy belongs to the falling step. Only the goal is final: episodes end there and
    every action stays.

    Args:
        n: how many states are not the goal; 2 or more.
        fall: ``"ends"`` the episode (Schaul et al.), or ``"teleports"`` to the start and the
            episode continues (the authors' code).
        right_actions: ``"alternate"``, action ``state % 2`` (Schaul et al.), or ``"first"``,
            action 0 everywhere (the authors' code).
    """
    check_number("n", n, int, (2, math.inf))
    if fall not in get_args(Fall):
        raise unknown("kind of fall", fall, get_args(Fall))
    states = np.arange(int(n))
    right = right_action_of(states, right_actions)
    next_state = np.zeros((states.size + 1, 2), dtype=np.int64)
    next_state[states, right] = states + 1
    next_state[-1] = states.size
    reward = np.zeros(next_state.shape)
    reward[-2, right[-1]] = 1.0
    ends = reward > 0.0
    if fall == "ends":
        ends[states, 1 - right] = True
    return world_of_arrays(next_state, [0], ends=ends, reward_mean=reward)
