"""Worlds as text: mazes and boards with several starts, goals and rewards, doors and slip.

The board is one line per row and one character per cell:

- ``#`` wall, ``.`` free cell, ``S`` start (any number of them);
- ``G`` or any other capital letter but S: a goal, which ends the episode;
- a small letter but v: a free cell with a reward;
- ``<``, ``>``, ``^``, ``v``: a one-way door, a free cell that no move may enter or leave against
  its arrow.

After an empty line, lines "name: value" say more:

- ``G: 1 sd 0.1``, ``A: 1 or 4``, ``a: -1``: the reward on entering a letter's cells; with "or", one
  of the magnitudes is drawn at every visit. A goal without such a line gives 1 sd 0.1. Noise never
  makes a reward negative whose magnitude is not.
- ``starts: in turn`` (the default: the k-th goal leads to the (k+1)-th start, both counted in
  reading order, and the last goal to the first start), ``starts: at random``, or
  ``starts: anywhere`` (any free cell that is not a goal, at random; the board then has no S).
- ``slip: 0.1``: with this chance a move goes to one of its two sides instead.

States are cells, row-major; actions are up, down, left, right. A move off the board, into a wall or
against a door leaves the agent in place.
"""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path

import numpy as np

from needlab.worlds.tabular import Rewards, TabularWorld, world_of_arrays
from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError

UP, DOWN, LEFT, RIGHT = range(4)

_MOVES = {"^": (-1, 0), "v": (1, 0), "<": (0, -1), ">": (0, 1)}
"""Up, down, left, right: the actions in order, by the door that allows them."""
_AGAINST = {"^": "v", "v": "^", "<": ">", ">": "<"}
_DEFAULT_REWARD: Rewards = ((1.0, 0.1),)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_MAGNITUDE = re.compile(rf"({_NUMBER})(?:\s+sd\s+({_NUMBER}))?")
_STARTS = ("in turn", "at random", "anywhere")


def world_of_text(
    text: str,
    source: str = "The world",
    *,
    resolution: int = 1,
    reward_std: float | None = None,
) -> TabularWorld:
    r"""Read a world from text; see this module for the format.

    >>> track = world_of_text("S...G\n#####\nG...S\n\nG: 1 sd 0.1 or 4 sd 0.1")
    >>> track.starts.tolist(), track.goals.tolist()
    ([0, 14], [4, 10])

    Args:
        text: the board and what follows it. A common indentation is left out.
        source: what to call it in messages.
        resolution: each cell becomes ``resolution`` x ``resolution`` cells; a start is the center
            of its block, row and column ``resolution // 2``.
        reward_std: the standard deviation of every reward, in place of those of the text.
    """
    board, _, rest = textwrap.dedent(text.replace("\r\n", "\n")).strip("\n").partition("\n\n")
    rows = [row.rstrip() for row in board.split("\n")]
    _check_board(rows, source)
    rows = magnified(rows, check_number("resolution", resolution, int, AT_LEAST_ONE))
    columns, flat = len(rows[0]), "".join(rows)
    rewards, start_rule, slip = _settings(rest, flat, source)
    if reward_std is not None:
        if not (math.isfinite(reward_std) and reward_std >= 0.0):
            raise NeedReplayError(
                f"reward_std, the standard deviation of rewards, must be 0 or more; it was "
                f"{reward_std!r}."
            )
        rewards = {
            name: [(mean, float(reward_std)) for mean, _ in listed]
            for name, listed in rewards.items()
        }
    anywhere = start_rule == "anywhere"
    if anywhere and "S" in flat:
        raise NeedReplayError(f"{source} says 'starts: anywhere', so it must not have an 'S'.")
    starts = [
        i
        for i, name in enumerate(flat)
        if (name != "#" and not _is_goal(name) if anywhere else name == "S")
    ]
    goals = [i for i, name in enumerate(flat) if _is_goal(name)]
    for listed, name, letter in ((starts, "start", "S"), (goals, "goal", "G")):
        if not listed:
            raise NeedReplayError(
                f"{source} has no {name}: mark at least one cell with {letter!r}."
            )
    return world_of_arrays(
        next_states(rows),
        starts,
        goals=goals,
        rewards={i: rewards[name] for i, name in enumerate(flat) if name in rewards},
        start_rule="in turn" if start_rule == "in turn" else "at random",
        free=[name != "#" for name in flat],
        slip=slip,
        cut=True,
        columns=columns,
        drawn=flat,
    )


def read_text(path: str | Path) -> str:
    """The text of a world's file (UTF-8)."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise NeedReplayError(f"The world {str(path)!r} cannot be read: {error}.") from error


def is_text(world: str) -> bool:
    """Whether a string is a world, not the path of one: it has lines, or characters of a board."""
    return "\n" in world or set(world) <= set("#.SG^v<>")


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


def magnified(rows: list[str], resolution: int) -> list[str]:
    """Every cell as a block of cells; of a start's block, only the center is a start."""
    wide = ["".join(name * resolution for name in row) for row in rows for _ in range(resolution)]
    center = resolution // 2
    return [
        "".join(
            "." if name == "S" and (i % resolution, k % resolution) != (center, center) else name
            for k, name in enumerate(row)
        )
        for i, row in enumerate(wide)
    ]


def _settings(rest: str, flat: str, source: str) -> tuple[dict[str, Rewards], str, float]:
    """The rewards by letter, the rule of starts and the slip, from the lines below the board."""
    rewards: dict[str, Rewards] = {name: _DEFAULT_REWARD for name in flat if _is_goal(name)}
    start_rule, slip = _STARTS[0], 0.0
    for name, value in _lines(rest, source).items():
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
        elif re.fullmatch(r"\S\s+from\s+episode\s+\d+", name):
            raise NeedReplayError(
                f"{source} has the line '{name}: {value}', so it is more than one world. Read it "
                "with tabular_schedule of needlab.worlds: a list of (first episode, world), which "
                "simulate and run_trials take."
            )
        else:
            raise NeedReplayError(
                f"{source} has the line '{name}: {value}', but {name!r} is not 'starts', 'slip' or "
                "the letter of a goal or a reward on the board."
            )
    missing = sorted({name for name in flat if _is_reward(name)} - set(rewards))
    if missing:
        raise NeedReplayError(
            f"{source} has a cell {missing[0]!r} without its reward; add a line '{missing[0]}: 1'."
        )
    return rewards, start_rule, slip


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


def next_states(rows: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """[state, action]; walls and goals, which nothing leaves, lead to themselves."""
    padded = np.pad(np.array([list(row) for row in rows]), 1, constant_values="#")
    here = padded[1:-1, 1:-1]
    states = np.arange(here.size).reshape(here.shape)
    stays = (here == "#") | np.vectorize(_is_goal)(here)
    moves = []
    for arrow, (down, right) in _MOVES.items():
        after = np.roll(padded, (-down, -right), (0, 1))[1:-1, 1:-1]
        against = (here == _AGAINST[arrow]) | (after == _AGAINST[arrow])
        beside = states + down * here.shape[1] + right
        moves.append(np.where(stays | (after == "#") | against, states, beside))
    return np.stack(moves, axis=-1).reshape(-1, len(_MOVES))
