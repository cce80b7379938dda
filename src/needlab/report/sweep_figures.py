"""The figures of a sweep: learning curves, aggregate scores, performance profiles.

Draw them inside ``house_style``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needlab.report.aggregate import AGGREGATES
from needlab.report.comparison import Cell
from needlab.report.figures import colors_of, draw_band, error_bars, new_figure
from needlab.report.statistics import Band, Interval
from needreplay._core.types import FloatArray

_LINES = ("-", "--", ":", "-.")
_COLUMNS = 3
_LONGEST = 48


def plain(text: str) -> str:
    """A name as matplotlib should write it: shortened, and without mathematics."""
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return "".join(c if c.isprintable() else " " for c in cut).replace("$", r"\$")


def styles_of(agents: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A color and a line for each agent; those that share a color differ in their line."""
    colors = colors_of(agents)
    earlier = [[colors[other] for other in agents[:i]] for i in range(len(agents))]
    return {
        agent: (colors[agent], _LINES[before.count(colors[agent]) % len(_LINES)])
        for agent, before in zip(agents, earlier, strict=True)
    }


def draw_curves(
    cells: Sequence[Cell], bands: Mapping[tuple[str, str], Band], agents: Sequence[str]
) -> Figure:
    """A panel for each task; single runs thinly where there are too few for a band."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    columns = min(_COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    figure, grid = new_figure(rows, columns, height=2.6 * rows + 0.35 * (1 + len(agents) // 3))
    styles = styles_of(agents)
    for axes, task in zip(grid.flat, tasks, strict=False):
        for cell in (one for one in cells if one.task == task):
            color, line = styles[cell.agent]
            band = bands[task, cell.agent]
            style: dict[str, Any] = {"color": color, "linestyle": line}
            draw_band(axes, cell.x, band, label=plain(cell.agent), linewidth=1.5, **style)
            if not np.isfinite(band.low).all():
                axes.plot(cell.x, cell.y.T, linewidth=0.5, alpha=0.5, **style)
            axes.set_xlabel(cell.measure.x)
            axes.set_ylabel(cell.measure.y)
            if not cell.measure.larger_is_better:
                axes.set_yscale("log")
        axes.set_title(plain(task))
    for axes in grid.flat[len(tasks) :]:
        axes.set_visible(False)
    _legend(figure, list(grid.flat)[: len(tasks)])
    return figure


def draw_points(
    cells: Sequence[Cell], intervals: Mapping[tuple[str, str], Interval], agents: Sequence[str]
) -> Figure:
    """Where a run gives one number: tasks from left to right, an agent's points joined."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    figure, grid = new_figure(height=3.6 + 0.25 * (len(agents) // 3))
    axes = grid[0, 0]
    styles = styles_of(agents)
    for agent in agents:
        places = [i for i, task in enumerate(tasks) if (task, agent) in intervals]
        found = Band.of(intervals[tasks[i], agent] for i in places)
        color, line = styles[agent]
        axes.errorbar(
            places, found.estimate, yerr=error_bars(found), fmt=line, marker="o", markersize=3,
            capsize=2, color=color, label=plain(agent), linewidth=1.2,
        )  # fmt: skip
    axes.set_xticks(range(len(tasks)), [plain(t) for t in tasks], rotation=30, ha="right")
    axes.set_ylabel(cells[0].measure.y)
    if cells[0].measure.logarithmic:
        axes.set_yscale("log")
    _legend(figure, [axes])
    return figure


def draw_aggregates(
    intervals: Mapping[tuple[str, str, str], Interval], agents: Sequence[str]
) -> Figure:
    """A panel for each aggregate of final scores, a bar from low to high for each agent."""
    figure, grid = new_figure(1, len(AGGREGATES), height=0.9 + 0.32 * len(agents), sharey=True)
    styles = styles_of(agents)
    for axes, name in zip(grid.flat, AGGREGATES, strict=True):
        for row, agent in enumerate(agents):
            one = Band.of([intervals["final", name, agent]])
            axes.errorbar(
                one.estimate, [row], xerr=error_bars(one), fmt="|", color=styles[agent][0],
                elinewidth=7, markersize=13, markeredgecolor="black", alpha=0.75,
            )  # fmt: skip
        axes.set_title(name, fontsize=9)
        axes.set_yticks(range(len(agents)), [plain(agent) for agent in agents])
        axes.set_ylim(len(agents) - 0.5, -0.5)
    return figure


def draw_profiles(thresholds: FloatArray, bands: Mapping[str, Band], xlabel: str) -> Figure:
    """The share of runs above each score."""
    figure, grid = new_figure(height=3.4 + 0.25 * (len(bands) // 3))
    axes = grid[0, 0]
    styles = styles_of(list(bands))
    for agent, band in bands.items():
        color, line = styles[agent]
        style = {"color": color, "label": plain(agent), "linestyle": line}
        draw_band(axes, thresholds, band, alpha=0.15, **style)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("share of runs above")
    axes.set_ylim(-0.02, 1.02)
    _legend(figure, [axes])
    return figure


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend below all panels, each agent once."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3)
