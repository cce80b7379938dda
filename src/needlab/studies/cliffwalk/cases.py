"""The trials of figure 3: which are run, and the tables made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report.statistics import Interval, mean_interval, median_interval
from needlab.runs.trials import Columns, TrialRunner
from needlab.studies.cliffwalk.agent import run_trial
from needlab.studies.cliffwalk.settings import Centre, CliffwalkSettings, Method
from needlab.worlds.cliffwalk import cliffwalk_table
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, FloatArray

SHOWN_STATE = 4
"""Figure 3 shows the need row of the fifth state (or of the last before the goal)."""
LEARNING: tuple[Method, ...] = ("need", "need-backward", "need-magnitude")
NEED_ROWS: tuple[Method, ...] = ("need", "need-random", "need-optimal")


@dataclass(frozen=True)
class Case:
    """The trials of one method at one size."""

    label: str
    """the preset, or how it was changed"""
    settings: CliffwalkSettings
    method: Method
    states: int
    trials: int
    seed: int

    @property
    def seconds(self) -> float:
        """Of one trial, about: a constant, and a few replays of each transition of its buffer."""
        per_string = float(self.states) if self.settings.strings == "whole" else 2.0
        return 1e-3 + 5e-6 * per_string * 2.0**self.states


@dataclass(frozen=True, eq=False)
class CaseResult:
    """The trials of a case: ``columns`` are those of ``trial_row``, [trial, ...]."""

    label: str
    method: Method
    states: int
    columns: Columns

    @property
    def converged(self) -> BoolArray:
        """[trial]."""
        return self.columns["converged"]

    @property
    def counted(self) -> FloatArray:
        """Updates, where a trial that did not converge counts as its full budget."""
        found: FloatArray = np.where(
            self.converged, self.columns["updates"], self.columns["budget"]
        ).astype(np.float64)
        return found

    @property
    def censored(self) -> int:
        """How many trials did not converge."""
        return int((~self.converged).sum())

    @property
    def key(self) -> tuple[str, str, int]:
        """Preset, method and states, as tables have them."""
        return self.label, self.method, self.states


def cases_of(
    label: str,
    settings: CliffwalkSettings,
    methods: Sequence[Method],
    sizes: Sequence[int],
    trials: int | None,
    seed: int,
) -> list[Case]:
    """Every method at every size; ``trials`` of each, or the settings' own number."""
    count = trials or settings.repetitions
    return [
        Case(label, settings, method, states, count, seed) for states in sizes for method in methods
    ]


def trial_row(case: Case, number: int) -> dict[str, Any]:
    """Run one trial of a case."""
    table = cliffwalk_table(case.states, case.settings.fall, case.settings.right_actions)
    trial = run_trial(table, case.settings, case.method, seed=case.seed, trial=number)
    names = "updates converged diverged budget transitions largest_entry negative_rows by_gain"
    return {
        **{name: getattr(trial, name) for name in names.split()},
        "need_row": trial.M[min(SHOWN_STATE, case.states - 1)],
    }


def run_cases(cases: Sequence[Case], runner: TrialRunner, label: str) -> list[CaseResult]:
    """Run all cases; their results, in order."""
    trials, seconds = [case.trials for case in cases], [case.seconds for case in cases]
    found = runner.run(trial_row, cases, trials, label=label, seconds=seconds)
    return [CaseResult(c.label, c.method, c.states, columns) for c, columns in found.items()]


def centre_interval(result: CaseResult, centre: Centre, seed: int) -> Interval:
    """The centre of one method's updates at one size."""
    rng = stream(seed, "fig3", "centre", *result.key)
    interval = median_interval if centre == "median" else mean_interval
    return interval(result.counted, rng)


def data_table(results: Sequence[CaseResult]) -> Table:
    """``data.csv``: one row for each trial."""
    return long_table(
        ("preset", "method", "states"),
        {
            r.key: {
                "trial": np.arange(len(r.converged)),
                "updates": r.columns["updates"],
                "converged": r.converged,
            }
            for r in results
        },
    )


def successor_table(results: Sequence[CaseResult]) -> Table:
    """``successor.csv``: what became of M, one row for each trial of the methods that learn it."""
    return long_table(
        ("preset", "method", "states"),
        {
            r.key: {
                "trial": np.arange(len(r.converged)),
                "largest_entry": [float(f"{x:.4g}") for x in r.columns["largest_entry"]],
                "negative_rows": [round(x, 4) for x in r.columns["negative_rows"].tolist()],
                "sampled_by_gain": r.columns["by_gain"],
                "diverged": r.columns["diverged"],
            }
            for r in results
            if r.method in LEARNING
        },
    )


def need_row_table(results: Sequence[CaseResult]) -> Table:
    """``need_row.csv``: the need row at the largest size; the median over trials."""
    largest = {r.label: max(o.states for o in results if o.label == r.label) for r in results}
    return long_table(
        ("preset", "method", "states"),
        {
            r.key: {
                "state": np.arange(r.states),
                "occupancy": np.median(r.columns["need_row"], axis=0)[: r.states],
            }
            for r in results
            if r.method in NEED_ROWS and r.states == largest[r.label]
        },
    )


def summary_table(results: Sequence[CaseResult], seed: int) -> Table:
    """``summary.csv``: updates of each method at each size; not converged counts as the budget.

    So a mean is a lower bound where ``not_converged`` is above 0, and a median where it is half of
    ``trials`` or more: ``mean_is_bound`` and ``median_is_bound``.
    """
    rows = {}
    for r in results:
        trials = len(r.converged)
        bounds: dict[Centre, bool] = {"mean": r.censored > 0, "median": 2 * r.censored >= trials}
        rows[r.key] = {
            "transitions": r.columns["transitions"][0],
            "budget": r.columns["budget"][0],
            "trials": trials,
            "not_converged": r.censored,
            "diverged": r.columns["diverged"].sum(),
        }
        for centre, is_bound in bounds.items():
            rows[r.key] |= interval_columns(centre_interval(r, centre, seed), centre, f"{centre}_")
            rows[r.key][f"{centre}_is_bound"] = is_bound
    return long_table(("preset", "method", "states"), rows)


def interval_columns(interval: Interval, name: str, prefix: str = "") -> dict[str, Any]:
    """An estimate and its interval, rounded for a table."""
    return {
        name: round(interval.estimate, 1),
        f"{prefix}low": round(interval.low, 1),
        f"{prefix}high": round(interval.high, 1),
    }
