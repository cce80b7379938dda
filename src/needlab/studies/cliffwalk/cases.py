"""The trials of figure 3: which are run, how two methods compare, the tables, and runs of a sweep.

Trial i of every method shares its random numbers, so trials are resampled in pairs. A trial that
did not converge counts as its full budget, which is a bound: a verdict that rests on it is
undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report.claims import Direction, Verdict, verdict_of
from needlab.report.statistics import (
    LEVEL,
    Interval,
    mean_interval,
    median_interval,
    percentile_interval,
    resampled,
)
from needlab.runs import tabular_runs
from needlab.runs.kinds import REQUIRED, Config, Kind
from needlab.runs.runner import OnUnits
from needlab.runs.tabular_runs import Rows, checked, fewer_trials, trial_numbers
from needlab.runs.trials import Columns, TrialRunner
from needlab.studies.cliffwalk.agent import run_trial
from needlab.studies.cliffwalk.settings import (
    METHODS,
    Center,
    CliffwalkSettings,
    Method,
    cliffwalk_preset,
)
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, FloatArray, IntArray

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
        """[trial]: whether it converged."""
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


def center_interval(result: CaseResult, center: Center, seed: int) -> Interval:
    """The center of one method's updates at one size."""
    rng = stream(seed, "fig3", "centre", *result.key)  # as in the committed data
    interval = median_interval if center == "median" else mean_interval
    return interval(result.counted, rng)


# Two methods compared ---------------------------------------------------------------------------


def center_of(values: FloatArray, center: Center) -> FloatArray:
    """The mean or the median over the last axis."""
    found: FloatArray = (np.median if center == "median" else np.mean)(values, axis=-1)
    return found


@dataclass(frozen=True)
class Measured(Interval):
    """An interval, and which way it would move without the budget.

    A trial that spent its budget would have taken more updates than it counts for, never fewer.
    """

    may_rise: bool = False
    may_fall: bool = False

    def verdict(self, direction: Direction, threshold: float = 1.0) -> Verdict:
        """Whether it lies above (or below); undecided where a trial at its budget could undo it."""
        verdict = verdict_of(self, threshold, direction)
        undone = self.may_fall if self.low > threshold else self.may_rise
        return "undecided" if undone else verdict


@dataclass(frozen=True, eq=False)
class Comparison:
    """log(updates of one / updates of the other), by size: the estimate, and resampled."""

    one: str
    other: str
    sizes: tuple[int, ...]
    logs: FloatArray
    """[size]"""
    resampled: FloatArray
    """[resample, size]; no rows where there is only one trial"""
    censored: tuple[int, int]
    """trials of each that did not converge"""
    bounded: BoolArray
    """[side, size]: whether they move the interval of each, which is then only a bound"""
    trials: int
    """of each, at all sizes together"""

    def at(self, size: int) -> Measured:
        """The ratio at one size."""
        return self._weighed(np.asarray(self.sizes) == size)

    def overall(self) -> Measured:
        """The geometric mean of the ratio over all sizes."""
        return self._weighed(np.full(len(self.sizes), 1.0 / len(self.sizes)))

    def growth(self) -> Measured:
        """The factor by which the ratio grows with each state more (a line through the logs)."""
        steps = np.asarray(self.sizes, dtype=np.float64) - np.mean(self.sizes)
        return self._weighed(steps / np.square(steps).sum())

    def share_of(self, whole: Comparison, size: int) -> Interval:
        """This log ratio as a share of another's, at one size; resamples are taken in order."""
        mine, its = self.sizes.index(size), whole.sizes.index(size)
        drawn = self.resampled[:, mine] / whole.resampled[:, its]
        return percentile_interval(self.logs[mine] / whole.logs[its], drawn)

    def _weighed(self, weights: FloatArray | BoolArray) -> Measured:
        """exp(Σ weight · log ratio): a bound of ``one`` can only rise, of ``other`` only fall."""
        found = percentile_interval(float(self.logs @ weights), self.resampled @ weights)
        estimate, low, high = np.exp([found.estimate, found.low, found.high]).tolist()
        one, other = self.bounded
        up, down = weights > 0, weights < 0
        return Measured(
            estimate,
            low,
            high,
            may_rise=bool((one & up | other & down).any()),
            may_fall=bool((one & down | other & up).any()),
        )

    def by_size(self) -> str:
        """The ratio at each size, in a sentence."""
        ratios = ", ".join(
            f"{np.exp(log):.2f} at {size}" for size, log in zip(self.sizes, self.logs, strict=True)
        )
        return f"By states: {ratios}."

    def censoring(self) -> str:
        """How many trials did not converge, in a sentence; empty if all did."""
        sentences = [
            f"{count} of {self.trials} trials of {name} did not converge and count as their full "
            "budget."
            for name, count in zip((self.one, self.other), self.censored, strict=True)
            if count
        ]
        return " ".join(sentences)


