"""Mattar & Daw (2018): forward and reverse replay from gain x need, and what decides them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.tables import Table, long_table
from needreplay.core.types import AnyArray
from needreplay.report.statistics import Interval, mean_band, mean_interval
from needreplay.studies.mattar_daw.cases import (
    CHANGES,
    EPISODES,
    LINEAR,
    OPEN,
    SCHEDULES,
    UNCHANGED,
    WORLDS,
    Case,
    Variant,
    behavior_cases,
    event_cases,
    run_behavior,
    run_events,
    run_shock,
    run_sleep,
)
from needreplay.studies.mattar_daw.claims import Answer, F, Found, R, answers, claim_of, rates
from needreplay.studies.mattar_daw.figure import draw_all
from needreplay.studies.study import Options, Result, Study
from needreplay.studies.trials import TrialRunner
from needreplay.tabular.evb.backups import policy_gain

SIMULATIONS = {
    "quick": {LINEAR: 60, OPEN: 60, "change": 20, "other": 60},
    "full": {LINEAR: 10_000, OPEN: 100, "change": 200, "other": 1000},
}
"""Of the presets' events by world, of every change, and of the other figures."""

DIRECTIONS = ("forward", "reverse")
WHENS = ("before", "after")
_SECONDS = {LINEAR: 0.04, OPEN: 0.04}


def run(options: Options, runner: TrialRunner) -> Result:
    """Run the presets, every change of ``published``, and compare with the published figures."""
    found = simulate_all(options, runner)
    answered = {variant: answers(variant, own, options.seed) for variant, own in found.items()}
    decided = deciding_table(found, options.seed)
    presets = {variant.preset: own for variant, own in found.items() if variant.change == UNCHANGED}
    figures, captions = draw_all(presets, decided, options.seed)
    return Result(
        tables={
            "data": event_table(found),
            "deciding": decided,
            "claims_by_change": answer_table(answered),
            "behavior": behavior_table(presets, options.seed),
            "laps": lap_table(presets, options.seed),
            "distances": distance_table(presets),
            "around": around_table(presets),
            "cells": cell_table(presets),
            "visits": visit_table(presets),
            "sleep": sleep_table(presets),
            "gain": gain_table(),
        },
        figures=figures,
        captions=captions,
        claims=[
            claim_of(answer, variant.preset)
            for variant, own in answered.items()
            if variant.change == UNCHANGED
            for answer in own
        ],
        config={
            "episodes": EPISODES,
            "simulations": _numbers(options),
            "settings": {
                f"{variant.preset}, {variant.change}": asdict(variant.settings) for variant in found
            },
        },
        notes=notes(found, options.seed),
    )


def variants_of(presets: tuple[str, ...]) -> list[Variant]:
    """The presets as they are, and ``published`` with one change at a time."""
    changed = [Variant("published", change) for change in CHANGES if change != UNCHANGED]
    return [*map(Variant, presets), *(changed if "published" in presets else [])]


def _numbers(options: Options) -> dict[str, int]:
    numbers = SIMULATIONS[options.size]
    return numbers if options.trials is None else dict.fromkeys(numbers, options.trials)


def simulate_all(options: Options, runner: TrialRunner) -> dict[Variant, Found]:
    """Run all simulations; by variant, the stacked columns of each case."""
    numbers, variants = _numbers(options), variants_of(options.presets)
    found: dict[Variant, Found] = {variant: {} for variant in variants}

    def count(case: Case, kind: str) -> int:
        return numbers["change" if case.variant.change != UNCHANGED else kind]

    cases = [case for variant in variants for case in event_cases(variant, options.seed)]
    for case, columns in zip(
        cases,
        runner.run(
            run_events,
            cases,
            [count(case, case.world if case.schedule == "baseline" else "other") for case in cases],
            label="mattar-daw events",
            seconds=[_SECONDS[case.world] for case in cases],
        ),
        strict=True,
    ):
        found[case.variant][f"{case.world}/{case.schedule}"] = columns
    cases = [case for variant in variants for case in behavior_cases(variant, options.seed)]
    counts = [count(case, "other") for case in cases]
    ran = runner.run(run_behavior, cases, counts, label="mattar-daw behavior", seconds=0.01)
    for case, columns in zip(cases, ran, strict=True):
        found[case.variant][f"{case.world}/{case.agent}"] = columns
    cases = [Case(variant, LINEAR, seed=options.seed) for variant in variants]
    counts = [count(case, "other") for case in cases]
    for name, function, seconds in (("sleep", run_sleep, 0.02), ("shock", run_shock, 0.001)):
        ran = runner.run(function, cases, counts, label=f"mattar-daw {name}", seconds=seconds)
        for case, columns in zip(cases, ran, strict=True):
            found[case.variant][name] = columns
    return found


