"""Small worlds whose every transition is known, so that need can be computed and not learned.

A task is a deterministic table with one-hot observations. MiniGrid's worlds are walked once, cell
by cell, and become tables too; their images are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from needlab.worlds.boards import DYNA_MAZE
from needlab.worlds.tabular import TabularWorld, world_of_arrays
from needreplay._core.errors import not_installed
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

LEFT, RIGHT, FORWARD, TOGGLE = 0, 1, 2, 5
"""MiniGrid's actions that matter here."""


class ExactTask(NamedTuple):
    """A deterministic world with what a network sees, and phases in which its starts change."""

    world: TabularWorld
    obs: FloatArray
    """[state, feature]: one-hot parts side by side, float32"""
    starts: tuple[IntArray, ...]
    """for each phase, the states in which an episode may begin"""
    phase_steps: int
    """steps of a phase; the next episode begins in the phase of its time"""
    episode_steps: int
    """an episode is truncated after so many"""
    keys: IntArray
    """[state, part]: what ``obs`` says, as numbers, such as a place and a direction"""


class _Found(NamedTuple):
    next_key: Hashable
    reward: float
    ends: bool


def _one_hot(keys: Sequence[tuple[int, ...]]) -> FloatArray:
    """Each part of a key as one-hot numbers, side by side."""
    parts = []
    for column in np.array(keys).T:
        values, places = np.unique(column, return_inverse=True)
        parts.append(np.eye(len(values), dtype=np.float32)[places])
    obs: FloatArray = np.concatenate(parts, axis=1)
    return obs


def _explore(
    first: Sequence[tuple[int, ...]],
    n_actions: int,
    step: Callable[[tuple[int, ...], int], _Found],
    starts: Sequence[Sequence[tuple[int, ...]]],
    phase_steps: int = 1,
    episode_steps: int = 200,
) -> ExactTask:
    """The table of every state that can be reached from ``first``."""
    places: dict[Hashable, int] = {}
    keys: list[tuple[int, ...]] = []
    for key in first:
        if key not in places:
            places[key] = len(keys)
            keys.append(key)
    rows: list[list[_Found]] = []
    while len(rows) < len(keys):
        found = [step(keys[len(rows)], action) for action in range(n_actions)]
        for each in found:
            if not each.ends and each.next_key not in places:
                places[each.next_key] = len(keys)
                keys.append(each.next_key)  # type: ignore[arg-type]
        rows.append(found)
    phases = tuple(np.array([places[key] for key in phase]) for phase in starts)
    world = world_of_arrays(
        [[0 if f.ends else places[f.next_key] for f in row] for row in rows],
        np.unique(np.concatenate(phases)).tolist(),
        ends=[[f.ends for f in row] for row in rows],
        reward_mean=[[f.reward for f in row] for row in rows],
        start_rule="at random",
    )
    return ExactTask(
        world,
        _one_hot(keys),
        phases,
        phase_steps,
        episode_steps,
        np.array(keys),
    )


def _minigrid(name: str, toggles: bool, random_start: bool) -> ExactTask:
    """A MiniGrid world of seed 0: x, y, direction and open doors; 1 at the goal."""
    try:
        import minigrid  # noqa: F401
    except ImportError as missing:
        raise not_installed(f"{name} needs MiniGrid", "minigrid") from missing
    env: Any = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    cells = [(x, y) for x in range(env.width) for y in range(env.height)]
    doors = [cell for cell in cells if getattr(env.grid.get(*cell), "type", "") == "door"]
    actions = [LEFT, RIGHT, FORWARD, TOGGLE] if toggles else [LEFT, RIGHT, FORWARD]

    def key_now() -> tuple[int, ...]:
        opened = (int(env.grid.get(*door).is_open) for door in doors)
        return (int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir), *opened)

    def step(key: tuple[int, ...], action: int) -> _Found:
        env.agent_pos, env.agent_dir, env.step_count = np.array(key[:2]), key[2], 0
        for door, opened in zip(doors, key[3:], strict=True):
            env.grid.get(*door).is_open = bool(opened)
        _, reward, terminated, _, _ = env.step(actions[action])
        return _Found(key_now(), float(reward > 0.0), bool(terminated))

    first = [key_now()]
    if random_start:
        shut = (0,) * len(doors)
        free = [cell for cell in cells if env.grid.get(*cell) is None]
        first = [(*cell, direction, *shut) for cell in free for direction in range(4)]
    made = _explore(first, len(actions), step, [first])
    env.close()
    return made


