"""The tabular world: one type that every tabular agent, the viewer, sweeps and studies share.

``make.tabular_world`` makes one from a name, text, a file or a Gymnasium environment;
``world_of_arrays`` makes one from arrays. The rules of a step are functions here, and compiled
kernels compile these very functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, counted, unknown
from needreplay._core.types import BoolArray, FloatArray, IntArray

Rewards: TypeAlias = Sequence[tuple[float, float]]
"""The (mean, standard deviation) of each magnitude; one of them is drawn at every visit."""

START_RULES = ("in turn", "at random", "in order")
"""How the start of an episode is chosen (see ``TabularWorld.start_rule``)."""
IN_TURN, AT_RANDOM, IN_ORDER = range(3)
SIDES = np.array([[2, 3], [2, 3], [0, 1], [0, 1]])
"""The two sides of up, down, left, right: where a move can slip to."""


class TabularWorld(NamedTuple):
    """A world with numbered states and actions, as arrays that compiled kernels walk.

    Action ``a`` in state ``s`` leads to ``next_state[s, a]`` and ends the episode where
    ``ends[s, a]``. Its reward is one of its magnitudes plus normal noise.
    """

    next_state: IntArray
    """[state, action]: the same state means a bump."""
    ends: BoolArray
    """[state, action]: whether the step terminates the episode."""
    magnitudes: FloatArray
    """[state, action, choice]: the mean of the reward."""
    spreads: FloatArray
    """[state, action, choice]: its standard deviation."""
    choices: IntArray
    """[state, action]: how many magnitudes are listed. Where there is none, the reward is 0."""
    starts: IntArray
    """The states in which episodes begin."""
    start_rule: int
    """How a start is chosen, an index of ``START_RULES``: goal k (from 0) leads to start k + 1 and
    the last goal to the first start; uniformly at random; or episode k begins in start k."""
    free: BoolArray
    """[state]: whether the agent can be there. Walls are rows that nothing leads to."""
    goal: IntArray
    """[state]: the number of the goal there, from 0; -1 elsewhere. Every arrival at a goal ends the
    episode. A world that has other ends, too, numbers no goals."""
    slip: float
    """The chance that a move goes to one of its two sides instead (``SIDES``)."""
    cut: bool
    """Whether noise never makes a reward negative whose magnitude is not."""
    columns: int
    """The width of the board: state = row * columns + column. 0 if there is no board."""
    drawn: IntArray
    """[state]: the character of its cell where the world was drawn, as a number; 0 elsewhere."""

    @property
    def n_states(self) -> int:
        """How many states there are, walls and goals included."""
        return int(self.next_state.shape[0])

    @property
    def n_actions(self) -> int:
        """How many actions each state has."""
        return int(self.next_state.shape[1])

    @property
    def start(self) -> int:
        """The first start."""
        return int(self.starts[0])

    @property
    def random_start(self) -> bool:
        """Whether the start of every episode is drawn from ``starts``."""
        return self.start_rule == AT_RANDOM

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

    @property
    def reward_mean(self) -> FloatArray:
        """[state, action]: the mean reward of a step; for ``cut`` worlds, before the cut."""
        mean: FloatArray = self.magnitudes.sum(axis=2) / np.maximum(self.choices, 1)
        return mean

    @property
    def reward_std(self) -> FloatArray:
        """[state, action]: the standard deviation of a step's reward, before a cut."""
        listed = np.arange(self.magnitudes.shape[2]) < self.choices[..., np.newaxis]
        apart = np.where(listed, self.magnitudes - self.reward_mean[..., np.newaxis], 0.0)
        variance = (self.spreads**2 + apart**2).sum(axis=2) / np.maximum(self.choices, 1)
        deviation: FloatArray = np.sqrt(variance)
        return deviation

    def marks(self) -> str:
        """One character per state: # wall, S start, G goal, . other."""
        marks = np.where(self.free, ".", "#")
        marks[np.unique(self.next_state[self.ends]) if self.goals.size == 0 else self.goals] = "G"
        if not self.random_start:
            marks[self.starts] = "S"
        return "".join(marks)

    def picture(self) -> str:
        """One character per state: that of its cell where the world was drawn, else ``marks``."""
        return "".join(
            chr(point) if point else mark
            for point, mark in zip(self.drawn.tolist(), self.marks(), strict=True)
        )

    def __str__(self) -> str:
        """The board."""
        shown, width = self.picture(), self.columns or self.n_states
        return "\n".join(shown[begin : begin + width] for begin in range(0, len(shown), width))

    def __repr__(self) -> str:
        counts = (self.n_states, self.n_actions, len(self.starts), len(self.goals))
        names = ("state", "action", "start", "goal")
        return f"<TabularWorld: {', '.join(map(counted, counts, names))}>"

    def _repr_html_(self) -> str:
        """The board, in a notebook."""
        return f"<pre>{escape(str(self))}</pre>"

    def cell(self, state: int) -> tuple[int, int]:
        """The row and column of a state, both from 0."""
        return divmod(int(state), self.columns or self.n_states)


