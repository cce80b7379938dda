"""The study's tables: events of every variant, and what Mattar & Daw's figures show of presets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report.statistics import Interval, mean_band, mean_interval
from needlab.studies.mattar_daw.cases import (
    AGENTS,
    EPISODES,
    LINEAR,
    OPEN,
    SCHEDULES,
    WORLDS,
    Variant,
)
from needlab.studies.mattar_daw.claims import Answer, F, Found, R
from needlab.studies.mattar_daw.measures import COUNTS
from needlab.tabular.evb.backups import policy_gain
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray

DIRECTIONS = ("forward", "reverse")
WHENS = ("before", "after")
Parts: TypeAlias = dict[str, dict[Any, dict[str, Any]]]
"""By table and key, columns."""

KEYS = {
    "behavior": ("preset", "world", "agent"),
    "laps": ("preset", "world", "quantity"),
    "distances": ("preset", "world", "measure", "of"),
    "around": ("preset", "world", "direction", "side"),
    "cells": ("preset", "of"),
    "visits": ("preset", "world"),
    "sleep": ("preset", "measure"),
}


def event_table(found: dict[Variant, Found]) -> Table:
    """Events per episode of every simulation."""
    parts = {}
    for variant, own in found.items():
        for world in WORLDS:
            for schedule, groups in SCHEDULES.items():
                for group, name in enumerate(groups if f"{world}/{schedule}" in own else ()):
                    events = own[f"{world}/{schedule}"]["events"][:, group]
                    parts[variant.preset, variant.change, world, name] = {
                        "simulation": np.repeat(np.arange(len(events)), 4),
                        "direction": np.tile(np.repeat(DIRECTIONS, 2), len(events)),
                        "when": np.tile(WHENS, 2 * len(events)),
                        "events_per_episode": events.ravel(),
                    }
    return long_table(("preset", "change", "world", "schedule"), parts)


def deciding_table(found: dict[Variant, Found], seed: int) -> Table:
    """Events per episode by change, before and after a run together, with intervals.

    By both rules of what makes an event long enough.
    """
    return long_table(
        ("preset", "change", "world", "direction", "count"),
        {
            (variant.preset, variant.change, *key): columns
            for variant, own in found.items()
            for key, columns in _rates(own, (variant.preset, variant.change), seed).items()
        },
    )


def floor_table(found: dict[float, Found], seed: int) -> Table:
    """Events per episode by the smallest gain of a pair, preset published."""
    return long_table(
        ("preset", "floor", "world", "direction", "count"),
        {
            ("published", floor, *key): columns
            for floor, own in sorted(found.items())
            for key, columns in _rates(own, ("floor", f"{floor:g}"), seed).items()
        },
    )


def _rates(own: Found, names: tuple[str, ...], seed: int) -> dict[Any, dict[str, Any]]:
    """Events per episode by world, direction and rule."""
    parts = {}
    for world in WORLDS:
        for direction, name in enumerate(DIRECTIONS):
            for rule, count in enumerate(COUNTS):
                events, floors = own[f"{world}/baseline"]["counted"][:, rule, direction].T
                rng = stream(seed, "mattar-daw", "deciding", *names, world, name)
                parts[world, name, count] = {
                    "simulations": len(events),
                    **mean_interval(events / EPISODES, rng).columns("mean"),
                    "by_floor_alone": floors.sum() / max(events.sum(), 1.0),
                }
    return parts


def answer_table(answered: dict[Variant, list[Answer]]) -> Table:
    """Every claim under every change."""
    nothing = Interval(float("nan"), float("nan"), float("nan"))
    return long_table(
        ("preset", "change", "figure", "claim", "published"),
        {
            (variant.preset, variant.change, asked.figure, asked.name, asked.direction): {
                **(answer.interval or nothing).columns("mean"),
                "verdict": answer.verdict,
            }
            for variant, own in answered.items()
            for answer in own
            for asked in [answer.question]
        },
    )


def gain_table() -> Table:
    """Figure 5: policy gain of a new value of either action, for Q = (1, 0) and β = 3."""
    values, updated = np.array([1.0, 0.0]), np.linspace(-2.0, 3.0, 101)
    gains = {
        name: {"new_q": updated, "gain": [policy_gain(values, action, q, 3.0) for q in updated]}
        for action, name in enumerate(("best", "other"))
    }
    return long_table(("action",), gains)


def preset_tables(presets: dict[str, Found], seed: int) -> dict[str, Table]:
    """The tables of ``KEYS``."""
    parts: Parts = defaultdict(dict)
    for preset, own in presets.items():
        for world in WORLDS:
            _add_behavior(parts, preset, world, own, seed)
            _add_laps(parts, preset, world, own[f"{world}/baseline"], seed)
            _add_around(parts, preset, world, own[f"{world}/baseline"])
        _add_distances(parts, preset, own)
        _add_cells(parts, preset, own[f"{OPEN}/baseline"])
        cued, uncued, total = own["sleep"]["arms"].sum(axis=0)
        before, after = own["shock"]["replayed"].mean(axis=0)
        for measure, share in (
            ("sleep, cued arm", cued / total),
            ("sleep, uncued arm", uncued / total),
            ("shock zone replayed, before", before),
            ("shock zone replayed, after", after),
        ):
            parts["sleep"][preset, measure] = {"share": share}
    return {stem: long_table(names, parts[stem]) for stem, names in KEYS.items()}


def _add_behavior(parts: Parts, preset: str, world: str, own: Found, seed: int) -> None:
    """Figure 1: steps per episode."""
    for agent in AGENTS:
        rng = stream(seed, "mattar-daw", "behavior", preset, world, agent)
        band = mean_band(own[f"{world}/{agent}"]["steps"], rng)
        episodes = np.arange(1, len(band) + 1)
        parts["behavior"][preset, world, agent] = {"episode": episodes, **band.columns("steps")}


def _add_laps(
    parts: Parts, preset: str, world: str, found: Mapping[str, AnyArray], seed: int
) -> None:
    """Figure 6: events, gain, need and activation by lap, and events by visits in a lap."""
    for name, values in {
        "forward events": found["laps"][..., F],
        "reverse events": found["laps"][..., R],
        "any event": found["laps"].sum(axis=2) > 0,
        "activation": found["lap_activation"],
        "gain": found["lap_gain"],
        "need": found["lap_need"],
    }.items():
        rng = stream(seed, "mattar-daw", "laps", preset, world, name)
        band = mean_band(values, rng)
        laps = np.arange(1, len(band) + 1)
        parts["laps"][preset, world, name] = {"lap": laps, **band.columns("mean")}
    hits, states = found["visits"].sum(axis=0).T
    share = hits / np.maximum(states, 1.0)
    parts["visits"][preset, world] = {
        "visits": range(len(hits)),
        "states": states,
        "share": share,
    }


def _add_around(parts: Parts, preset: str, world: str, found: Mapping[str, AnyArray]) -> None:
    """Figure 4: how often the state t steps away is among an event's first five states."""
    near = found["near"].sum(axis=0)
    for direction, name in enumerate(DIRECTIONS):
        for side, sign in enumerate((-1, 1)):
            hits, events, chance = near[direction, side].T
            parts["around"][preset, world, name, WHENS[side]] = {
                "steps_away": sign * np.arange(1, len(hits) + 1),
                "share": hits / np.maximum(events, 1.0),
                "chance": chance / np.maximum(events, 1.0),
            }