def _boards(boards: Sequence[str], phase_steps: int) -> ExactTask:
    """Mazes visited in turn; the number of the maze is observed."""
    grids = [text.split() for text in boards]
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def step(key: tuple[int, ...], action: int) -> _Found:
        number, row, column = key
        grid = grids[number]
        r, c = row + moves[action][0], column + moves[action][1]
        inside = 0 <= r < len(grid) and 0 <= c < len(grid[0])
        if not inside or grid[r][c] == "#":
            return _Found(key, 0.0, False)
        goal = grid[r][c] == "G"
        return _Found((number, r, c), float(goal), goal)

    starts = [
        (number, r, row.index("S"))
        for number, grid in enumerate(grids)
        for r, row in enumerate(grid)
        if "S" in row
    ]
    return _explore(starts, 4, step, [[start] for start in starts], phase_steps)


def moving_goal() -> ExactTask:
    """The Dyna maze with three goals in turn."""
    cells = [list(row) for row in DYNA_MAZE.replace("G", ".").split()]
    boards = []
    for row, column in ((0, 8), (5, 8), (0, 3)):
        board = [list(line) for line in cells]
        board[row][column] = "G"
        boards.append("\n".join("".join(line) for line in board))
    return _boards(boards, phase_steps=1_000)


def many_mazes(count: int = 12, size: int = 7, walls: float = 0.25) -> ExactTask:
    """Random mazes from the top left to the bottom right."""
    rng = stream(0, "exact need", "mazes")
    boards: list[str] = []
    while len(boards) < count:
        grid = np.where(rng.random((size, size)) < walls, "#", ".")
        grid[0, 0], grid[-1, -1] = "S", "G"
        text = "\n".join("".join(row) for row in grid)
        if _boards([text], 1).world.reward_mean.any():
            boards.append(text)
    return _boards(boards, phase_steps=250)


def deep_sea(size: int = 8) -> ExactTask:
    """Osband et al.: down one row a step, right costs 0.01 / size, the far corner gives 1."""
    right = stream(0, "exact need", "deep sea").integers(2, size=(size, size))

    def step(key: tuple[int, ...], action: int) -> _Found:
        row, column = key
        goes_right = action == right[row, column]
        reward = -0.01 / size if goes_right else 0.0
        if goes_right and row == size - 1 and column == size - 1:
            reward += 1.0
        after = min(column + 1, size - 1) if goes_right else max(column - 1, 0)
        return _Found((row + 1, after), reward, row == size - 1)

    return _explore([(0, 0)], 2, step, [[(0, 0)]])


def taxi() -> ExactTask:
    """Gymnasium's Taxi; rewards divided by 20."""
    env: Any = gymnasium.make("Taxi-v4").unwrapped

    def step(key: tuple[int, ...], action: int) -> _Found:
        _, after, reward, ended = env.P[env.encode(*key)][action][0]
        return _Found(tuple(env.decode(after)), reward / 20.0, bool(ended))

    first = [tuple(env.decode(s)) for s in np.flatnonzero(env.initial_state_distrib)]
    return _explore(first, 6, step, [first])


TASKS: dict[str, Callable[[], ExactTask]] = {
    "FourRooms": lambda: _minigrid("MiniGrid-FourRooms-v0", toggles=False, random_start=True),
    "MultiRoom": lambda: _minigrid("MiniGrid-MultiRoom-N2-S4-v0", toggles=True, random_start=False),
    "DistShift": lambda: _minigrid("MiniGrid-DistShift1-v0", toggles=False, random_start=False),
    "Taxi": taxi,
    "deep sea": deep_sea,
    "moving goal": moving_goal,
    "twelve mazes": many_mazes,
}


@cache
def exact_task(name: str) -> ExactTask:
    """A task by name."""
    return TASKS[name]()
