"""What a run measured, as curves: told by the columns of its table alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from needreplay.errors import NeedReplayError
from needreplay.records import Table
from needreplay.types import AnyArray, FloatArray

FINAL_SHARE = 0.1
"""``final`` is the mean over this last part of a curve."""


@dataclass(frozen=True)
class Measure:
    """What a curve shows."""

    x: str
    y: str
    larger_is_better: bool
    logarithmic: bool = False
    paired: bool = False
    """whether equal seeds share their luck, so that agents are compared seed by seed"""


RETURN = Measure("steps", "return", larger_is_better=True)
EPISODE_STEPS = Measure("episode", "steps per episode", larger_is_better=False, paired=True)
UPDATES = Measure("", "updates until right", larger_is_better=False, logarithmic=True, paired=True)


@dataclass(frozen=True, eq=False)
class Series:
    """Curves of one run on one task, a row for each seed."""

    task: str
    measure: Measure
    seeds: tuple[int, ...]
    x: FloatArray
    y: FloatArray
    """[seed, x]"""

    def best(self) -> FloatArray:
        """The best point of each curve."""
        best: FloatArray = (
            self.y.max(axis=1) if self.measure.larger_is_better else self.y.min(axis=1)
        )
        return best

    def final(self) -> FloatArray:
        """The mean over the last tenth of each curve, at least one point."""
        count = max(1, round(FINAL_SHARE * self.y.shape[1]))
        final: FloatArray = self.y[:, -count:].mean(axis=1)
        return final

    def area(self) -> FloatArray:
        """The area under each curve, divided by its width: the mean height on the way."""
        width = self.x[-1] - self.x[0]
        if width <= 0:
            return self.y.mean(axis=1)  # type: ignore[no-any-return]
        area: FloatArray = np.trapezoid(self.y, self.x, axis=1) / width
        return area

    def scores(self) -> dict[str, FloatArray]:
        """All three, so that nobody picks after the fact."""
        return {"best": self.best(), "final": self.final(), "area": self.area()}


def series_of(config: Mapping[str, Any], table: Table) -> list[Series]:
    """The curves of a run's metrics; columns of no known meaning are refused."""
    if len(table) == 0:
        raise NeedReplayError("metrics.csv has no rows.")
    names, world = set(table.names), str(config.get("world", "world"))
    if {"trial", "episode", "steps"} <= names:
        return [_episodes(world, table)]
    if {"states", "trial", "updates"} <= names:
        states = _numbers(table["states"])
        return [_sizes(world, table, size) for size in np.unique(states)]
    for column in ("eval_return", "train_return"):
        if {"steps", column} <= names and not np.isnan(_numbers(table[column])).all():
            return [_returns(world, config, table, column)]
    raise NeedReplayError(f"metrics.csv has columns of no known meaning: {', '.join(table.names)}.")


def _returns(world: str, config: Mapping[str, Any], table: Table, column: str) -> Series:
    x, y = _numbers(table["steps"]), _numbers(table[column])
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) == 0 or (np.diff(x) <= 0).any():
        raise NeedReplayError("metrics.csv has steps that do not grow.")
    return Series(world, RETURN, (_seed(config),), x, y[np.newaxis])


def _episodes(world: str, table: Table) -> Series:
    trials, rows = np.unique(_whole(table["trial"]), return_counts=True)
    if len(set(rows.tolist())) != 1:
        raise NeedReplayError("metrics.csv has trials of unequal length.")
    steps = _finite(_numbers(table["steps"])).reshape(len(trials), -1)
    episodes = np.arange(1, steps.shape[1] + 1, dtype=np.float64)
    return Series(world, EPISODE_STEPS, tuple(trials.tolist()), episodes, steps)


def _sizes(world: str, table: Table, size: float) -> Series:
    chosen = _numbers(table["states"]) == size
    updates = _finite(_numbers(table["updates"])[chosen])[:, np.newaxis]
    seeds = tuple(_whole(table["trial"])[chosen].tolist())
    return Series(f"{world}, {size:g} states", UPDATES, seeds, np.zeros(1), updates)


def _seed(config: Mapping[str, Any]) -> int:
    seed = config.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def _numbers(column: AnyArray) -> FloatArray:
    """An empty cell is a number that is not known."""
    if column.dtype.kind != "U":
        return column.astype(np.float64)
    try:
        return np.array([float(cell) if cell else np.nan for cell in column.tolist()])
    except ValueError as error:
        raise NeedReplayError(f"metrics.csv has a cell that is no number: {error}.") from error


def _finite(numbers: FloatArray) -> FloatArray:
    if not np.isfinite(numbers).all():
        raise NeedReplayError("metrics.csv lacks a number.")
    return numbers


def _whole(column: AnyArray) -> AnyArray:
    return _finite(_numbers(column)).astype(np.int64)