def event_table(found: dict[Variant, Found]) -> Table:
    """Events per episode of every simulation."""
    parts: dict[Any, dict[str, AnyArray]] = {}
    for variant, own in found.items():
        for world in WORLDS:
            for schedule, groups in SCHEDULES.items():
                columns = own.get(f"{world}/{schedule}")
                for group, name in enumerate(groups if columns is not None else ()):
                    assert columns is not None
                    events = columns["events"][:, group]
                    parts[variant.preset, variant.change, world, name] = {
                        "simulation": np.repeat(np.arange(len(events)), 4),
                        "direction": np.tile(np.repeat(DIRECTIONS, 2), len(events)),
                        "when": np.tile(WHENS, 2 * len(events)),
                        "events_per_episode": events.ravel(),
                    }
    return long_table(("preset", "change", "world", "schedule"), parts.items())


def _interval_columns(found: Interval) -> dict[str, float]:
    return {"mean": found.estimate, "low": found.low, "high": found.high}


def deciding_table(found: dict[Variant, Found], seed: int) -> Table:
    """Events per episode by change, before and after a run together, with intervals."""
    parts: dict[Any, dict[str, Any]] = {}
    for variant, own in found.items():
        for world in WORLDS:
            for direction, name in enumerate(DIRECTIONS):
                values = rates(own, f"{world}/baseline", direction)
                rng = stream(seed, "mattar-daw", "deciding", *asdict(variant).values(), world, name)
                whole, counts = mean_interval(values, rng), own[f"{world}/baseline"]["floor_only"]
                floors, all_events = counts[:, direction].sum(axis=0)
                parts[variant.preset, variant.change, world, name] = {
                    "simulations": len(values),
                    **_interval_columns(whole),
                    "by_floor_alone": floors / all_events if all_events else 0.0,
                }
    return long_table(("preset", "change", "world", "direction"), parts.items())


def answer_table(answered: dict[Variant, list[Answer]]) -> Table:
    """Every claim under every change."""
    nothing = Interval(float("nan"), float("nan"), float("nan"))
    return long_table(
        ("preset", "change", "figure", "claim", "published"),
        {
            (*asdict(variant).values(), question.figure, question.name, question.direction): {
                **_interval_columns(answer.interval or nothing),
                "verdict": answer.verdict,
            }
            for variant, own in answered.items()
            for answer in own
            for question in [answer.question]
        }.items(),
    )


def behavior_table(presets: dict[str, Found], seed: int) -> Table:
    """Figure 1: steps per episode."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        for world in WORLDS:
            for agent in ("full", "no replay", "dyna"):
                rng = stream(seed, "mattar-daw", "behavior", preset, world, agent)
                band = mean_band(own[f"{world}/{agent}"]["steps"], rng)
                parts[preset, world, agent] = {
                    "episode": np.arange(1, EPISODES + 1),
                    "steps": band.estimate,
                    "low": band.low,
                    "high": band.high,
                }
    return long_table(("preset", "world", "agent"), parts.items())


def lap_table(presets: dict[str, Found], seed: int) -> Table:
    """Figure 6: events, gain, need and activation by lap, on the track and in the field."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        for world in WORLDS:
            columns = own[f"{world}/baseline"]
            values = {
                "forward events": columns["laps"][..., F],
                "reverse events": columns["laps"][..., R],
                "any event": columns["laps"].sum(axis=2) > 0,
                "activation": columns["lap_activation"],
                "gain": columns["lap_gain"],
                "need": columns["lap_need"],
            }
            for name, own_values in values.items():
                rng = stream(seed, "mattar-daw", "laps", preset, world, name)
                band = mean_band(own_values.astype(np.float64), rng)
                parts[preset, world, name] = {
                    "lap": np.arange(1, EPISODES + 1),
                    "mean": band.estimate,
                    "low": band.low,
                    "high": band.high,
                }
    return long_table(("preset", "world", "quantity"), parts.items())


def distance_table(presets: dict[str, Found]) -> Table:
    """Figure 4: columns ahead of the agent (track), shortest paths (field), as shares."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        track = own[f"{LINEAR}/baseline"]["columns"].sum(axis=0)
        for direction, name in enumerate(DIRECTIONS):
            for end, which in enumerate(("first", "last")):
                counts = track[direction, end]
                parts[preset, LINEAR, "columns ahead of the agent", f"{name}, {which} state"] = {
                    "distance": np.arange(len(counts)) - len(counts) // 2,
                    "share": counts / max(counts.sum(), 1.0),
                }
        field = own[f"{OPEN}/baseline"]["paths"].sum(axis=0)
        for side, measure in enumerate(("path from the agent", "path to the reward")):
            for place, name in enumerate(("backups", "first state", "last state", "all states")):
                counts = field[side, place]
                parts[preset, OPEN, measure, name] = {
                    "distance": np.arange(len(counts)),
                    "share": counts / max(counts.sum(), 1.0),
                }
    return long_table(("preset", "world", "measure", "of"), parts.items())


def around_table(presets: dict[str, Found]) -> Table:
    """Figure 4: how often the state t steps away is among an event's first five states."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        for world in WORLDS:
            near = own[f"{world}/baseline"]["near"].sum(axis=0)
            for direction, name in enumerate(DIRECTIONS):
                for side, sign in enumerate((-1, 1)):
                    hits, events, chance = near[direction, side].T
                    parts[preset, world, name, WHENS[side]] = {
                        "steps_away": sign * np.arange(1, len(hits) + 1),
                        "share": hits / np.maximum(events, 1.0),
                        "chance": chance / np.maximum(events, 1.0),
                    }
    return long_table(("preset", "world", "direction", "side"), parts.items())


