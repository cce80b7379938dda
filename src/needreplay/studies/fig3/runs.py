"""Which trials figure 3 is made of, and running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from needreplay.core.progress import Progress
from needreplay.core.tables import Table
from needreplay.core.types import FloatArray
from needreplay.studies.base import Request
from needreplay.studies.runs import Experiment, run_experiments
from needreplay.tabular.cliffwalk_settings import CLIFFWALK, CliffwalkSettings, Method

_BASE = "printed"


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

    @property
    def experiment(self) -> Experiment:
        """The job as runs of kind ``cliffwalk``: settings are said by what differs from printed."""
        config = {
            "agent": self.method,
            "preset": _BASE,
            "overrides": _overrides(self.settings),
            "sizes": [self.states],
            "seed": self.seed,
        }
        return Experiment("cliffwalk", config, self.trials, _seconds(self))


def _overrides(settings: CliffwalkSettings) -> dict[str, Any]:
    """All in which these settings differ from the base's; sizes are said beside them."""
    base = vars(CLIFFWALK[_BASE])
    # By their repr, because NaN (the task's own discount, as in the base) is not equal to itself.
    return {
        name: value
        for name, value in vars(settings).items()
        if name != "sizes" and repr(value) != repr(base[name])
    }


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


def _found(job: Job, table: Table) -> Found:
    return Found(
        label=job.label,
        method=job.method,
        states=job.states,
        trials=tuple(table["trial"].tolist()),
        updates=tuple(table["replayed"].tolist()),
        converged=tuple(table["converged"].tolist()),
        diverged=tuple(table["diverged"].tolist()),
        budget=int(table["budget"][0]),
        transitions=int(table["transitions"][0]),
        largest_entry=tuple(table["largest_entry"].tolist()),
        negative_rows=tuple(table["negative_rows"].tolist()),
        by_gain=tuple(table["by_gain"].tolist()),
        rows=np.array([[float(x) for x in row.split()] for row in table["need_row"].tolist()]),
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


def run_jobs(jobs: Sequence[Job], request: Request, progress: Progress, title: str) -> list[Found]:
    """Run all jobs; what each found, in order."""
    tables = run_experiments([job.experiment for job in jobs], request, progress, title)
    return [_found(job, table) for job, table in zip(jobs, tables, strict=True)]


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
