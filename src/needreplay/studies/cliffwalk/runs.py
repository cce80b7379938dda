"""Which trials figure 3 is made of, and running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from needreplay.core.tables import Table
from needreplay.core.types import FloatArray
from needreplay.studies.cliffwalk.settings import CliffwalkSettings, Method
from needreplay.studies.cliffwalk.trial import run_trial
from needreplay.studies.trials import Columns, TrialRunner
from needreplay.worlds.cliffwalk import cliffwalk_table

FIFTH_STATE = 4
"""Whose need row figure 3 shows."""


@dataclass(frozen=True)
class Job:
    """The trials of one method at one size."""

    label: str
    """the preset, or how it was changed"""
    settings: CliffwalkSettings
    method: Method
    states: int
    trials: int
    seed: int


def _seconds(job: Job) -> float:
    """Of one trial, about: a constant, and a few replays of each transition of its memory."""
    of_each_string = float(job.states) if job.settings.strings == "whole" else 2.0
    return 1e-3 + 5e-6 * of_each_string * 2.0**job.states


@dataclass(frozen=True)
class Found:
    """What a job found, one entry for each trial."""

    label: str
    method: Method
    states: int
    trials: tuple[int, ...]
    updates: tuple[int, ...]
    converged: tuple[bool, ...]
    diverged: tuple[bool, ...]
    budget: int
    """transitions replayed after which a trial is given up"""
    transitions: int
    """of the memory"""
    largest_entry: tuple[float, ...]
    negative_rows: tuple[float, ...]
    by_gain: tuple[int, ...]
    rows: FloatArray = field(repr=False)
    """[trial, state]: the need row of the fifth state (or the last before the goal) at the end"""

    @property
    def counted(self) -> FloatArray:
        """Updates, where a trial that did not converge counts as its whole budget."""
        return np.where(self.converged, self.updates, self.budget).astype(np.float64)

    @property
    def censored(self) -> int:
        """How many trials did not converge."""
        return len(self.converged) - sum(self.converged)


def _trial(job: Job, number: int) -> dict[str, Any]:
    """Run one trial of a job."""
    table = cliffwalk_table(job.states, job.settings.fall, job.settings.right_actions)
    trial = run_trial(table, job.settings, job.method, seed=job.seed, trial=number)
    return {
        "updates": trial.updates,
        "converged": trial.converged,
        "diverged": trial.diverged,
        "budget": trial.budget,
        "transitions": trial.transitions,
        "largest_entry": trial.largest_entry,
        "negative_rows": trial.negative_rows,
        "by_gain": trial.by_gain,
        "rows": trial.M[min(FIFTH_STATE, len(trial.q) - 1)],
    }


def _found(job: Job, columns: Columns) -> Found:
    per_trial = {
        name: tuple(columns[name].tolist())
        for name in (
            "updates",
            "converged",
            "diverged",
            "largest_entry",
            "negative_rows",
            "by_gain",
        )
    }
    return Found(
        job.label,
        job.method,
        job.states,
        tuple(range(job.trials)),
        budget=int(columns["budget"][0]),
        transitions=int(columns["transitions"][0]),
        rows=columns["rows"],
        **per_trial,
    )


def jobs_of(
    label: str,
    settings: CliffwalkSettings,
    methods: Sequence[Method],
    sizes: Sequence[int],
    trials: int,
    seed: int,
) -> list[Job]:
    """Every method at every size."""
    return [
        Job(label, settings, method, states, trials, seed) for states in sizes for method in methods
    ]


def run_jobs(jobs: Sequence[Job], runner: TrialRunner, label: str) -> list[Found]:
    """Run all jobs; what each found, in order."""
    columns = runner.run(
        _trial,
        jobs,
        [job.trials for job in jobs],
        label=label,
        seconds=[_seconds(job) for job in jobs],
    )
    return [_found(job, found) for job, found in zip(jobs, columns, strict=True)]


def data_table(found: Sequence[Found]) -> Table:
    """One row for each trial: preset, method, states, trial, updates, converged."""
    return Table(
        {
            "preset": [one.label for one in found for _ in one.trials],
            "method": [one.method for one in found for _ in one.trials],
            "states": [one.states for one in found for _ in one.trials],
            "trial": [trial for one in found for trial in one.trials],
            "updates": [updates for one in found for updates in one.updates],
            "converged": [converged for one in found for converged in one.converged],
        }
    )


def successor_table(found: Sequence[Found]) -> Table:
    """What became of M, one row for each trial of the methods that learn it."""
    learned = [one for one in found if one.method in LEARNING]
    return Table(
        {
            "preset": [one.label for one in learned for _ in one.trials],
            "method": [one.method for one in learned for _ in one.trials],
            "states": [one.states for one in learned for _ in one.trials],
            "trial": [trial for one in learned for trial in one.trials],
            "largest_entry": [float(f"{x:.4g}") for one in learned for x in one.largest_entry],
            "negative_rows": [round(x, 4) for one in learned for x in one.negative_rows],
            "drawn_by_gain": [x for one in learned for x in one.by_gain],
            "diverged": [x for one in learned for x in one.diverged],
        }
    )


def need_row_table(found: Sequence[Found]) -> Table:
    """The need row of the fifth state at the largest size; of learned need, the trials' median."""
    shown: list[Found] = []
    for one in found:
        largest = max(other.states for other in found if other.label == one.label)
        if one.method in NEED_ROWS and one.states == largest:
            shown.append(one)
    return Table(
        {
            "preset": [one.label for one in shown for _ in range(one.states)],
            "method": [one.method for one in shown for _ in range(one.states)],
            "states": [one.states for one in shown for _ in range(one.states)],
            "state": [state for one in shown for state in range(one.states)],
            "occupancy": [
                float(x) for one in shown for x in np.median(one.rows, axis=0)[: one.states]
            ],
        }
    )


LEARNING: tuple[Method, ...] = ("need", "need-backward", "need-magnitude")
NEED_ROWS: tuple[Method, ...] = ("need", "need-random", "need-optimal")
