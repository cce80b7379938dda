"""The Blind Cliffwalk: a chain in which one action of two is right, and the other falls.

Schaul et al. 2016, section 3.1; Yuan & Mattar, section 4.2 and appendix B.2.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from needlab.worlds.layout import FREE, GOAL, START
from needlab.worlds.picture import (
    FREE_COLOR,
    GOAL_COLOR,
    RGB,
    START_COLOR,
    WALL_COLOR,
    Picture,
    paint_board,
)
from needlab.worlds.table_env import AGENT, BoardEnv
from needlab.worlds.task import TransitionTable
from needreplay._core.checks import check_number
from needreplay._core.errors import unknown
from needreplay._core.types import IntArray

Fall: TypeAlias = Literal["ends", "teleports"]
RightActions: TypeAlias = Literal["alternate", "first"]

FALL_COLOR: RGB = (150, 58, 52)


def right_action_of(states: IntArray, right_actions: RightActions) -> IntArray:
    """The right action of each state: ``state % 2`` (alternate) or always 0 (first)."""
    if right_actions not in get_args(RightActions):
        raise unknown("rule of right actions", right_actions, get_args(RightActions))
    return states % 2 if right_actions == "alternate" else np.zeros_like(states)


def cliffwalk_table(
    n: int, fall: Fall = "ends", right_actions: RightActions = "alternate"
) -> TransitionTable:
    """The table of a cliffwalk with states 0 (the start) to ``n`` - 1, and state ``n``, the goal.

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
    reward_mean = np.zeros(next_state.shape)
    reward_mean[-2, right[-1]] = 1.0
    ends = reward_mean > 0.0
    if fall == "ends":
        ends[states, 1 - right] = True
    return TransitionTable(
        next_state=next_state,
        reward_mean=reward_mean,
        reward_std=np.zeros(next_state.shape),
        ends=ends,
        start=0,
    )


class BlindCliffwalkEnv(BoardEnv):
    """The Blind Cliffwalk as a Gymnasium environment; the arguments are ``cliffwalk_table``'s.

    Args:
        n: how many states are not the goal; 2 or more.
        fall: what a wrong action does: ``"ends"`` the episode, or ``"teleports"`` to the start.
        right_actions: ``"alternate"`` with the state, or the ``"first"`` everywhere.
        render_mode: ``"ansi"`` (a string), ``"rgb_array"`` or None.
    """

    def __init__(
        self,
        n: int = 10,
        fall: Fall = "ends",
        right_actions: RightActions = "alternate",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(cliffwalk_table(n, fall, right_actions), render_mode)
        self.right = right_action_of(np.arange(int(n)), right_actions)

    def text(self) -> str:
        """The chain with an ``A`` where the agent is, and each state's right action below."""
        chain = [START, *FREE * (self.right.size - 1), GOAL]
        chain[self.state] = AGENT
        return f"state  {''.join(chain)}\nright  {''.join(map(str, self.right))}"

    def picture(self) -> Picture:
        """The ledge above the cliff: the start blue, the goal green, the agent an orange disc.

        Below each state are its two actions, 0 above 1: white is right, red falls.
        """
        n = self.right.size
        colors = np.full((3, n + 1, 3), WALL_COLOR, dtype=np.uint8)
        colors[0] = FREE_COLOR
        colors[0, 0], colors[0, n] = START_COLOR, GOAL_COLOR
        colors[1:, :n] = FALL_COLOR
        colors[1 + self.right, np.arange(n)] = FREE_COLOR
        return paint_board(colors, (0, self.state))
