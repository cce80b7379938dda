"""The trials of figure 3: which are run, the tables made of them, and trials as runs of a sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report.statistics import Interval, mean_interval, median_interval
from needlab.runs import tabular_runs
from needlab.runs.kinds import REQUIRED, Config, Kind
from needlab.runs.runner import OnUnits
from needlab.runs.tabular_runs import Rows, checked, fewer_trials, trial_numbers
from needlab.runs.trials import Columns, TrialRunner
from needlab.studies.cliffwalk.agent import run_trial
from needlab.studies.cliffwalk.settings import (
    METHODS,
    Centre,
    CliffwalkSettings,
    Method,
    cliffwalk_preset,
)
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown
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
    table = cliffwalk_world(case.states, case.settings.fall, case.settings.right_actions)
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


# Trials as runs of a sweep ----------------------------------------------------------------------

_DEFAULTS: Config = {
    "world": "cliffwalk",
    "agent": REQUIRED,
    "preset": "corrected",
    "sizes": [],
    "seed": 0,
    "first_trial": 0,
    "trials": 100,
    "overrides": {},
}


def _settings_of(config: Config) -> CliffwalkSettings:
    """The preset's settings with the overrides."""
    return cliffwalk_preset(config["preset"], **config["overrides"])


def _complete(config: Config) -> Config:
    """All values, with the preset's own sizes where none are given."""
    found = checked(config, _DEFAULTS, "cliffwalk")
    if found["world"] != "cliffwalk":
        raise unknown("world of kind cliffwalk", found["world"], ["cliffwalk"])
    if found["agent"] not in METHODS:
        raise unknown("agent of kind cliffwalk", found["agent"], METHODS)
    if not isinstance(found["sizes"], list | tuple):
        raise NeedReplayError(f"sizes is {found['sizes']!r}; it must be a list.")
    settings = _settings_of(found)
    if "sizes" in found["overrides"]:
        raise NeedReplayError(
            "sizes is in the overrides of a cliffwalk run; set it beside them instead."
        )
    sizes = list(found["sizes"]) or list(settings.sizes)
    for size in sizes:
        check_number("a size of the cliffwalk", size, int, (2, math.inf))
    return {**found, "sizes": sizes}


def _cases(config: Config) -> list[tuple[int, int]]:
    return [(states, trial) for states in config["sizes"] for trial in trial_numbers(config)]


def _run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Updates until Q is right; a trial that did not converge counts as its budget."""
    rows_of = partial(_row, _settings_of(config), config)
    tabular_runs.run_cases(_cases(config), rows_of, 1, folder, on_units)


def _row(settings: CliffwalkSettings, config: Config, case: tuple[int, int]) -> Rows:
    states, number = case
    row = trial_row(
        Case("", settings, config["agent"], states, config["trials"], config["seed"]), number
    )
    updates = row["updates"] if row["converged"] else row["budget"]
    need_row = " ".join(map(repr, row["need_row"].tolist()))
    row |= {"replayed": row["updates"], "updates": updates, "need_row": need_row}
    return {
        name: np.array([value])
        for name, value in {"states": states, "trial": number, **row}.items()
    }


KIND = Kind(
    _run, _complete, lambda config: len(_cases(config)), "trials", partial(fewer_trials, most=3)
)
"""Runs of kind ``cliffwalk``: trials of one method in Blind Cliffwalks of several sizes."""
