"""Arms of a study in several tasks, one panel each: means, intervals and single runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from needlab.report.figures import new_figure
from needlab.report.statistics import student_interval
from needreplay._core.types import FloatArray

NEED, OTHER = "#D55E00", "#0072B2"


def draw_arms(
    tasks: Sequence[str],
    arms: Sequence[str],
    runs: Callable[[str, str], FloatArray],
    is_need: Callable[[str], bool],
) -> Figure:
    """The mean of each arm in each task with Student's interval, and runs as small dots.

    Args:
        tasks: one panel each.
        arms: one row each.
        runs: of a task and an arm, one number for each seed; none if it was not run.
        is_need: whether an arm samples by need, and gets the color of need.
    """
    columns = min(3, len(tasks))
    height = 0.9 + 0.24 * len(arms)
    figure, grid = new_figure(-(-len(tasks) // columns), columns, height=height)
    figure.set_figheight(height * len(grid))
    for number, axes in enumerate(grid.ravel()):
        if number >= len(tasks):
            axes.set_visible(False)
            continue
        for place, arm in enumerate(arms):
            own = runs(tasks[number], arm)
            if len(own) == 0:
                continue
            interval, color = student_interval(own), NEED if is_need(arm) else OTHER
            axes.plot(own, np.full(len(own), place), ".", color=color, alpha=0.3, markersize=4)
            axes.plot(interval.estimate, place, "o", color=color, markersize=4)
            if np.isfinite(interval.low):
                axes.plot([interval.low, interval.high], [place, place], color=color)
        axes.set_title(tasks[number].replace("_", " "), fontsize=9)
        axes.set_yticks(range(len(arms)), arms if number % columns == 0 else [], fontsize=7)
        axes.invert_yaxis()
    return figure