# The rules of a step ------------------------------------------------------------------------------


def slipped(world: TabularWorld, action: int, rng: np.random.Generator) -> int:
    """The move that is made: ``action``, or with the chance ``slip`` one of its two sides."""
    if world.slip > 0.0 and rng.random() < world.slip:
        return int(SIDES[action, 0 if rng.random() < 0.5 else 1])
    return action


def sampled_reward(world: TabularWorld, state: int, action: int, rng: np.random.Generator) -> float:
    """r ~ N(magnitude, spread²), with one of the magnitudes at random.

    It draws a number only where there are several magnitudes, and where the spread is not 0.
    """
    listed = world.choices[state, action]
    if listed == 0:
        return 0.0
    choice = int(rng.random() * listed) if listed > 1 else 0
    mean, spread = world.magnitudes[state, action, choice], world.spreads[state, action, choice]
    if spread == 0.0:
        return float(mean)
    reward = mean + spread * rng.standard_normal()
    return float(max(reward, 0.0) if world.cut and mean >= 0.0 else reward)


def start_after(world: TabularWorld, goal: int, episode: int, rng: np.random.Generator) -> int:
    """Where ``episode`` begins if the one before it ended in goal number ``goal``.

    ``goal`` is -1 where no goal was reached: then a world with its starts in turn takes the first.
    """
    count = world.starts.size
    if world.start_rule == AT_RANDOM:
        return int(world.starts[int(rng.random() * count)])
    return int(world.starts[(goal + 1 if world.start_rule == IN_TURN else episode) % count])


# Worlds from arrays -------------------------------------------------------------------------------


