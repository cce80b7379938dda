"""The Dyna maze, and any maze as a table that kernels walk.

Sutton & Barto, section 8.2 and example 8.4; Yuan & Mattar, section 4.1.
"""

from __future__ import annotations

import math

import numpy as np

from needlab.worlds.layout import Layout
from needlab.worlds.task import TransitionTable
from needreplay._core.errors import NeedReplayError

UP, DOWN, LEFT, RIGHT = range(4)

DYNA_MAZE = """\
.......#G
..#....#.
S.#....#.
..#......
.....#...
.........
"""
"""6 x 9; the start is state 18, the goal state 8, and the shortest path has 14 steps."""


def maze_table(layout: Layout, reward_std: float = 0.1) -> TransitionTable:
    """The table of a maze: states are cells, row-major; actions are up, down, left, right.

    A move off the board or into a wall leaves the state. Arriving at a goal gives a reward drawn
    from N(1, ``reward_std``) and ends the episode; every other reward is 0. In walls and
    goals, which are never left, every action stays.

    Args:
        layout: the maze, magnified already if it should be.
        reward_std: standard deviation of the reward at a goal.
    """
    if not (math.isfinite(reward_std) and reward_std >= 0.0):
        raise NeedReplayError(
            f"reward_std, the spread of the reward at the goal, must be 0 or more; "
            f"it was {reward_std!r}."
        )
    walls, goals = layout.mask(layout.walls), layout.mask(layout.goals)
    states = np.arange(layout.rows * layout.cols).reshape(layout.rows, layout.cols)
    padded = np.pad(states, 1, mode="edge")
    neighbors = np.stack(
        [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]], axis=-1
    )
    blocked = walls.ravel()[neighbors] | (walls | goals)[..., np.newaxis]
    next_state = np.where(blocked, states[..., np.newaxis], neighbors).reshape(-1, 4)
    arrives = goals.ravel()[next_state] & ~goals.reshape(-1, 1)
    return TransitionTable(
        next_state=np.ascontiguousarray(next_state, dtype=np.int64),
        reward_mean=arrives.astype(np.float64),
        reward_std=np.where(arrives, float(reward_std), 0.0),
        ends=arrives,
        start=layout.state(layout.start),
    )


def shortest_path_length(table: TransitionTable) -> int:
    """The fewest steps from the start to a rewarded end of the episode, by breadth-first search.

    A step that ends the episode without reward (a fall from the cliff) is not a path's end, and
    nothing follows it.
    """
    wins = np.any(table.ends & (table.reward_mean > 0.0), axis=1)
    reached = np.zeros(table.n_states, dtype=np.bool_)
    frontier = np.array([table.start])
    length = 0
    while frontier.size:
        length += 1
        if np.any(wins[frontier]):
            return length
        reached[frontier] = True
        arrivals = np.unique(table.next_state[frontier][~table.ends[frontier]])
        frontier = arrivals[~reached[arrivals]]
    raise NeedReplayError("No rewarded end of an episode can be reached from the table's start.")
