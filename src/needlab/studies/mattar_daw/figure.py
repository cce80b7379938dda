"""The figures of the study; curves and shares are those of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needlab.core.tables import Table
from needlab.report.figures import PALETTE, draw_band, error_bars, new_figure
from needlab.report.statistics import Band, mean_interval
from needlab.studies.mattar_daw.cases import (
    AGENTS,
    CHANGES,
    LINEAR,
    OPEN,
    SCHEDULES,
    WORLDS,
    world_of,
)
from needlab.studies.mattar_daw.claims import Found, rates
from needlab.studies.mattar_daw.tables import DIRECTIONS
from needreplay._core.rng import stream

COLORS = {"forward": PALETTE[1], "reverse": PALETTE[0]}
AGENT_COLORS = dict(zip(AGENTS, (PALETTE[1], PALETTE[6], PALETTE[2]), strict=True))
HATCHES = {"forward": "", "reverse": "//"}


def draw_all(
    presets: dict[str, Found], tables: Mapping[str, Table], seed: int
) -> tuple[dict[str, Figure], dict[str, str]]:
    """All figures, and a caption for each. The detailed ones show the first preset."""
    first = next(iter(presets))
    own = {name: table.where(preset=first) for name, table in tables.items() if name != "gain"}
    figures = {
        "figure": _events(presets, seed),
        "behavior": _behavior(own["behavior"]),
        "distances": _distances(own["distances"], own["around"].where(world=LINEAR)),
        "rewards": _rewards(presets[first], own["sleep"], own["heights"], seed),
        "laps": _laps(own["laps"].where(world=LINEAR), own["visits"].where(world=LINEAR)),
    }
    captions = {
        "figure": "Figure 3 of the article. Significant events per episode, before and after a "
        "run, with 95% intervals over simulations.",
        "behavior": f"Figure 1. Steps per episode of greedy agents ({first}); the dotted line is "
        "the mean shortest path.",
        "distances": f"Figure 4. Where events start and end ({first}): columns ahead of the agent "
        "on the track; how often states visited before and after are in the event, the dotted line "
        "is chance; shortest paths in the open field.",
        "rewards": f"Figures 5 and 4. Events per episode by the last reward ({first}); the change "
        "from a reward of 1 to one of 4 or 0, beside that in rats (Ambrose et al. 2016, as the "
        "authors' script has it); the shares of sleep and shock.",
        "laps": f"Figure 6. Events per lap, gain and need of backups, and the chance of a state to "
        f"be in an event by its visits in the lap ({first}, linear track).",
    }
    if "published" in presets:
        figures["deciding"] = _deciding(
            tables["deciding"].where(preset="published", count="states")
        )
        captions["deciding"] = (
            "Not in the article. What decides forward replay, what decides reverse replay: events "
            "per episode of the preset published with one change at a time, with 95% intervals. "
            "Events of five different states."
        )
    return figures, captions


def _band(table: Table, name: str) -> Band:
    return Band(table[name], table["low"], table["high"])


def _bars(axes: Axes, groups: list[str], values: dict[str, list[Any]]) -> None:
    """Grouped bars with intervals, one color and hatch for each direction."""
    width = 0.8 / len(values)
    for place, (name, intervals) in enumerate(values.items()):
        x = np.arange(len(groups)) + (place - (len(values) - 1) / 2) * width
        found = Band.of(intervals)
        axes.bar(
            x, found.estimate, width, yerr=error_bars(found), color=COLORS[name],
            hatch=HATCHES[name], label=name, edgecolor="white", error_kw={"linewidth": 1},
        )  # fmt: skip
    axes.set_xticks(np.arange(len(groups)), groups)


def _events(presets: dict[str, Found], seed: int) -> Figure:
    figure, grid = new_figure(
        len(presets), 2, height=0.6 + 2.6 * len(presets), sharex=True, sharey=True
    )
    for row, (preset, own) in zip(grid, presets.items(), strict=True):
        for axes, world in zip(row, WORLDS, strict=True):
            events = own[f"{world}/baseline"]["events"][:, 0]
            rng = stream(seed, "mattar-daw", "figure", preset, world)
            values = {
                name: [mean_interval(events[:, d, when], rng) for when in range(2)]
                for d, name in enumerate(DIRECTIONS)
            }
            _bars(axes, ["before a run", "after a run"], values)
            axes.set_title(f"{world}, {preset}")
        row[0].set_ylabel("events per episode")
    grid[0, 0].legend()
    return figure


def _deciding(decided: Table) -> Figure:
    figure, grid = new_figure(1, 2, height=5.4, sharex=True, sharey=True)
    changes = list(CHANGES)
    for axes, world in zip(grid[0], WORLDS, strict=True):
        for direction, shift, marker in (("forward", -0.15, "o"), ("reverse", 0.15, "s")):
            own = decided.where(world=world, direction=direction)
            y = np.array([changes.index(change) for change in own["change"]]) + shift
            found = _band(own, "mean")
            axes.errorbar(
                found.estimate, y, xerr=error_bars(found), fmt=marker, color=COLORS[direction],
                label=direction, markersize=5, linewidth=1.2,
            )  # fmt: skip
        axes.set_xlabel("events per episode")
        axes.set_title(world)
    grid[0, 0].set_yticks(np.arange(len(changes)), ["as published", *changes[1:]])
    grid[0, 0].invert_yaxis()
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _behavior(behavior: Table) -> Figure:
    figure, grid = new_figure(1, 2, height=3.4, sharey=True)
    for axes, world in zip(grid[0], WORLDS, strict=True):
        for agent in AGENTS:
            own = behavior.where(world=world, agent=agent)
            color = AGENT_COLORS[agent]
            draw_band(axes, own["episode"], _band(own, "steps"), color=color, label=agent)
        task, between = world_of(world, "baseline")
        best = float(between[task.starts][:, task.goals].max(axis=1).mean())
        axes.axhline(best, color="#999999", linewidth=1, linestyle=":")
        axes.set_yscale("log")
        axes.set_xlabel("episode")
        axes.set_title(world)
    grid[0, 0].set_ylabel("steps per episode")
    grid[0, 1].legend()
    return figure


def _distances(distances: Table, around: Table) -> Figure:
    figure, grid = new_figure(2, 2, height=6.0)
    grid[0, 1].sharey(grid[0, 0])
    for axes, which in zip(grid[0], ("first", "last"), strict=True):
        for name in DIRECTIONS:
            own = distances.where(of=f"{name}, {which} state")
            axes.step(own["distance"], own["share"], where="mid", color=COLORS[name], label=name)
        axes.set_title(f"{which} state of events")
        axes.set_xlabel("columns ahead of the agent")
    grid[0, 0].set_ylabel("share of events")
    grid[0, 0].legend()
    beside, paths = grid[1]
    for name in DIRECTIONS:
        for side in ("before", "after"):
            own = around.where(direction=name, side=side)
            beside.plot(own["steps_away"], own["share"], color=COLORS[name])
            beside.plot(own["steps_away"], own["chance"], ":", color=COLORS[name])
    beside.set_xlabel("steps after the event")
    beside.set_ylabel("share in the event")
    beside.set_ylim(0, 1.02)
    field = distances.where(world=OPEN, measure="path from the agent")
    for color, name in zip(PALETTE, field.distinct("of"), strict=False):
        own = field.where(of=name)
        paths.plot(own["distance"], own["share"], color=color, label=name)
    paths.set_xlabel("path length from the agent (open field)")
    paths.legend()
    return figure


def _rewards(own: Found, sleep: Table, heights: Table, seed: int) -> Figure:
    figure, grid = new_figure(1, 3, height=3.4, width=11.0, width_ratios=[2, 1, 1])
    events, changes, shares = grid[0]
    places = [
        (case, group, name)
        for case, groups in SCHEDULES.items()
        for group, name in enumerate(groups)
    ]
    rng = stream(seed, "mattar-daw", "figure", "rewards")
    values = {
        name: [
            mean_interval(rates(own, f"{LINEAR}/{case}", d, group), rng)
            for case, group, _ in places
        ]
        for d, name in enumerate(DIRECTIONS)
    }
    _bars(events, [name.replace(" after", "\nafter") for _, _, name in places], values)
    events.set_ylabel("events per episode")
    events.legend()
    _changes(changes, heights.where(kind="animals"))
    shares.bar(np.arange(4), sleep["share"], color=[PALETTE[2], PALETTE[6]] * 2)
    labels = ["sleep:\ncued", "sleep:\nuncued", "shock:\nbefore", "shock:\nafter"]
    shares.set_xticks(np.arange(4), labels)
    shares.set_ylabel("share")
    return figure


def _changes(axes: Axes, heights: Table) -> None:
    """Changes with reward: bars are ours, crosses are rats."""
    places, found = np.arange(len(heights)), _band(heights, "ours")
    colors, hatches = ([style[name] for name in DIRECTIONS] * 2 for style in (COLORS, HATCHES))
    axes.bar(
        places, found.estimate, yerr=error_bars(found), color=colors, hatch=hatches,
        edgecolor="white", error_kw={"linewidth": 1},
    )  # fmt: skip
    axes.plot(places, heights["published_low"], "kX", markeredgecolor="white", label="rats")
    axes.set_yscale("symlog", linthresh=100)
    axes.set_yticks([-100, -50, 0, 50, 100, 1000], ["−100", "−50", "0", "+50", "+100", "+1,000"])
    axes.set_xticks(places, ["F, 1 to 4", "R, 1 to 4", "F, 1 to 0", "R, 1 to 0"], rotation=45)
    axes.set_ylabel("change of events (%)")
    axes.legend()


def _laps(laps: Table, visits: Table) -> Figure:
    figure, grid = new_figure(1, 3, height=3.2, width=10.0)
    events, backups, chance = grid[0]
    for axes, quantity, label, color in (
        (events, "forward events", "forward", COLORS["forward"]),
        (events, "reverse events", "reverse", COLORS["reverse"]),
        (backups, "gain", "gain", PALETTE[2]),
        (backups, "need", "need", PALETTE[3]),
    ):
        own = laps.where(quantity=quantity)
        draw_band(axes, own["lap"], _band(own, "mean"), color=color, label=label)
        axes.legend()
    chance.plot(visits["visits"], visits["share"], "o-", markersize=3)
    backups.set_yscale("log")
    for axes, label, title in (
        (events, "lap", "events per lap"),
        (backups, "lap", "mean of backups"),
        (chance, "visits in the lap", "chance to be in an event"),
    ):
        axes.set_xlabel(label)
        axes.set_title(title)
    return figure
