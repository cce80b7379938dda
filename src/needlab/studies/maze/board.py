"""Pictures of a maze's board."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from needlab.worlds.tabular import TabularWorld
from needreplay._core.types import FloatArray

WALL_COLOR = "#444444"


def draw_board(axes: Axes, world: TabularWorld, *, letters: bool = True) -> None:
    """The walls, and S and G, as squares with row 0 on top."""
    rows, columns = world.n_states // world.columns, world.columns
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=False)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    for row, column in map(world.cell, np.flatnonzero(~world.free).tolist()):
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=WALL_COLOR))
    for spine in axes.spines.values():
        spine.set_visible(True)
    if letters:
        mark_ends(axes, world, "black")


def mark_ends(axes: Axes, world: TabularWorld, color: str) -> None:
    """S on the start and G on the goals, outlined so that they can be read on any ground."""
    outline = withStroke(linewidth=2, foreground="black" if color == "white" else "white")
    for letter, state in [("S", world.start), *(("G", goal) for goal in world.goals)]:
        row, column = world.cell(state)
        axes.text(
            column, row, letter, ha="center", va="center", weight="bold", color=color,
            path_effects=[outline],
        )  # fmt: skip


def draw_heat(axes: Axes, world: TabularWorld, values: FloatArray, *, highest: float) -> AxesImage:
    """One number per state as a heatmap over the board; walls are drawn, not colored."""
    cells = np.where(world.free, values, np.nan)
    image = axes.imshow(cells.reshape(-1, world.columns), vmin=0.0, vmax=highest, cmap="viridis")
    draw_board(axes, world, letters=False)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    return image