def world_of_arrays(
    next_state: npt.ArrayLike,
    starts: Sequence[int],
    *,
    ends: npt.ArrayLike | None = None,
    reward_mean: npt.ArrayLike = 0.0,
    reward_std: npt.ArrayLike = 0.0,
    goals: Sequence[int] = (),
    rewards: Mapping[int, Rewards] | None = None,
    start_rule: str = "in turn",
    free: npt.ArrayLike | None = None,
    slip: float = 0.0,
    cut: bool = False,
    columns: int = 0,
    drawn: str = "",
) -> TabularWorld:
    """Check the parts of a world and put them together.

    Say where episodes end either by ``goals``, with ``rewards`` on entering states, or step by step
    by ``ends``, with ``reward_mean`` and ``reward_std``.

    >>> chain = world_of_arrays([[0, 1], [0, 2], [2, 2]], [0], goals=[2], rewards={2: [(1, 0)]})
    >>> chain.n_states, chain.n_actions, chain.reward_mean[1].tolist()
    (3, 2, [0.0, 1.0])

    Args:
        next_state: [state, action], the state that an action leads to.
        starts: where episodes begin.
        ends: [state, action], the steps that terminate. Where every arrival at their states
            terminates, these states become the goals.
        reward_mean: [state, action], the mean reward.
        reward_std: [state, action], its standard deviation.
        goals: states that end the episode, in order; goal k leads to start k + 1.
        rewards: by state, the (mean, standard deviation) of each magnitude on entering it.
        start_rule: one of ``START_RULES``.
        free: [state], where the agent can be; everywhere if not given.
        slip: the chance that a move goes sideways; it needs the actions up, down, left, right.
        cut: whether noise never makes a reward negative whose mean is not.
        columns: the width of the board, for pictures and distances.
        drawn: one character per state, if the world was drawn, for pictures.
    """
    moves = np.array(next_state)
    if moves.ndim != 2 or 0 in moves.shape or moves.dtype.kind not in "iu":
        raise NeedReplayError(
            "next_state must be a matrix of integers, [state, action]; it was "
            f"{moves.ndim}-dimensional {moves.dtype} of shape {moves.shape}."
        )
    if (ends is None) == (not len(goals)):
        raise NeedReplayError(
            "A world needs either goals or ends, to know where its episodes end; "
            f"{'both were' if len(goals) else 'neither was'} given."
        )
    moves = np.ascontiguousarray(moves, np.int64)
    goal = np.full(len(moves), -1, np.int64)
    is_free = np.ones(len(moves), np.bool_) if free is None else np.array(free, np.bool_)
    if is_free.shape != moves.shape[:1]:
        raise NeedReplayError(
            f"free must have the shape {moves.shape[:1]}; it was {is_free.shape}."
        )
    _check_states(len(moves), starts=starts, goals=goals, rewards=list(rewards or ()))
    if start_rule not in START_RULES:
        raise unknown("start_rule", start_rule, START_RULES)
    if ends is None:
        goal[list(goals)] = np.arange(len(goals))
        acts = is_free & (goal < 0)
        ended = (goal[_inside(moves)] >= 0) & acts[:, np.newaxis]
        listed = _rewards_on_entering(len(moves), rewards or {})
        magnitudes, spreads = listed[0][_inside(moves)], listed[1][_inside(moves)]
        choices = listed[2][_inside(moves)]
        for part in (magnitudes, spreads, choices):
            part[~acts] = 0
    else:
        ended = _matrix("ends", ends, moves.shape).astype(np.bool_)
        goal = _goals_of_ends(moves, ended, starts)
        magnitudes = _matrix("reward_mean", reward_mean, moves.shape)[..., np.newaxis]
        spreads = _matrix("reward_std", reward_std, moves.shape)[..., np.newaxis]
        choices = ((magnitudes != 0.0) | (spreads != 0.0))[..., 0].astype(np.int64)
    world = TabularWorld(
        next_state=moves,
        ends=ended,
        magnitudes=np.ascontiguousarray(magnitudes),
        spreads=np.ascontiguousarray(spreads),
        choices=choices,
        starts=np.array(starts, np.int64),
        start_rule=START_RULES.index(start_rule),
        free=is_free,
        goal=goal,
        slip=float(slip),
        cut=bool(cut),
        columns=int(columns),
        drawn=np.array([ord(character) for character in drawn] or [0] * len(moves), np.int64),
    )
    check_world(world)
    if ends is None:
        _check_goals_can_be_reached(world)
    return world


