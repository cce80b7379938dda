"""The Dyna maze as the studies use it: its table, its streams, and pictures of its board."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from needreplay.rng import stream
from needreplay.rules.policy import epsilon_greedy_policy, expected_steps
from needreplay.rules.successor import transition_matrix
from needreplay.types import FloatArray, TransitionTable
from needreplay.worlds import DYNA_MAZE, Layout, maze_table, parse_layout

WALL_COLOUR = "#444444"


@cache
def dyna_layout() -> Layout:
    """The paper's board, 6 x 9."""
    return parse_layout(DYNA_MAZE)


@cache
def dyna_table(reward_std: float = 0.1) -> TransitionTable:
    """The paper's maze as a table."""
    return maze_table(dyna_layout(), reward_std)


def best_mean_steps(table: TransitionTable, epsilon: float) -> float:
    """The mean length of an episode that follows shortest paths, random actions included."""
    distance = np.where(table.ends, 0.0, np.inf).min(axis=1)
    while True:
        following = np.where(table.ends, 0.0, distance[table.next_state])
        nearer = 1.0 + following.min(axis=1)
        if (nearer == distance).all():
            break
        distance = nearer
    policy = epsilon_greedy_policy(-following, epsilon)
    T = transition_matrix(table.next_state, table.ends, policy)
    return expected_steps(T, table.start)


def trial_stream(seed: int, trial: int) -> np.random.Generator:
    """The random numbers of one trial, the same for every preset and agent.

    So agents are compared on the same luck: until one of them has learned something, they walk the
    very same steps.
    """
    return stream(seed, "maze", trial)


def chunks(trials: int, size: int = 20) -> list[range]:
    """Trials in pieces that are worth a process's while."""
    return [range(first, min(first + size, trials)) for first in range(0, trials, size)]


def draw_board(axes: Axes, layout: Layout, *, letters: bool = True) -> None:
    """The walls, and S and G, as squares with row 0 on top."""
    axes.set_xlim(-0.5, layout.cols - 0.5)
    axes.set_ylim(layout.rows - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(np.arange(layout.cols + 1) - 0.5, minor=False)
    axes.set_yticks(np.arange(layout.rows + 1) - 0.5, minor=False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    for row, column in layout.walls:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=WALL_COLOUR))
    for spine in axes.spines.values():
        spine.set_visible(True)
    if letters:
        mark_ends(axes, layout, "black")


def mark_ends(axes: Axes, layout: Layout, colour: str) -> None:
    """S on the start and G on the goals, outlined so that they can be read on any ground."""
    outline = withStroke(linewidth=2, foreground="black" if colour == "white" else "white")
    for letter, (row, column) in [("S", layout.start), *(("G", goal) for goal in layout.goals)]:
        axes.text(
            column, row, letter, ha="center", va="center", weight="bold", color=colour,
            path_effects=[outline],
        )  # fmt: skip


def draw_heat(axes: Axes, layout: Layout, values: FloatArray, *, highest: float) -> Any:
    """One number per state as a heatmap over the board; walls are drawn, not coloured."""
    cells = np.asarray(values, dtype=np.float64).reshape(layout.rows, layout.cols).copy()
    for row, column in layout.walls:
        cells[row, column] = np.nan
    image = axes.imshow(cells, vmin=0.0, vmax=highest, cmap="viridis")
    draw_board(axes, layout, letters=False)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    return image
