"""Which trials figure 3 is made of, and running them on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from needreplay.records import Table
from needreplay.runs.many import run_many
from needreplay.runs.progress import Progress
from needreplay.tabular.cliffwalk_settings import CliffwalkSettings, Method
from needreplay.tabular.per_sr import Trial, run_trial
from needreplay.types import FloatArray
from needreplay.worlds.cliffwalk import cliffwalk_table

FIFTH_STATE = 4
"""Whose need row the third panel shows."""


@dataclass(frozen=True)
class Job:
    """Some trials of one method at one size."""

    label: str
    """the preset, or how it was changed"""
    settings: CliffwalkSettings
    method: Method
    states: int
    trials: tuple[int, ...]
    seed: int


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


def run_job(job: Job) -> Found:
    """Run a job's trials, one after the other."""
    settings = job.settings
    table = cliffwalk_table(job.states, settings.fall, settings.right_actions)
    trials = [
        run_trial(table, settings, job.method, seed=job.seed, trial=number) for number in job.trials
    ]
    return Found(
        label=job.label,
        method=job.method,
        states=job.states,
        trials=job.trials,
        updates=tuple(trial.updates for trial in trials),
        converged=tuple(trial.converged for trial in trials),
        diverged=tuple(trial.diverged for trial in trials),
        budget=trials[0].budget,
        transitions=trials[0].transitions,
        largest_entry=tuple(trial.largest_entry for trial in trials),
        negative_rows=tuple(trial.negative_rows for trial in trials),
        by_gain=tuple(trial.by_gain for trial in trials),
        rows=np.array([_fifth_row(trial) for trial in trials]),
    )


def _fifth_row(trial: Trial) -> FloatArray:
    row: FloatArray = trial.M[min(FIFTH_STATE, len(trial.q) - 1)]
    return row


def jobs_of(
    label: str,
    settings: CliffwalkSettings,
    methods: Sequence[Method],
    sizes: Sequence[int],
    trials: int,
    seed: int,
) -> list[Job]:
    """Every method at every size; large ones in single trials, so that no core waits for long."""
    jobs = []
    for states in sizes:
        piece = max(1, min(trials, 2 ** (11 - states)))
        for method in methods:
            for begin in range(0, trials, piece):
                numbers = tuple(range(begin, min(begin + piece, trials)))
                jobs.append(Job(label, settings, method, states, numbers, seed))
    return jobs


def run_jobs(jobs: Sequence[Job], workers: int, progress: Progress, title: str) -> list[Found]:
    """Run all jobs, the largest first, and put the pieces of each experiment together, in order."""
    # One trial in this process compiles the kernels once, for all workers.
    if workers > 1 and jobs:
        run_job(Job("", jobs[0].settings, "per", 2, (0,), 0))
    by_size = sorted(jobs, key=lambda job: -job.states)
    with progress.task(title, total=len(jobs)) as bar:
        found = run_many(run_job, by_size, workers=workers, progress=bar)
    pieces: dict[tuple[str, str, int], list[Found]] = {}
    for piece in found:
        pieces.setdefault((piece.label, piece.method, piece.states), []).append(piece)
    order = dict.fromkeys((job.label, job.method, job.states) for job in jobs)
    return [_joined(sorted(pieces[key], key=lambda piece: piece.trials)) for key in order]


def _joined(pieces: Sequence[Found]) -> Found:
    first = pieces[0]
    return Found(
        label=first.label,
        method=first.method,
        states=first.states,
        trials=sum((piece.trials for piece in pieces), ()),
        updates=sum((piece.updates for piece in pieces), ()),
        converged=sum((piece.converged for piece in pieces), ()),
        diverged=sum((piece.diverged for piece in pieces), ()),
        budget=first.budget,
        transitions=first.transitions,
        largest_entry=sum((piece.largest_entry for piece in pieces), ()),
        negative_rows=sum((piece.negative_rows for piece in pieces), ()),
        by_gain=sum((piece.by_gain for piece in pieces), ()),
        rows=np.concatenate([piece.rows for piece in pieces]),
    )


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
