"""Tabular worlds as arrays that compiled kernels can walk: one start, or several and goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import BoolArray, FloatArray, IntArray

Rewards: TypeAlias = Sequence[tuple[float, float]]
"""(mean, standard deviation) of each magnitude; one of them is drawn at every visit."""

START_RULES = ("in turn", "at random")


class TransitionTable(NamedTuple):
    """A deterministic tabular world that a compiled kernel can walk.

    Action ``a`` in state ``s`` leads to ``next_state[s, a]`` with a reward drawn from
    N(``reward_mean[s, a]``, ``reward_std[s, a]``), and terminates the episode where ``ends[s, a]``.
    Every episode begins in ``start``.
    """

    next_state: IntArray
    reward_mean: FloatArray
    reward_std: FloatArray
    ends: BoolArray
    start: int

    @property
    def n_states(self) -> int:
        """How many states there are, walls and goals included."""
        return int(self.next_state.shape[0])

    @property
    def n_actions(self) -> int:
        """How many actions each state has."""
        return int(self.next_state.shape[1])


class Task(NamedTuple):
    """A tabular world. An episode ends when the agent enters a goal.

    Action ``a`` in state ``s`` leads to ``next_state[s, a]``; the same state means a bump. Entering
    a state gives one of its ``magnitudes`` plus noise; noise never makes a reward negative whose
    magnitude is not. Goal k (from 0) leads to start k + 1, the last to the first; or the start is
    drawn uniformly.
    """

    next_state: IntArray
    """[state, action]"""
    free: BoolArray
    """[state]: whether the agent can be there; walls are rows that nothing leads to"""
    goal: IntArray
    """[state]: the number of the goal there, from 0; -1 elsewhere"""
    starts: IntArray
    random_start: bool
    """draw the start of every episode uniformly from ``starts``"""
    magnitudes: FloatArray
    """[state, choice]: mean of the reward on entering"""
    spreads: FloatArray
    """[state, choice]: its standard deviation"""
    choices: IntArray
    """[state]: how many magnitudes are listed; 0: the reward is 0"""
    slip: float
    """chance that a move goes sideways instead; tables with slip are for model-free agents"""
    columns: int
    """width of the board: state = row * columns + column; 0 if there is no board"""
    drawn: IntArray
    """[state]: the character of its cell where the world was drawn, as a code point; 0 elsewhere"""

    @property
    def n_states(self) -> int:
        """How many states there are, walls and goals included."""
        return int(self.next_state.shape[0])

    @property
    def n_actions(self) -> int:
        """How many actions each state has."""
        return int(self.next_state.shape[1])

    @property
    def goals(self) -> IntArray:
        """The goals, in the order of their numbers."""
        states = np.flatnonzero(self.goal >= 0)
        ordered: IntArray = states[np.argsort(self.goal[states])]
        return ordered

    @property
    def acts(self) -> BoolArray:
        """[state]: whether the agent can act there: free, and no goal."""
        found: BoolArray = self.free & (self.goal < 0)
        return found


def make_task(
    next_state: npt.ArrayLike,
    starts: Sequence[int],
    goals: Sequence[int],
    rewards: Mapping[int, Rewards],
    *,
    start_rule: str = "in turn",
    free: npt.ArrayLike | None = None,
    slip: float = 0.0,
    columns: int = 0,
    drawn: str = "",
) -> Task:
    """Check the parts of a task and put them together.

    >>> chain = make_task([[0, 1], [0, 2], [2, 2]], starts=[0], goals=[2], rewards={2: [(1, 0)]})
    >>> chain.n_states, chain.n_actions
    (3, 2)

    Args:
        next_state: [state, action], the state that an action leads to.
        starts: where episodes begin.
        goals: where they end, in order; goal k leads to start k + 1.
        rewards: by state, the (mean, standard deviation) of each magnitude.
        start_rule: "in turn" (goal k leads to start k + 1) or "at random".
        free: [state], where the agent can be; everywhere if not given.
        slip: chance that a move goes sideways.
        columns: width of the board, for pictures and distances.
        drawn: one character per state, if the world was drawn, for pictures.
    """
    moves = np.array(next_state)
    if moves.ndim != 2 or 0 in moves.shape or moves.dtype.kind not in "iu":
        raise NeedReplayError(
            "next_state must be a matrix of integers, [state, action]; it was "
            f"{moves.ndim}-dimensional {moves.dtype} of shape {moves.shape}."
        )
    states = len(moves)
    if moves.min() < 0 or moves.max() >= states:
        raise NeedReplayError(
            f"next_state must hold states, 0 to {states - 1}; it holds {moves.min()} to "
            f"{moves.max()}."
        )
    for name, listed in (("starts", starts), ("goals", goals), ("rewards", list(rewards))):
        if name != "rewards" and not len(listed):
            raise NeedReplayError(f"{name} is empty; list at least one state.")
        for state in listed:
            check_number(f"A state of {name}", state, int, (0, states - 1))
        if len(set(listed)) < len(listed):
            raise NeedReplayError(f"{name} lists a state twice: {list(listed)}.")
    if set(starts) & set(goals):
        raise NeedReplayError("A start cannot be a goal: an episode would end before it begins.")
    if start_rule not in START_RULES:
        raise unknown("start_rule", start_rule, START_RULES)
    check_number("slip", slip, float, (0.0, 1.0))
    if len(drawn) not in (0, states):
        raise NeedReplayError(
            f"drawn has {len(drawn)} characters; it needs one for each of the {states} states."
        )
    goal = np.full(states, -1, np.int64)
    goal[list(goals)] = np.arange(len(goals))
    widest = max((len(listed) for listed in rewards.values()), default=1)
    magnitudes, spreads = np.zeros((states, max(widest, 1))), np.zeros((states, max(widest, 1)))
    choices = np.zeros(states, np.int64)
    for state, listing in rewards.items():
        choices[state] = len(listing)
        for choice, (mean, spread) in enumerate(listing):
            if not (np.isfinite(mean) and np.isfinite(spread) and spread >= 0.0):
                raise NeedReplayError(
                    f"The reward of state {state} is ({mean}, {spread}); it must be a finite mean "
                    "and a standard deviation, 0 or more."
                )
            magnitudes[state, choice], spreads[state, choice] = mean, spread
    task = Task(
        np.ascontiguousarray(moves, np.int64),
        np.ones(states, np.bool_) if free is None else np.array(free, np.bool_),
        goal,
        np.array(starts, np.int64),
        start_rule == "at random",
        magnitudes,
        spreads,
        choices,
        float(slip),
        int(columns),
        np.array([ord(character) for character in drawn] or np.zeros(states), np.int64),
    )
    _refuse_traps(task)
    return task


def distances_to(task: Task, targets: Sequence[int]) -> IntArray:
    """Steps of a shortest path from every state to the nearest target; -1: there is none."""
    found = np.full(task.n_states, -1, np.int64)
    found[list(targets)] = 0
    acts = task.acts
    for length in range(1, task.n_states + 1):
        near = np.any(found[task.next_state] == length - 1, axis=1) & (found < 0) & acts
        found[near] = length
    return found


def _refuse_traps(task: Task) -> None:
    """Every state that an episode can visit must lead to a goal, else it never ends."""
    visited = np.zeros(task.n_states, np.bool_)
    frontier = task.starts
    while frontier.size:
        visited[frontier] = True
        after = np.unique(task.next_state[frontier[task.acts[frontier]]])
        frontier = after[~visited[after]]
    if not np.all(task.free[visited]):
        wall = int(np.flatnonzero(visited & ~task.free)[0])
        raise NeedReplayError(
            f"State {wall} is a wall, but a start is there or a move leads to it."
        )
    stuck = np.flatnonzero(visited & (distances_to(task, task.goals.tolist()) < 0))
    if stuck.size:
        where = f"state {stuck[0]}"
        if task.columns:
            row, column = divmod(int(stuck[0]), task.columns)
            where += f" (row {row + 1}, column {column + 1})"
        raise NeedReplayError(
            f"No goal can be reached from {where}, so an episode would never end; open a way, or "
            "add a goal."
        )
