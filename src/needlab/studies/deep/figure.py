"""Figure 5 and its companions: bars and curves of the published runs, curves of ours."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import Table
from needlab.report.figures import colors_of, draw_band, error_bars, label_of, new_figure
from needlab.report.statistics import Band, student_interval
from needlab.studies.deep.ours import Plan, curves
from needlab.studies.deep.published import Game, changes
from needreplay._core.types import FloatArray

SMOOTHED = 6
"""Iterations in the rolling mean of the released plot."""


def draw_bars(games: list[Game]) -> Figure:
    """The relative change of PER-SR against PER, by the best iteration and at the end."""
    names = [game.name for game in games]
    by_best, at_end = zip(*(changes(game) for game in games), strict=True)
    figure, grid = new_figure(1, 1, height=3.8)
    axes = grid[0, 0]
    place = np.arange(len(games))
    axes.bar(place - 0.2, by_best, 0.4, color="#0072B2", label="best iteration (the paper's)")
    axes.bar(place + 0.2, at_end, 0.4, color="#E69F00", label="last ten iterations")
    axes.axhline(0.0, color="#444444", linewidth=1, linestyle=":")
    # Changes run from -100% to +5500%: linear up to 100%, logarithmic beyond.
    axes.set_yscale("symlog", linthresh=100)
    axes.set_yticks([-100, 0, 100, 1000, 5000], ["-100%", "0", "+100%", "+1000%", "+5000%"])
    axes.set_xticks(place, names, rotation=40, ha="right")
    axes.set_ylabel("PER-SR relative to PER")
    axes.legend()
    return figure


def draw_published_curves(games: list[Game]) -> Figure:
    """Each game's training return over iterations, with Dopamine's uniform DQN as a line."""
    columns = 3
    rows = math.ceil(len(games) / columns)
    figure, grid = new_figure(rows, columns, height=1.9 * rows)
    for axes, game in zip(grid.flat, games, strict=False):
        for curve, name in ((game.per, "per"), (game.per_sr, "per-sr")):
            axes.plot(
                rolling(curve), color=colors_of(["per", "per-sr"])[name], label=label_of(name)
            )
        axes.axhline(
            game.uniform_end, color="#555555", linestyle="--", label="DQN, uniform (Dopamine)"
        )
        axes.set_title(game.name)
    for axes in grid.flat[len(games) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    grid.flat[0].legend(fontsize=7)
    return figure


def rolling(curve: FloatArray) -> FloatArray:
    """The mean of the last six iterations, of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], curve]))
    ends = np.arange(1, len(curve) + 1)
    begins = np.maximum(0, ends - SMOOTHED)
    smooth: FloatArray = (sums[ends] - sums[begins]) / (ends - begins)
    return smooth


def draw_ours(data: Table, plan: Plan, random: dict[str, FloatArray]) -> Figure:
    """Evaluation returns of our agents over steps, one panel a game, and their final level.

    The names beside the final levels are the legend of both panels.
    """
    figure, grid = new_figure(len(plan.worlds), 2, height=3.1 * len(plan.worlds))
    colors = colors_of(list(plan.agents))
    for row, world in zip(grid, plan.worlds, strict=True):
        for agent in plan.agents:
            returns = curves(data, world, agent, "eval_return")
            steps = curves(data, world, agent, "steps").mean(0)
            band = Band.of(map(student_interval, returns.T))
            draw_band(row[0], steps, band, color=colors[agent], label="", alpha=0.1)
        chance = float(random[world].mean())
        row[0].axhline(chance, color="#999999", linewidth=1, linestyle=":")
        row[0].set_title(world)
        row[0].set_ylabel("evaluation return")
        row[0].set_xlabel("steps")
        for place, agent in enumerate(plan.agents):
            returns = curves(data, world, agent, "eval_return")[:, -1]
            final = Band.of([student_interval(returns)])
            errors = error_bars(final)
            row[1].errorbar(final.estimate, [place], xerr=errors, fmt="o", color=colors[agent])
            row[1].plot(returns, [place + 0.2] * len(returns), ".", color=colors[agent])
        row[1].axvline(chance, color="#999999", linewidth=1, linestyle=":")
        row[1].set_yticks(range(len(plan.agents)), [label_of(agent) for agent in plan.agents])
        for label, agent in zip(row[1].get_yticklabels(), plan.agents, strict=True):
            label.set_color(colors[agent])
        row[1].invert_yaxis()
        row[1].set_xlabel("final evaluation return")
    return figure