def compare(
    results: Iterable[CaseResult], label: str, one: str, other: str, center: Center, seed: int
) -> Comparison:
    """Compare the trials of two methods under one label."""
    by = {(r.method, r.states): r for r in results if r.label == label}
    sizes = tuple(sorted(states for method, states in by if method == one))
    logs, logs_drawn = [], []
    bounded = np.zeros((2, len(sizes)), np.bool_)
    censored = [0, 0]
    trials = 0
    for index, size in enumerate(sizes):
        pair = by[one, size], by[other, size]  # type: ignore[index]
        count = len(pair[0].converged)
        trials += count
        values = [r.counted for r in pair]
        logs.append(np.log(center_of(values[0], center)) - np.log(center_of(values[1], center)))
        if count > 1:
            drawn = resampled(count, stream(seed, "fig3", "compare", size))
            a, b = (center_of(value[drawn], center) for value in values)
            logs_drawn.append(np.log(a) - np.log(b))
        for side in range(2):
            censored[side] += pair[side].censored
            bounded[side, index] = count > 1 and _rests_on_budget(pair[side], center, drawn)
    return Comparison(
        one=one,
        other=other,
        sizes=sizes,
        logs=np.array(logs),
        resampled=np.array(logs_drawn).T if logs_drawn else np.zeros((0, len(sizes))),
        censored=(censored[0], censored[1]),
        bounded=bounded,
        trials=trials,
    )


def _rests_on_budget(result: CaseResult, center: Center, drawn: IntArray) -> bool:
    """Whether the estimate, or an end of its interval, would move without the budget."""
    without_end = np.where(result.converged, 0.0, np.inf)
    moved = np.isinf(center_of(without_end[drawn], center)).mean()
    return bool(np.isinf(center_of(without_end, center)) or moved >= (1 - LEVEL) / 2)


# Tables -----------------------------------------------------------------------------------------


def _table(
    results: Iterable[CaseResult], columns: Callable[[CaseResult], Mapping[str, object]]
) -> Table:
    return long_table(("preset", "method", "states"), {r.key: columns(r) for r in results})


def data_table(results: Sequence[CaseResult]) -> Table:
    """``data.csv``: one row for each trial."""
    return _table(
        results,
        lambda r: {
            "trial": np.arange(len(r.converged)),
            "updates": r.columns["updates"],
            "converged": r.converged,
        },
    )


def successor_table(results: Sequence[CaseResult]) -> Table:
    """``successor.csv``: what became of M, one row for each trial of the methods that learn it."""
    return _table(
        (r for r in results if r.method in LEARNING),
        lambda r: {
            "trial": np.arange(len(r.converged)),
            "largest_entry": [float(f"{x:.4g}") for x in r.columns["largest_entry"]],
            "negative_rows": [round(x, 4) for x in r.columns["negative_rows"].tolist()],
            "sampled_by_gain": r.columns["by_gain"],
            "diverged": r.columns["diverged"],
        },
    )


def need_row_table(results: Sequence[CaseResult]) -> Table:
    """``need_row.csv``: the need row at the largest size; the median over trials."""
    largest = {r.label: max(o.states for o in results if o.label == r.label) for r in results}
    return _table(
        (r for r in results if r.method in NEED_ROWS and r.states == largest[r.label]),
        lambda r: {
            "state": np.arange(r.states),
            "occupancy": np.median(r.columns["need_row"], axis=0)[: r.states],
        },
    )


def summary_table(results: Sequence[CaseResult], seed: int) -> Table:
    """``summary.csv``: updates of each method at each size; not converged counts as the budget.

    So a mean is a lower bound where ``not_converged`` is above 0, and a median where it is half of
    ``trials`` or more: ``mean_is_bound`` and ``median_is_bound``.
    """

    def columns(r: CaseResult) -> dict[str, object]:
        trials = len(r.converged)
        bounds: dict[Center, bool] = {"mean": r.censored > 0, "median": 2 * r.censored >= trials}
        found: dict[str, object] = {
            "transitions": r.columns["transitions"][0],
            "budget": r.columns["budget"][0],
            "trials": trials,
            "not_converged": r.censored,
            "diverged": r.columns["diverged"].sum(),
        }
        for center, is_bound in bounds.items():
            found |= interval_columns(center_interval(r, center, seed), center, f"{center}_")
            found[f"{center}_is_bound"] = is_bound
        return found

    return _table(results, columns)


def interval_columns(interval: Interval, name: str, prefix: str = "") -> dict[str, float]:
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