def _add_distances(parts: Parts, preset: str, own: Found) -> None:
    """Figure 4: columns ahead of the agent (track), shortest paths (field), as shares."""
    track = own[f"{LINEAR}/baseline"]["columns"].sum(axis=0)
    field = own[f"{OPEN}/baseline"]["paths"].sum(axis=0)
    counts = {
        (LINEAR, "columns ahead of the agent", f"{name}, {which} state"): track[direction, end]
        for direction, name in enumerate(DIRECTIONS)
        for end, which in enumerate(("first", "last"))
    } | {
        (OPEN, measure, name): field[side, place]
        for side, measure in enumerate(("path from the agent", "path to the reward"))
        for place, name in enumerate(("backups", "first state", "last state", "all states"))
    }
    for key, own_counts in counts.items():
        begin = len(own_counts) // 2 if key[0] == LINEAR else 0
        parts["distances"][preset, *key] = {
            "distance": np.arange(len(own_counts)) - begin,
            "share": own_counts / max(own_counts.sum(), 1.0),
        }


def _add_cells(parts: Parts, preset: str, found: Mapping[str, AnyArray]) -> None:
    """Figure 4: shares of events that contain a cell of the field, and of episodes with it."""
    counts, events = found["cells"].sum(axis=0), found["laps"].sum(axis=(0, 1))
    totals = (*events, events.sum(), events.sum(), found["steps"].size)
    names = (*DIRECTIONS, "first state", "last state", "any backup")
    for name, own_counts, total in zip(names, counts, totals, strict=True):
        parts["cells"][preset, name] = {
            "state": range(len(own_counts)),
            "share": own_counts / max(float(total), 1.0),
        }