def check_world(world: TabularWorld) -> None:
    """Raise an error if a world cannot be walked: shapes that differ, states that do not exist."""
    shape, states = world.next_state.shape, world.n_states
    for name, size in (
        ("ends", shape), ("choices", shape), ("free", shape[:1]), ("goal", shape[:1]),
        ("drawn", shape[:1]),
        ("magnitudes", (*shape, world.magnitudes.shape[-1])), ("spreads", world.magnitudes.shape),
    ):  # fmt: skip
        found = getattr(world, name).shape
        if found != size:
            raise NeedReplayError(f"{name} must have the shape {size}; it was {found}.")
    outside = np.argwhere((world.next_state < 0) | (world.next_state >= states))
    if outside.size:
        state, action = outside[0].tolist()
        raise NeedReplayError(
            f"next_state must hold states, 0 to {states - 1}, but action {action} in state {state} "
            f"leads to {world.next_state[state, action]}."
        )
    _check_states(states, starts=world.starts.tolist())
    if not (np.isfinite(world.magnitudes).all() and np.isfinite(world.spreads).all()):
        raise NeedReplayError("The means and standard deviations of rewards must be finite.")
    if np.any(world.spreads < 0.0):
        raise NeedReplayError("The standard deviation of a reward must not be negative.")
    check_number("slip", world.slip, float, (0.0, 1.0))
    if world.slip and world.n_actions != len(SIDES):
        raise NeedReplayError(
            f"slip is {world.slip}, but the world has {world.n_actions} actions; slip is for "
            "boards with up, down, left, right."
        )
    if world.goals.size and world.start_rule != IN_ORDER and set(world.starts) & set(world.goals):
        raise NeedReplayError("A start cannot be a goal: an episode would end before it begins.")
    _check_walls(world)


Schedule: TypeAlias = Sequence[tuple[int, TabularWorld]]
"""A world that changes: (first episode, world), from episode 0 on."""


def check_schedule(world: TabularWorld | Schedule) -> list[tuple[int, TabularWorld]]:
    """A world or a schedule as a list; the states, actions and starts of a schedule stay."""
    if isinstance(world, TabularWorld):
        return [(0, world)]
    schedule = list(world)
    if not schedule or schedule[0][0] != 0:
        raise NeedReplayError("A world that changes is a list of (first episode, world) from 0 on.")
    first = schedule[0][1]
    for (before, _), (begin, changed) in pairwise(schedule):
        if begin <= before:
            raise NeedReplayError(
                f"The changes of a world must be in order; episode {begin} follows {before}."
            )
        same = changed.next_state.shape == first.next_state.shape and all(
            np.array_equal(getattr(changed, name), getattr(first, name))
            for name in ("free", "starts", "start_rule")
        )
        if not same:
            raise NeedReplayError(
                f"The world of episode {begin} must have the states, actions and starts of the "
                "first; only moves, goals and rewards can change."
            )
    return schedule


def only_rewards_change(world: TabularWorld | Schedule) -> TabularWorld:
    """The world, or the first of a list whose worlds differ in their rewards alone."""
    (_, first), *later = check_schedule(world)
    for begin, changed in later:
        if not (
            np.array_equal(changed.next_state, first.next_state)
            and np.array_equal(changed.goal, first.goal)
        ):
            raise NeedReplayError(
                f"The world of episode {begin} must have the moves and goals of the first here; "
                "only rewards can change. Give one part of the run at a time, with its own world."
            )
    return first


def _check_states(count: int, **listed: Sequence[int]) -> None:
    """Every list must hold states, and all but ``starts`` each of them once."""
    for name, states in listed.items():
        if name == "starts" and not len(states):
            raise NeedReplayError("starts is empty; list at least one state.")
        for state in states:
            check_number(f"A state of {name}", state, int, (0, count - 1))
        if name != "starts" and len(set(states)) < len(states):
            raise NeedReplayError(f"{name} lists a state twice: {list(states)}.")


