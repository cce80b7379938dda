"""Every number of a sweep's page, as tables: what the page shows is what the CSV files hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report import aggregate
from needlab.report.aggregate import AGGREGATES, Paired, holm, paired_test
from needlab.report.comparison import SCORES, Cell, Normalized, normalized, trial_pairs
from needlab.report.statistics import Band, Interval, mean_band, mean_interval, permutation_test
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

THRESHOLDS = 101


@dataclass(frozen=True)
class Numbers:
    """What was computed of a sweep."""

    agents: tuple[str, ...]
    curves: dict[tuple[str, str], Band]
    """[task, agent]"""
    finals: dict[tuple[str, str], Interval]
    normalized: Normalized
    aggregates: dict[tuple[str, str, str], Interval]
    """[score, aggregate, agent]"""
    thresholds: FloatArray
    profiles: dict[str, Band]
    improvements: dict[tuple[str, str, str], Interval]
    """[score, first, second]"""
    paired: dict[tuple[str, str, str, str], tuple[Paired, float]]
    """[task, score, first, second]: with Holm's p value"""


def numbers_of(cells: Sequence[Cell], seed: int) -> Numbers:
    """Compute everything; every bootstrap has a stream of its own."""
    shared = normalized(cells)
    finals = shared.scores["final"] if shared.tasks else {}
    thresholds = _thresholds(finals)
    # Thousands of tabular trials are compared in pairs instead; all pairs of them are too many.
    is_small = all(len(runs) <= 200 for tasks in finals.values() for runs in tasks)
    return Numbers(
        agents=tuple(dict.fromkeys(cell.agent for cell in cells)),
        curves={
            (c.task, c.agent): mean_band(c.y, stream(seed, "curve", c.task, c.agent)) for c in cells
        },
        finals={
            (c.task, c.agent): mean_interval(
                c.scores["final"], stream(seed, "final", c.task, c.agent)
            )
            for c in cells
        },
        normalized=shared,
        aggregates={
            (score, name, agent): aggregate.aggregate_interval(
                shared.scores[score][agent], of, stream(seed, "aggregate", score, name, agent)
            )
            for score in SCORES
            for name, of in AGGREGATES.items()
            for agent in finals
        },
        thresholds=thresholds,
        profiles={
            agent: aggregate.performance_profile(tasks, thresholds, stream(seed, "profile", agent))
            for agent, tasks in finals.items()
        },
        improvements={
            (score, a, b): aggregate.improvement_probability(
                shared.scores[score][a], shared.scores[score][b], stream(seed, "poi", score, a, b)
            )
            for score in SCORES
            for a, b in combinations(finals if is_small else (), 2)
        },
        paired=_paired(cells, seed),
    )


def _thresholds(finals: dict[str, list[FloatArray]]) -> FloatArray:
    runs = [run for tasks in finals.values() for run in tasks]
    if not runs:
        return np.zeros(0)
    everything = np.concatenate(runs)
    return np.linspace(min(0.0, everything.min()), max(1.0, everything.max()), THRESHOLDS)


def _paired(
    cells: Sequence[Cell], seed: int
) -> dict[tuple[str, str, str, str], tuple[Paired, float]]:
    found = {}
    for one, other, mine, its in trial_pairs(cells):
        for score in SCORES if len(one.x) > 1 else ("final",):
            rng = stream(seed, "paired", one.task, score, one.agent, other.agent)
            key = one.task, score, one.agent, other.agent
            found[key] = paired_test(one.scores[score][mine], other.scores[score][its], rng)
    adjusted = holm([pair.p_value for pair in found.values()])
    return dict(zip(found, zip(found.values(), adjusted, strict=True), strict=True))


def tables_of(cells: Sequence[Cell], numbers: Numbers) -> dict[str, Table]:
    """The CSV files, by stem; those without rows are left out."""
    scores = numbers.normalized.scores
    # Each pair of agents: how often one is ahead, and a permutation test stratified by task.
    tests = [
        permutation_test(
            scores[score][a], scores[score][b], stream(0, "permutation", score), paired=False
        )
        for score, a, b in numbers.improvements
    ]
    adjusted = dict(zip(numbers.improvements, zip(tests, holm(tests), strict=True), strict=True))
    tables: dict[str, tuple[tuple[str, ...], dict[Any, Any]]] = {
        "scores": (
            ("task", "agent"),
            {
                (c.task, c.agent): {
                    "seed": [trial.seed for trial in c.trials],
                    "trial": [trial.number for trial in c.trials],
                    **{name: c.scores[name] for name in SCORES},
                }
                for c in cells
            },
        ),
        "curves": (
            ("task", "agent"),
            {
                (c.task, c.agent): {
                    "x": c.x,
                    **numbers.curves[c.task, c.agent].columns("mean"),
                    "runs": len(c.trials),
                }
                for c in cells
            },
        ),
        "aggregates": (
            ("score", "aggregate", "agent"),
            {key: one.columns("estimate") for key, one in numbers.aggregates.items()},
        ),
        "profiles": (
            ("agent",),
            {
                agent: {"threshold": numbers.thresholds, **band.columns("share")}
                for agent, band in numbers.profiles.items()
            },
        ),
        "improvement": (
            ("score", "first", "second"),
            {
                key: one.columns("estimate")
                | dict(zip(("p", "p_holm"), adjusted[key], strict=True))
                for key, one in numbers.improvements.items()
            },
        ),
        "paired": (
            ("task", "score", "first", "second"),
            {
                key: {
                    "pairs": pair.pairs,
                    **pair.difference.columns("difference"),
                    "p": pair.p_value,
                    "p_holm": p,
                }
                for key, (pair, p) in numbers.paired.items()
            },
        ),
    }
    return {stem: long_table(names, parts) for stem, (names, parts) in tables.items() if parts}
