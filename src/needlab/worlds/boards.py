"""Published boards as text: the Dyna maze and the worlds of Mattar & Daw (2018).

Sutton & Barto, section 8.2 and example 8.4; Yuan & Mattar, section 4.1. Mattar & Daw number states
down the columns from 1; ours are row-major from 0.
"""

from __future__ import annotations

from typing import Literal, get_args

from needlab.worlds.tabular import TabularWorld
from needlab.worlds.text import world_of_text
from needreplay._core.errors import unknown

Schedule = Literal["baseline", "1-or-4", "1-or-0"]

REWARDS: dict[str, str] = {
    "baseline": "1 sd 0.1",
    "1-or-4": "1 sd 0.1 or 4 sd 0.1",
    "1-or-0": "1 sd 0.1 or 0",
}
"""What a goal gives, by schedule; of two magnitudes one is drawn at every visit."""

DYNA_MAZE = """\
.......#G
..#....#.
S.#....#.
..#......
.....#...
.........
"""
"""6 x 9; the start is state 18, the goal state 8, and the shortest path has 14 steps."""

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


BOARDS: dict[str, str] = {
    "linear-track": LINEAR_TRACK,
    "open-field": OPEN_FIELD,
    "t-maze": T_MAZE,
    "shock-track": SHOCK_TRACK,
    "dyna-maze": DYNA_MAZE,
}
"""The boards by name."""


def linear_track(schedule: Schedule = "baseline") -> TabularWorld:
    """3 x 10: start at the left of row 1 or at the right of row 3, in turn."""
    if schedule not in get_args(Schedule):
        raise unknown("schedule", schedule, get_args(Schedule))
    return world_of_text(f"{LINEAR_TRACK}\nG: {REWARDS[schedule]}", "The linear track")