def cell_table(presets: dict[str, Found]) -> Table:
    """Figure 4: shares of events that contain a cell of the field, and of episodes with it."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        columns = own[f"{OPEN}/baseline"]
        counts, events = columns["cells"].sum(axis=0), columns["laps"].sum(axis=(0, 1))
        totals = (*events, events.sum(), events.sum(), columns["steps"].size)
        for place, name in enumerate((*DIRECTIONS, "first state", "last state", "any backup")):
            parts[preset, name] = {
                "state": np.arange(counts.shape[1]),
                "share": counts[place] / max(float(totals[place]), 1.0),
            }
    return long_table(("preset", "of"), parts.items())


def visit_table(presets: dict[str, Found]) -> Table:
    """Figure 6: the chance of a state to be in an event of a lap, by its visits in that lap."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        for world in WORLDS:
            hits, states = own[f"{world}/baseline"]["visits"].sum(axis=0).T
            parts[preset, world] = {
                "visits": np.arange(len(hits)),
                "states": states,
                "share": hits / np.maximum(states, 1.0),
            }
    return long_table(("preset", "world"), parts.items())


def sleep_table(presets: dict[str, Found]) -> Table:
    """Figure 4: shares of offline backups along the arms; figure 5: the shock."""
    parts: dict[Any, dict[str, Any]] = {}
    for preset, own in presets.items():
        cued, uncued, total = own["sleep"]["arms"].sum(axis=0)
        parts[preset, "sleep, cued arm"] = {"share": cued / total}
        parts[preset, "sleep, uncued arm"] = {"share": uncued / total}
        before, after = own["shock"]["replayed"].mean(axis=0)
        parts[preset, "shock zone replayed, before"] = {"share": before}
        parts[preset, "shock zone replayed, after"] = {"share": after}
    return long_table(("preset", "measure"), parts.items())


def gain_table() -> Table:
    """Figure 5: policy gain of a new value of either action, for Q = (1, 0) and β = 3."""
    values, updated = np.array([1.0, 0.0]), np.linspace(-2.0, 3.0, 101)
    return long_table(
        ("action",),
        {
            name: {
                "new_q": updated,
                "gain": np.array([policy_gain(values, action, q, 3.0) for q in updated]),
            }
            for action, name in enumerate(("best", "other"))
        }.items(),
    )


def notes(found: dict[Variant, Found], seed: int) -> list[str]:
    """The answers to the two open questions, with their numbers."""

    def said(change: str, world: str) -> str:
        own = found[Variant("published", change)]
        parts = []
        for direction, name in enumerate(DIRECTIONS):
            rng = stream(seed, "mattar-daw", "notes", change, world, name)
            values = rates(own, f"{world}/baseline", direction)
            parts.append(f"{name} {mean_interval(values, rng).text()}")
        return f"{world}: {', '.join(parts)}"

    lines = [
        "Means and intervals are over simulations. Events per episode are counts over 50 episodes; "
        "after a change of reward, counts over 25, as published, whatever the true number."
    ]
    if Variant("published", "no floor") not in found:
        return lines
    for change, statement in (
        (UNCHANGED, "Events per episode of the preset published"),
        ("no floor", "Without the gain floor"),
        ("floor on the sum", "With the floor on the sum of gains instead of each element"),
        ("no chains", "Without n-step chains"),
        ("gain by |TD|", "With |TD| as gain, floor and chains as published"),
        ("|TD| x need alone", "With Yuan & Mattar's rule, |TD| x need alone"),
    ):
        lines.append(f"{statement}: {'; '.join(said(change, world) for world in WORLDS)}.")
    return lines


STUDY = Study(
    name="mattar-daw",
    title="Forward and reverse replay from gain x need (Mattar & Daw 2018)",
    question="Replay ordered by policy gain x need should produce forward events before a run "
    "and reverse events after it. Does it, and which piece of the agent decides?",
    presets=("published", "text"),
    run=run,
    documentation="docs/mattar_daw.md",
)
