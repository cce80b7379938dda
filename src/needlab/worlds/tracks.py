"""The worlds of Mattar & Daw (2018): linear track, open field, T-maze and shock track.

Their states are numbered down the columns from 1; ours are row-major from 0.
"""

from __future__ import annotations

from typing import Literal, get_args

from needlab.worlds.task import Task
from needlab.worlds.tasks import parse_task
from needreplay._core.errors import unknown

Schedule = Literal["baseline", "1-or-4", "1-or-0"]

REWARDS: dict[str, str] = {
    "baseline": "1 sd 0.1",
    "1-or-4": "1 sd 0.1 or 4 sd 0.1",
    "1-or-0": "1 sd 0.1 or 0",
}
"""What a goal gives, by schedule; of two magnitudes one is drawn at every visit."""

LINEAR_TRACK = """\
S........G
##########
G........S
"""
"""Two corridors of ten cells; the end of each leads to the start of the other."""

OPEN_FIELD = """\
.......#G
..#....#.
..#....#.
..#......
.....#...
.........

starts: anywhere
"""
"""47 free cells; the goal is entered only from the cell below it."""

T_MAZE = """\
U...C
##S##

U: 0
C: 1 sd 0.1
"""
"""The uncued arm U and the cued arm C."""

SHOCK_TRACK = """\
S........G

G: 0
"""
"""One corridor without rewards."""


def linear_track(schedule: Schedule = "baseline") -> Task:
    """3 x 10: start at the left of row 1 or at the right of row 3, in turn."""
    if schedule not in get_args(Schedule):
        raise unknown("schedule", schedule, get_args(Schedule))
    return parse_task(f"{LINEAR_TRACK}\nG: {REWARDS[schedule]}", "the linear track")


def open_field() -> Task:
    """6 x 9 with walls; every episode starts in a random cell."""
    return parse_task(OPEN_FIELD, "the open field")


def t_maze() -> Task:
    """2 x 5: the start below the junction, a goal at either end."""
    return parse_task(T_MAZE, "the T-maze")


def shock_track() -> Task:
    """1 x 10, without rewards; the shock comes later."""
    return parse_task(SHOCK_TRACK, "the shock track")
