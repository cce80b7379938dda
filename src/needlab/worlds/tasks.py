"""Worlds with several starts, goals and rewards, one-way doors and slip, written as text.

The board is one line per row and one character per cell:

- ``#`` wall, ``.`` free cell, ``S`` start (any number of them);
- ``G`` or any other capital letter but S: a goal, which ends the episode;
- a small letter but v: a free cell with a reward;
- ``<``, ``>``, ``^``, ``v``: a one-way door, a free cell that no move may enter or leave against
  its arrow.

After an empty line, lines "name: value" say more:

- ``G: 1 sd 0.1``, ``A: 1 or 4``, ``a: -1``: the reward on entering a letter's cells; with "or", one
  of the magnitudes is drawn at every visit. A goal without such a line gives 1 sd 0.1.
- ``starts: in turn`` (the default: the k-th goal leads to the (k+1)-th start, both counted in
  reading order, and the last goal to the first start), ``starts: at random``, or
  ``starts: anywhere`` (any free cell that is not a goal, at random; the board then has no S).
- ``slip: 0.1``: with this chance a move goes to one of its two sides instead.

States are cells, row-major; actions are up, down, left, right. A move off the board, into a wall or
against a door leaves the agent in place.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from needlab.worlds.task import Rewards, Task, make_task
from needreplay._core.errors import NeedReplayError

_MOVES = {"^": (-1, 0), "v": (1, 0), "<": (0, -1), ">": (0, 1)}
"""Up, down, left, right: the actions in order, by the door that allows them."""
_AGAINST = {"^": "v", "v": "^", "<": ">", ">": "<"}
_SIDES = ((2, 3), (2, 3), (0, 1), (0, 1))
_DEFAULT_REWARD: Rewards = ((1.0, 0.1),)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_MAGNITUDE = re.compile(rf"({_NUMBER})(?:\s+sd\s+({_NUMBER}))?")
_STARTS = ("in turn", "at random", "anywhere")


def parse_task(text: str, source: str = "The world") -> Task:
    r"""Read a world from text; see this module for the format.

    >>> track = parse_task("S...G\n#####\nG...S\n\nG: 1 sd 0.1 or 4 sd 0.1")
    >>> track.starts.tolist(), track.goals.tolist()
    ([0, 14], [4, 10])

    Args:
        text: the board and what follows it. A common indentation is left out.
        source: what to call it in messages.
    """
    board, _, rest = textwrap.dedent(text).strip("\n").partition("\n\n")
    rows = [row.rstrip() for row in board.split("\n")]
    _check_board(rows, source)
    lines = _lines(rest, source)
    cells = {(r, c): character for r, row in enumerate(rows) for c, character in enumerate(row)}
    columns, flat = len(rows[0]), "".join(rows)
    rewards: dict[str, Rewards] = {name: _DEFAULT_REWARD for name in flat if _is_goal(name)}
    start_rule, slip = _STARTS[0], 0.0
    for name, value in lines.items():
        if name == "starts":
            if value not in _STARTS:
                raise NeedReplayError(
                    f"{source} says 'starts: {value}'; choose from: {', '.join(_STARTS)}."
                )
            start_rule = value
        elif name == "slip":
            slip = _number(name, value, source)
        elif len(name) == 1 and name in flat and (_is_goal(name) or _is_reward(name)):
            rewards[name] = _magnitudes(name, value, source)
        else:
            raise NeedReplayError(
                f"{source} has the line '{name}: {value}', but {name!r} is not 'starts', 'slip' or "
                "the letter of a goal or a reward on the board."
            )
    unsaid = sorted({name for name in flat if _is_reward(name)} - set(rewards))
    if unsaid:
        raise NeedReplayError(
            f"{source} has a cell {unsaid[0]!r} without its reward; add a line '{unsaid[0]}: 1'."
        )
    anywhere = start_rule == "anywhere"
    starts = [
        i
        for i, name in enumerate(flat)
        if (name != "#" and not _is_goal(name) if anywhere else name == "S")
    ]
    if anywhere and "S" in flat:
        raise NeedReplayError(f"{source} says 'starts: anywhere', so it must not have an 'S'.")
    if not starts:
        raise NeedReplayError(f"{source} has no start: mark at least one cell with 'S'.")
    goals = [i for i, name in enumerate(flat) if _is_goal(name)]
    if not goals:
        raise NeedReplayError(f"{source} has no goal: mark at least one cell with 'G'.")
    return make_task(
        _next_states(cells, columns),
        starts,
        goals,
        {i: rewards[name] for i, name in enumerate(flat) if name in rewards},
        start_rule="in turn" if start_rule == "in turn" else "at random",
        free=[name != "#" for name in flat],
        slip=slip,
        columns=columns,
        drawn=flat,
    )


def read_task(path: str | Path) -> Task:
    """Read a world from a text file (UTF-8)."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise NeedReplayError(f"The world {str(path)!r} cannot be read: {error}.") from error
    return parse_task(text.replace("\r\n", "\n"), source=str(path))


