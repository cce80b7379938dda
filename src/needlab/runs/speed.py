"""How long a sweep will take: from the speed of its own runs, or of short runs made for it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from needlab.runs.kinds import kind_named
from needlab.runs.sweep_file import RunSpec
from needlab.runs.sweep_folder import SweepFolder

STARTING = 4.0
"""Seconds until a new process has imported torch and loaded its kernels."""
_PROBE_SECONDS = 4.0
_WARM_SECONDS = 1.0
_LEAST_SECONDS = 5.0
Mark: TypeAlias = tuple[float, int]
"""a time, and the units done by then"""
_NOT_SPEED = ("seed", "steps", "first_trial", "trials")


@dataclass(frozen=True)
class Estimate:
    """Seconds that each run still needs, and where the speeds come from."""

    seconds: dict[str, float]
    unknown: tuple[str, ...]
    """runs whose speed could not be measured"""
    probed: int
    """speeds that a short run had to measure"""

    def wall(self, workers: int) -> float:
        """Seconds with ``workers`` runs at once."""
        return max([sum(self.seconds.values()) / workers, *self.seconds.values()], default=0.0)


def like(spec: RunSpec) -> str:
    """A key: runs with the same key should be equally fast (games of one family, all seeds)."""
    config = {name: value for name, value in spec.plain.items() if name not in _NOT_SPEED}
    family, slash, _ = str(config.get("world", "")).partition("/")
    return json.dumps({**config, "world": family if slash else config.get("world")}, sort_keys=True)


def estimate(
    specs: Sequence[RunSpec],
    folder: SweepFolder,
    *,
    measure: bool = True,
    on_probe: Callable[[RunSpec], None] = lambda _spec: None,
) -> Estimate:
    """Estimate what the runs that are not complete still need.

    Args:
        specs: all runs of the sweep.
        folder: where runs may have recorded their speed.
        measure: make a short run where no speed is known.
        on_probe: called before each short run.
    """
    speeds: dict[str, float | None] = dict(measured(specs, folder))
    seconds: dict[str, float] = {}
    unknown: list[str] = []
    probed = 0
    for spec in specs:
        if folder.is_done(spec.name):
            continue
        key = like(spec)
        if key not in speeds and measure:
            on_probe(spec)
            speeds[key] = probe(spec)
            probed += speeds[key] is not None
        speed = speeds.get(key)
        if speed is None:
            unknown.append(spec.name)
            continue
        left = max(0, spec.units - folder.progress(spec.name)[0])
        seconds[spec.name] = STARTING + left / speed
    return Estimate(seconds, tuple(unknown), probed)


def measured(specs: Sequence[RunSpec], folder: SweepFolder) -> dict[str, float]:
    """Units per second, by ``like``, of the runs in a folder that worked long enough."""
    sums: dict[str, tuple[float, float]] = {}
    for spec in specs:
        units, seconds = folder.progress(spec.name)
        if units > 0 and seconds >= _LEAST_SECONDS:
            before = sums.get(like(spec), (0.0, 0.0))
            sums[like(spec)] = (before[0] + units, before[1] + seconds)
    return {key: units / seconds for key, (units, seconds) in sums.items()}


class _Enough(Exception):  # noqa: N818
    """Ends a probe."""


def probe(spec: RunSpec) -> float | None:
    """Units per second of a short run like ``spec`` in this process; ``None`` if unknown."""
    kind = kind_named(spec.kind)
    if kind.probe is None:
        return None
    marks: list[Mark] = []

    def on_units(units: int) -> None:
        marks.append((time.monotonic(), units))
        warm = _warm(marks)
        if warm and warm[-1][0] - warm[0][0] >= _PROBE_SECONDS:
            raise _Enough

    with tempfile.TemporaryDirectory() as folder, suppress(_Enough):
        kind.run(kind.probe(dict(spec.config)), Path(folder), on_units)
    return _speed(marks)


def _warm(marks: Sequence[Mark]) -> Sequence[Mark]:
    """The marks a second and more after the first unit, which may have compiled kernels."""
    first = next((when for when, units in marks if units > marks[0][1]), None)
    return [] if first is None else [mark for mark in marks if mark[0] >= first + _WARM_SECONDS]


def _speed(marks: Sequence[Mark]) -> float | None:
    """Between warm marks if there are two; else after the first unit; else with it.

    >>> _speed([(0.0, 0), (8.0, 1), (10.0, 3), (12.0, 7)])
    2.0
    """
    moved = [mark for mark in marks if mark[1] > marks[0][1]]
    for chosen in (_warm(marks), moved, marks):
        if len(chosen) > 1:
            (started, low), (ended, high) = chosen[0], chosen[-1]
            return None if ended <= started or high <= low else (high - low) / (ended - started)
    return None
