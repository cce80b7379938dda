"""What a run measured, as curves; the columns of its table say what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from needlab.core.tables import Table, as_numbers
from needreplay._core.checks import is_whole
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray

FINAL_SHARE = 0.1
"""``final`` is the mean over this last part of a curve."""
_LARGEST = 10**15
"""of seeds and trials: every integer up to here is exact as a float too"""


@dataclass(frozen=True)
class Measure:
    """What a curve shows."""

    x: str
    y: str
    larger_is_better: bool
    logarithmic: bool = False
    paired: bool = False
    """whether equal trials share their random numbers, so agents are compared trial by trial"""


RETURN = Measure("steps", "return", larger_is_better=True)
EPISODE_STEPS = Measure("episode", "steps per episode", larger_is_better=False, paired=True)
UPDATES = Measure("", "updates until right", larger_is_better=False, logarithmic=True, paired=True)


class Trial(NamedTuple):
    """Whose random numbers a curve had: a deep run is the one trial, number 0, of its seed."""

    seed: int
    number: int = 0


@dataclass(frozen=True, eq=False)
class Series:
    """Curves of one run on one task, a row for each trial."""

    task: str
    measure: Measure
    trials: tuple[Trial, ...]
    """no two are equal"""
    x: FloatArray
    y: FloatArray
    """[trial, x]"""

    def scores(self) -> dict[str, FloatArray]:
        """Three numbers for each curve, so that nobody picks one after the fact.

        ``best`` is its best point, ``final`` the mean over its last tenth (at least one point),
        ``area`` the area under it divided by its width: its mean height.
        """
        count = max(1, round(FINAL_SHARE * self.y.shape[1]))
        width = self.x[-1] - self.x[0]
        return {
            "best": self.y.max(axis=1) if self.measure.larger_is_better else self.y.min(axis=1),
            "final": self.y[:, -count:].mean(axis=1),
            "area": np.trapezoid(self.y, self.x, axis=1) / width
            if width > 0
            else self.y.mean(axis=1),
        }

    def only(self, rows: list[int]) -> Series:
        """The curves in these rows."""
        trials = tuple(self.trials[row] for row in rows)
        return replace(self, trials=trials, y=self.y[rows])


def series_of(config: Mapping[str, Any], table: Table) -> list[Series]:
    """The curves of a run's metrics; unknown columns raise."""
    if len(table) == 0:
        raise NeedReplayError("metrics.csv has no rows.")
    names, world, seed = set(table.names), str(config.get("world", "world")), _seed(config)
    if {"trial", "episode", "steps"} <= names:
        return [_episodes(world, seed, table)]
    if {"states", "trial", "updates"} <= names:
        states = _finite(_numbers(table["states"]))
        return [_sizes(world, seed, table, size) for size in np.unique(states)]
    for column in ("eval_return", "train_return"):
        if {"steps", column} <= names and not np.isnan(_numbers(table[column])).all():
            return [_returns(world, seed, table, column)]
    raise NeedReplayError(f"metrics.csv has columns of no known meaning: {', '.join(table.names)}.")


def last_number(table: Table, column: str) -> float:
    """The last known number of a column; NaN if there is none."""
    numbers = _numbers(table[column]) if column in table.names else np.zeros(0)
    known = numbers[np.isfinite(numbers)]
    return float(known[-1]) if len(known) else float("nan")


def _returns(world: str, seed: int, table: Table, column: str) -> Series:
    x, y = _numbers(table["steps"]), _numbers(table[column])
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) == 0 or (np.diff(x) <= 0).any():
        raise NeedReplayError("metrics.csv has steps that do not grow.")
    return Series(world, RETURN, (Trial(seed),), x, y[np.newaxis])


def _episodes(world: str, seed: int, table: Table) -> Series:
    column = _whole(table["trial"])
    begins = np.flatnonzero(np.diff(column, prepend=column[0] - 1))
    numbers = column[begins].tolist()
    if len(set(numbers)) < len(numbers):
        raise NeedReplayError("metrics.csv has rows of one trial that are not together.")
    lengths = set(np.diff(begins, append=len(column)).tolist())
    if len(lengths) != 1:
        raise NeedReplayError("metrics.csv has trials of unequal length.")
    episodes = _whole(table["episode"]).reshape(len(numbers), -1)
    if (episodes != episodes[0]).any() or (np.diff(episodes[0]) != 1).any():
        raise NeedReplayError("metrics.csv has trials whose episodes are not numbered alike.")
    steps = _finite(_numbers(table["steps"])).reshape(episodes.shape)
    x = np.arange(1, steps.shape[1] + 1, dtype=np.float64)
    return Series(world, EPISODE_STEPS, tuple(Trial(seed, n) for n in numbers), x, steps)


def _sizes(world: str, seed: int, table: Table, size: float) -> Series:
    chosen = _numbers(table["states"]) == size
    updates = _finite(_numbers(table["updates"])[chosen])[:, np.newaxis]
    numbers = _whole(table["trial"])[chosen].tolist()
    if len(set(numbers)) < len(numbers):
        raise NeedReplayError("metrics.csv has a trial twice.")
    trials = tuple(Trial(seed, number) for number in numbers)
    return Series(f"{world}, {size:g} states", UPDATES, trials, np.zeros(1), updates)


def _seed(config: Mapping[str, Any]) -> int:
    seed = config.get("seed", 0)
    if not is_whole(seed) or abs(seed) > _LARGEST:
        raise NeedReplayError("config.json has a seed that is not an integer of up to 15 digits.")
    return int(seed)


def _numbers(column: AnyArray) -> FloatArray:
    try:
        return as_numbers(column)
    except ValueError as error:
        raise NeedReplayError(f"metrics.csv has a cell that is no number: {error}.") from error


def _finite(numbers: FloatArray) -> FloatArray:
    if not np.isfinite(numbers).all():
        raise NeedReplayError("metrics.csv lacks a number.")
    return numbers


def _whole(column: AnyArray) -> AnyArray:
    numbers = _finite(_numbers(column))
    if (numbers != np.rint(numbers)).any() or (np.abs(numbers) > _LARGEST).any():
        raise NeedReplayError("metrics.csv has a trial or episode number that is not an integer.")
    return numbers.astype(np.int64)