def _rewards_on_entering(
    states: int, rewards: Mapping[int, Rewards]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Magnitudes and spreads, [state, choice], and how many choices each state has."""
    widest = max((1, *(len(listed) for listed in rewards.values())))
    magnitudes, spreads = np.zeros((states, widest)), np.zeros((states, widest))
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
    return magnitudes, spreads, choices


def _matrix(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Numbers of [state, action]; one number counts for all pairs."""
    numbers: FloatArray = np.array(values, np.float64)
    if numbers.shape not in ((), shape):
        raise NeedReplayError(
            f"{name} must have the shape of next_state, {shape}; it was {numbers.shape}."
        )
    return np.full(shape, numbers) if numbers.ndim == 0 else numbers


def _inside(moves: IntArray) -> IntArray:
    """Moves as an index; ``check_world`` names those that lead nowhere."""
    clipped: IntArray = np.clip(moves, 0, len(moves) - 1)
    return clipped


def _goals_of_ends(moves: IntArray, ends: BoolArray, starts: Sequence[int]) -> IntArray:
    """[state]: the number of the goal, if every arrival at the states of ``ends`` terminates."""
    goal = np.full(len(moves), -1, np.int64)
    entered = np.unique(_inside(moves)[ends])
    stays = moves == np.arange(len(moves))[:, np.newaxis]
    if not set(entered.tolist()) & set(starts) and np.all(
        (np.isin(moves, entered) == ends) | stays
    ):
        goal[entered] = np.arange(len(entered))
    return goal


# Distances ----------------------------------------------------------------------------------------


def distances_to(world: TabularWorld, targets: Sequence[int]) -> IntArray:
    """Steps of a shortest path from every state to the nearest target; -1: there is none."""
    found = np.full(world.n_states, -1, np.int64)
    found[list(targets)] = 0
    acts = world.acts
    for length in range(1, world.n_states + 1):
        near = np.any(found[world.next_state] == length - 1, axis=1) & (found < 0) & acts
        found[near] = length
        if not near.any():
            break
    return found


def steps_to_end(
    world: TabularWorld, ends: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """[state]: the fewest steps until one of the steps ``ends``; infinite where there is no way.

    Nothing follows another step that terminates. ``known``, [state, action], are the steps that may
    be taken; all of them if it is not given.
    """
    last = np.where(ends, 0.0, np.inf)
    if known is not None:
        last[~known] = np.inf
    goes_on = ~world.ends if known is None else ~world.ends & known
    found = np.full(world.n_states, np.inf)
    while True:
        after = np.where(goes_on, found[world.next_state], last)
        nearer: FloatArray = 1.0 + after.min(axis=1)
        if np.array_equal(nearer, found):
            return found
        found = nearer


def shortest_path_length(world: TabularWorld) -> int:
    """The fewest steps from the first start to a rewarded end of the episode.

    A step that ends the episode without reward (a fall from the cliff) is not a path's end.
    """
    length = steps_to_end(world, world.ends & (world.reward_mean > 0.0))[world.start]
    if not np.isfinite(length):
        raise NeedReplayError("No rewarded end of an episode can be reached from the start.")
    return int(length)


def _check_walls(world: TabularWorld) -> BoolArray:
    """[state]: what an episode can visit; an error if it can visit a wall."""
    visited = np.zeros(world.n_states, np.bool_)
    frontier = np.unique(world.starts)
    while frontier.size:
        visited[frontier] = True
        after = np.unique(world.next_state[frontier[world.acts[frontier]]])
        frontier = after[~visited[after]]
    if not np.all(world.free[visited]):
        wall = int(np.flatnonzero(visited & ~world.free)[0])
        raise NeedReplayError(
            f"State {wall} is a wall, but a start is there or a move leads to it."
        )
    return visited


def _check_goals_can_be_reached(world: TabularWorld) -> None:
    """Every state that an episode can visit must lead to a goal, else it never ends."""
    visited = _check_walls(world)
    stuck = np.flatnonzero(visited & (distances_to(world, world.goals.tolist()) < 0))
    if stuck.size:
        where = f"state {stuck[0]}"
        if world.columns:
            row, column = world.cell(stuck[0])
            where += f" (row {row + 1}, column {column + 1})"
        raise NeedReplayError(
            f"No goal can be reached from {where}, so an episode would never end; open a way, or "
            "add a goal."
        )
