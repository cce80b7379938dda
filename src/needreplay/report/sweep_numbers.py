"""Every number of a sweep's page, as tables: what the page shows is what the CSV files hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.tables import Table, long_table
from needreplay.core.types import FloatArray
from needreplay.report.aggregate import (
    AGGREGATES,
    aggregate_interval,
    holm,
    improvement_probability,
    paired_test,
    performance_profile,
)
from needreplay.report.comparison import SCORES, Cell, Normalized, normalized, trial_pairs
from needreplay.report.statistics import (
    Band,
    Interval,
    mean_band,
    mean_interval,
    permutation_test,
)

THRESHOLDS = 101


@dataclass(frozen=True)
class Numbers:
    """What was computed of a sweep."""

    agents: tuple[str, ...]
    curves: dict[tuple[str, str], Band]
    """[task, agent]"""
    finals: dict[tuple[str, str], Interval]
    normalized: Normalized
    aggregates: dict[str, dict[str, dict[str, Interval]]]
    """[score][aggregate][agent]"""
    thresholds: FloatArray
    profiles: dict[str, Band]
    improvements: dict[str, dict[tuple[str, str], Interval]]
    """[score][agent, agent]"""
    paired: list[dict[str, Any]]


def numbers_of(cells: Sequence[Cell], seed: int) -> Numbers:
    """Compute everything; every bootstrap has a stream of its own."""
    agents = tuple(dict.fromkeys(cell.agent for cell in cells))
    curves = {
        (c.task, c.agent): mean_band(c.y, stream(seed, "curve", c.task, c.agent)) for c in cells
    }
    finals = {
        (c.task, c.agent): mean_interval(c.scores["final"], stream(seed, "final", c.task, c.agent))
        for c in cells
    }
    shared = normalized(cells)
    thresholds = _thresholds(shared)
    has_tasks = bool(shared.tasks)
    return Numbers(
        agents=agents,
        curves=curves,
        finals=finals,
        normalized=shared,
        aggregates=_aggregates(shared, seed) if has_tasks else {},
        thresholds=thresholds,
        profiles={
            agent: performance_profile(scores, thresholds, stream(seed, "profile", agent))
            for agent, scores in shared.scores["final"].items()
            if has_tasks
        },
        improvements={
            name: {
                (a, b): improvement_probability(
                    shared.scores[name][a], shared.scores[name][b], stream(seed, "poi", name, a, b)
                )
                for a, b in combinations(shared.agents, 2)
            }
            for name in SCORES
            if has_tasks and _is_small(shared)
        },
        paired=_paired(cells, seed),
    )


def _is_small(shared: Normalized) -> bool:
    """Thousands of tabular trials are compared in pairs instead; all pairs of them are too many."""
    return all(len(runs) <= 200 for tasks in shared.scores["final"].values() for runs in tasks)


def _thresholds(shared: Normalized) -> FloatArray:
    runs = [run for tasks in shared.scores["final"].values() for run in tasks]
    if not runs:
        return np.zeros(0)
    everything = np.concatenate(runs)
    return np.linspace(min(0.0, everything.min()), max(1.0, everything.max()), THRESHOLDS)


def _aggregates(shared: Normalized, seed: int) -> dict[str, dict[str, dict[str, Interval]]]:
    return {
        score: {
            name: {
                agent: aggregate_interval(tasks, of, stream(seed, "aggregate", score, name, agent))
                for agent, tasks in shared.scores[score].items()
            }
            for name, of in AGGREGATES.items()
        }
        for score in SCORES
    }


def _paired(cells: Sequence[Cell], seed: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one, other, mine, its in trial_pairs(cells):
        for score in SCORES:
            if score != "final" and len(one.x) == 1:
                continue
            rng = stream(seed, "paired", one.task, score, one.agent, other.agent)
            found = paired_test(one.scores[score][mine], other.scores[score][its], rng)
            rows.append(
                {
                    "task": one.task,
                    "score": score,
                    "first": one.agent,
                    "second": other.agent,
                    "pairs": found.pairs,
                    **found.difference.columns("difference"),
                    "p": found.p_value,
                }
            )
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    return rows


def _improvement_rows(numbers: Numbers) -> list[tuple[tuple[str, str, str], dict[str, Any]]]:
    """Each pair of agents: how often one is ahead, and a permutation test stratified by task."""
    rows = [
        ((score, *pair), one.columns("estimate"))
        for score, pairs in numbers.improvements.items()
        for pair, one in pairs.items()
    ]
    tests = []
    for (score, first, second), _ in rows:
        scores, rng = numbers.normalized.scores[score], stream(0, "permutation", score)
        tests.append(permutation_test(scores[first], scores[second], rng, paired=False))
    for (_, columns), p, adjusted in zip(rows, tests, holm(tests), strict=True):
        columns |= {"p": p, "p_holm": adjusted}
    return rows


def tables_of(cells: Sequence[Cell], numbers: Numbers) -> dict[str, Table]:
    """The CSV files, by stem; those without rows are left out."""
    by_key = {(cell.task, cell.agent): cell for cell in cells}
    curves = [
        (key, {"x": by_key[key].x, **band.columns("mean"), "runs": len(by_key[key].trials)})
        for key, band in numbers.curves.items()
    ]
    scores = [
        (
            (c.task, c.agent),
            {
                "seed": [trial.seed for trial in c.trials],
                "trial": [trial.number for trial in c.trials],
                **{name: c.scores[name] for name in SCORES},
            },
        )
        for c in cells
    ]
    aggregates = [
        ((score, name, agent), one.columns("estimate"))
        for score, by_name in numbers.aggregates.items()
        for name, found in by_name.items()
        for agent, one in found.items()
    ]
    profiles = [
        (agent, {"threshold": numbers.thresholds, **band.columns("share")})
        for agent, band in numbers.profiles.items()
    ]
    improvement = _improvement_rows(numbers)
    tables: dict[str, tuple[tuple[str, ...], list[Any]]] = {
        "scores": (("task", "agent"), scores),
        "curves": (("task", "agent"), curves),
        "aggregates": (("score", "aggregate", "agent"), aggregates),
        "profiles": (("agent",), profiles),
        "improvement": (("score", "first", "second"), improvement),
        "paired": ((), [((), row) for row in numbers.paired]),
    }
    return {stem: long_table(names, parts) for stem, (names, parts) in tables.items() if parts}
