"""The figures of the study."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needreplay.core.rng import stream
from needreplay.core.tables import Table
from needreplay.report.figures import PALETTE, draw_band, error_bars, house_style, new_figure
from needreplay.report.statistics import Band, mean_band, mean_interval
from needreplay.studies.mattar_daw.cases import (
    AGENTS,
    CHANGES,
    EPISODES,
    LINEAR,
    OPEN,
    SCHEDULES,
    WORLDS,
)
from needreplay.studies.mattar_daw.claims import Found, rates
from needreplay.studies.mattar_daw.measures import FAR, LONGEST, REACH

DIRECTIONS = ("forward", "reverse")
COLORS = {"forward": PALETTE[1], "reverse": PALETTE[0]}
AGENT_COLORS = dict(zip(AGENTS, (PALETTE[1], PALETTE[6], PALETTE[2]), strict=True))
HATCHES = {"forward": "", "reverse": "//"}


def draw_all(
    presets: dict[str, Found], decided: Table, seed: int
) -> tuple[dict[str, Figure], dict[str, str]]:
    """All figures, and a caption for each. The detailed ones show the first preset."""
    first = next(iter(presets))
    own = presets[first]
    figures = {
        "figure": _events(presets, seed),
        "behavior": _behavior(own, seed),
        "distances": _distances(own),
        "rewards": _rewards(own, seed),
        "laps": _laps(own, seed),
    }
    captions = {
        "figure": "Significant events per episode, before and after a run, with 95% intervals over "
        "simulations.",
        "behavior": f"Steps per episode of greedy agents ({first}); the dotted line is the mean "
        "shortest path.",
        "distances": f"Where events start and end ({first}): columns ahead of the agent on the "
        "track; how often states visited before and after are in the event, the dotted line is "
        "chance; shortest paths in the open field.",
        "rewards": f"Events per episode by the last reward ({first}), and the shares of sleep and "
        "shock.",
        "laps": f"Events per lap, gain and need of backups, and the chance of a state to be in an "
        f"event by its visits in the lap ({first}, linear track).",
    }
    if "published" in presets:
        figures["deciding"] = _deciding(decided)
        captions["deciding"] = (
            "What decides forward replay, what decides reverse replay: events per episode of the "
            "preset published with one change at a time, with 95% intervals."
        )
    return figures, captions


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
    figure, grid = new_figure(len(presets), 2, height=0.6 + 2.6 * len(presets))
    with house_style():
        for row, (preset, own) in zip(grid, presets.items(), strict=True):
            for axes, world in zip(row, WORLDS, strict=True):
                events = own[f"{world}/baseline"]["events"][:, 0]
                rng = stream(seed, "mattar-daw", "figure", preset, world)
                _bars(
                    axes,
                    ["before a run", "after a run"],
                    {
                        name: [mean_interval(events[:, d, when], rng) for when in range(2)]
                        for d, name in enumerate(DIRECTIONS)
                    },
                )
                axes.set_title(f"{world}, {preset}")
            row[0].set_ylabel("events per episode")
        grid[0, 0].legend()
    return figure


def _deciding(decided: Table) -> Figure:
    figure, grid = new_figure(1, 2, height=5.2, sharey=True)
    changes = list(CHANGES)
    with house_style():
        for axes, world in zip(grid[0], WORLDS, strict=True):
            for direction, shift, marker in (("forward", -0.15, "o"), ("reverse", 0.15, "s")):
                mine = (
                    (decided["preset"] == "published")
                    & (decided["world"] == world)
                    & (decided["direction"] == direction)
                )
                y = np.array([changes.index(change) for change in decided["change"][mine]]) + shift
                found = Band(*(decided[name][mine] for name in ("mean", "low", "high")))
                axes.errorbar(
                    found.estimate, y, xerr=error_bars(found), fmt=marker, color=COLORS[direction],
                    label=direction, markersize=5, linewidth=1.2,
                )  # fmt: skip
            axes.set_xlabel("events per episode")
            axes.set_title(world)
        labels = ["as published", *changes[1:]]
        grid[0, 0].set_yticks(np.arange(len(changes)), labels)
        grid[0, 0].invert_yaxis()
        grid[0, 1].legend(loc="lower right")
    return figure


def _behavior(own: Found, seed: int) -> Figure:
    from needreplay.studies.mattar_daw.cases import world_of

    figure, grid = new_figure(1, 2, height=3.4)
    with house_style():
        for axes, world in zip(grid[0], WORLDS, strict=True):
            for agent in AGENTS:
                rng = stream(seed, "mattar-daw", "behavior", "figure", world, agent)
                band = mean_band(own[f"{world}/{agent}"]["steps"], rng)
                x = np.arange(1, EPISODES + 1)
                draw_band(axes, x, band, color=AGENT_COLORS[agent], label=agent)
            task, between = world_of(world, "baseline")
            best = float(between[task.starts][:, task.goals].max(axis=1).mean())
            axes.axhline(best, color="#999999", linewidth=1, linestyle=":")
            axes.set_yscale("log")
            axes.set_xlabel("episode")
            axes.set_title(world)
        grid[0, 0].set_ylabel("steps per episode")
        grid[0, 1].legend()
    return figure


def _distances(own: Found) -> Figure:
    figure, grid = new_figure(2, 2, height=6.0)
    track, field = own[f"{LINEAR}/baseline"], own[f"{OPEN}/baseline"]
    ahead = np.arange(-FAR, FAR + 1)
    with house_style():
        for end, which in enumerate(("first", "last")):
            axes = grid[0, end]
            for d, name in enumerate(DIRECTIONS):
                counts = track["columns"][:, d, end].sum(axis=0)
                share = counts / max(counts.sum(), 1.0)
                axes.step(ahead, share, where="mid", color=COLORS[name], label=name)
            axes.set_title(f"{which} state of events")
            axes.set_xlabel("columns ahead of the agent")
        grid[0, 0].set_ylabel("share of events")
        grid[0, 0].legend()
        axes, t = grid[1, 0], np.arange(1, REACH + 1)
        for d, name in enumerate(DIRECTIONS):
            for side, sign in enumerate((-1, 1)):
                hits, events, chance = track["near"][:, d, side].sum(axis=0).T
                axes.plot(sign * t, hits / np.maximum(events, 1.0), color=COLORS[name])
                axes.plot(sign * t, chance / np.maximum(events, 1.0), ":", color=COLORS[name])
        axes.set_xlabel("steps after the event")
        axes.set_ylabel("share in the event")
        axes.set_ylim(0, 1.02)
        paths = field["paths"].sum(axis=0)[0]
        names = ("backups", "first state", "last state", "all states")
        for place, name in enumerate(names):
            share = paths[place] / max(paths[place].sum(), 1.0)
            grid[1, 1].plot(np.arange(LONGEST + 1), share, color=PALETTE[place], label=name)
        grid[1, 1].set_xlabel("path length from the agent (open field)")
        grid[1, 1].legend()
    return figure


def _rewards(own: Found, seed: int) -> Figure:
    figure, grid = new_figure(1, 2, height=3.4, width_ratios=[2, 1])
    names = [name for groups in SCHEDULES.values() for name in groups]
    places = [(case, group) for case, groups in SCHEDULES.items() for group in range(len(groups))]
    with house_style():
        rng = stream(seed, "mattar-daw", "figure", "rewards")
        values = {
            name: [
                mean_interval(rates(own, f"{LINEAR}/{case}", d, group), rng)
                for case, group in places
            ]
            for d, name in enumerate(DIRECTIONS)
        }
        _bars(grid[0, 0], [name.replace(" after", "\nafter") for name in names], values)
        grid[0, 0].set_ylabel("events per episode")
        grid[0, 0].legend()
        cued, uncued, total = own["sleep"]["arms"].sum(axis=0)
        before, after = own["shock"]["replayed"].mean(axis=0)
        shares = [cued / total, uncued / total, before, after]
        grid[0, 1].bar(np.arange(4), shares, color=[PALETTE[2], PALETTE[6]] * 2)
        labels = ["sleep:\ncued", "sleep:\nuncued", "shock:\nbefore", "shock:\nafter"]
        grid[0, 1].set_xticks(np.arange(4), labels)
        grid[0, 1].set_ylabel("share")
    return figure


def _laps(own: Found, seed: int) -> Figure:
    figure, grid = new_figure(1, 3, height=3.2, width=10.0)
    columns, laps = own[f"{LINEAR}/baseline"], np.arange(1, EPISODES + 1)
    with house_style():
        for d, name in enumerate(DIRECTIONS):
            rng = stream(seed, "mattar-daw", "laps", "figure", name)
            band = mean_band(columns["laps"][..., d], rng)
            draw_band(grid[0, 0], laps, band, color=COLORS[name], label=name)
        for column, color in (("gain", PALETTE[2]), ("need", PALETTE[3])):
            rng = stream(seed, "mattar-daw", "laps", "figure", column)
            band = mean_band(columns[f"lap_{column}"], rng)
            draw_band(grid[0, 1], laps, band, color=color, label=column)
        hits, states = columns["visits"].sum(axis=0).T
        grid[0, 2].plot(np.arange(len(hits)), hits / np.maximum(states, 1.0), "o-", markersize=3)
        grid[0, 1].set_yscale("log")
        for axes, label, title in (
            (grid[0, 0], "lap", "events per lap"),
            (grid[0, 1], "lap", "mean of backups"),
            (grid[0, 2], "visits in the lap", "chance to be in an event"),
        ):
            axes.set_xlabel(label)
            axes.set_title(title)
        grid[0, 0].legend()
        grid[0, 1].legend()
    return figure