def _is_goal(name: str) -> bool:
    return "A" <= name <= "Z" and name != "S"


def _is_reward(name: str) -> bool:
    return "a" <= name <= "z" and name != "v"


def _check_board(rows: list[str], source: str) -> None:
    if not rows[0]:
        raise NeedReplayError(f"{source} is empty: draw a board with a start 'S' and a goal 'G'.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise NeedReplayError(
                f"{source} is ragged: row {number} has {len(row)} cells, row 1 has {len(rows[0])}."
            )
        for column, name in enumerate(row, start=1):
            if not (name in "#.S^v<>" or _is_goal(name) or _is_reward(name)):
                raise NeedReplayError(
                    f"{source} has an unknown character, {name!r}, in row {number}, column "
                    f"{column}. Use '#' wall, '.' free, 'S' start, capital letters for goals, "
                    "small ones for rewards, and ^ v < > for one-way doors."
                )


def _lines(rest: str, source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, rest.split("\n"))):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not value:
            raise NeedReplayError(
                f"{source} has the line {line!r} below the board; write it as 'name: value'."
            )
        if name in found:
            raise NeedReplayError(f"{source} has two lines for {name!r}.")
        found[name] = value
    return found


def _number(name: str, value: str, source: str) -> float:
    if not re.fullmatch(_NUMBER, value):
        raise NeedReplayError(f"{source} says '{name}: {value}'; the value must be a number.")
    return float(value)


def _magnitudes(name: str, value: str, source: str) -> Rewards:
    listed = []
    for part in re.split(r"\s+or\s+", value):
        match = _MAGNITUDE.fullmatch(part)
        if match is None:
            raise NeedReplayError(
                f"{source} says '{name}: {value}'; write a reward as '1', '1 sd 0.1' or "
                "'1 sd 0.1 or 4 sd 0.1'."
            )
        listed.append((float(match[1]), float(match[2] or 0.0)))
    return listed


def _next_states(cells: dict[tuple[int, int], str], columns: int) -> list[list[int]]:
    """[state, action]; walls and goals, which nothing leaves, lead to themselves."""
    table = []
    for (row, column), name in cells.items():
        here, moves = row * columns + column, []
        for arrow, (down, right) in _MOVES.items():
            beside = (row + down, column + right)
            after = cells.get(beside, "#")
            stays = name == "#" or _is_goal(name) or after == "#"
            against = _AGAINST[arrow] in (name, after)
            moves.append(here if stays or against else beside[0] * columns + beside[1])
        table.append(moves)
    return table


class TaskEnv(gymnasium.Env[Any, Any]):
    """A task as a Gymnasium environment, for any agent; here moves may slip.

    A slip goes to one of the two sides of the move; it needs the four actions of a board.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: Task) -> None:
        if task.slip and task.n_actions != len(_SIDES):
            raise NeedReplayError(
                f"slip is {task.slip}, but the task has {task.n_actions} actions; slip is for "
                "boards with up, down, left, right."
            )
        self.task = task
        self.observation_space = spaces.Discrete(task.n_states)
        self.action_space = spaces.Discrete(task.n_actions)
        self._state, self._goal = -1, -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin an episode: at the first start, later at the one that the last goal leads to."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._goal = -1
        starts = self.task.starts
        place = self._goal + 1
        if self.task.random_start:
            place = int(self.np_random.integers(starts.size))
        self._state = int(starts[place % starts.size])
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one step; entering a goal terminates."""
        if self._state < 0:
            raise NeedReplayError("No episode is under way: call reset() before step().")
        if not self.action_space.contains(action):
            raise NeedReplayError(
                f"action must be an integer from 0 to {self.task.n_actions - 1}; it was {action!r}."
            )
        if self.task.slip and self.np_random.random() < self.task.slip:
            action = _SIDES[int(action)][int(self.np_random.integers(2))]
        state = int(self.task.next_state[self._state, int(action)])
        reward, goal = self._reward(state), int(self.task.goal[state])
        self._state = state if goal < 0 else -1
        if goal >= 0:
            self._goal = goal
        return state, reward, goal >= 0, False, {}

    def _reward(self, state: int) -> float:
        listed = int(self.task.choices[state])
        if listed == 0:
            return 0.0
        choice = int(self.np_random.integers(listed)) if listed > 1 else 0
        mean = float(self.task.magnitudes[state, choice])
        reward = mean + float(self.task.spreads[state, choice]) * self.np_random.standard_normal()
        return max(reward, 0.0) if mean >= 0.0 else reward
