"""Every number of a sweep's page, as tables: what the page shows is what the CSV files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.tables import Table
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
from needreplay.report.statistics import Band, Interval, mean_band, mean_interval

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
                    "difference": found.difference.estimate,
                    "low": found.difference.low,
                    "high": found.difference.high,
                    "p": found.p_value,
                }
            )
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    return rows


def tables_of(cells: Sequence[Cell], numbers: Numbers) -> dict[str, Table]:
    """The CSV files, by stem; those without rows are left out."""
    by_key = {(cell.task, cell.agent): cell for cell in cells}
    rows: dict[str, list[Mapping[str, Any]]] = {
        "scores": [
            {
                "task": c.task, "agent": c.agent, "seed": trial.seed, "trial": trial.number,
                **{name: float(c.scores[name][i]) for name in SCORES},
            }
            for c in cells
            for i, trial in enumerate(c.trials)
        ],
        "curves": [
            {
                "task": task, "agent": agent, "x": float(by_key[task, agent].x[i]),
                "mean": band[i].estimate, "low": band[i].low, "high": band[i].high,
                "runs": len(by_key[task, agent].trials),
            }
            for (task, agent), band in numbers.curves.items()
            for i in range(len(band))
        ],
        "aggregates": [
            {"score": score, "aggregate": name, "agent": agent, **_interval(one)}
            for score, aggregates in numbers.aggregates.items()
            for name, found in aggregates.items()
            for agent, one in found.items()
        ],
        "profiles": [
            {
                "agent": agent, "threshold": float(numbers.thresholds[i]),
                "share": band[i].estimate, "low": band[i].low, "high": band[i].high,
            }
            for agent, band in numbers.profiles.items()
            for i in range(len(band))
        ],
        "improvement": [
            {"score": score, "first": a, "second": b, **_interval(one)}
            for score, pairs in numbers.improvements.items()
            for (a, b), one in pairs.items()
        ],
        "paired": list(numbers.paired),
    }  # fmt: skip
    return {
        stem: Table({name: [row[name] for row in found] for name in found[0]})
        for stem, found in rows.items()
        if found
    }


def _interval(one: Interval) -> dict[str, float]:
    return {"estimate": one.estimate, "low": one.low, "high": one.high}
