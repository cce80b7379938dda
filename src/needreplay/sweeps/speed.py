"""How long a sweep will take: from the speed of its own runs, or of short ones made for it."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from needreplay.sweeps.folder import SweepFolder
from needreplay.sweeps.kinds import kind_named
from needreplay.sweeps.spec import RunSpec

STARTING = 4.0
"""Seconds until a fresh process has imported torch and loaded its kernels."""
_PROBE_SECONDS = 4.0
_WARM_SECONDS = 1.0
_LEAST_SECONDS = 5.0
Mark: TypeAlias = tuple[float, int]
"""when, and how many units were done then"""
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
        """The time with so many at once: the work shared out, but no run is cut in two."""
        return max([sum(self.seconds.values()) / workers, *self.seconds.values()], default=0.0)


def like(spec: RunSpec) -> str:
    """Runs of equal words here are taken to be equally fast: games of one family, all seeds."""
    kept = {name: value for name, value in spec.plain.items() if name not in _NOT_SPEED}
    family, slash, _ = str(kept.get("world", "")).partition("/")
    return json.dumps({**kept, "world": family if slash else kept.get("world")}, sort_keys=True)


def estimate(
    specs: Sequence[RunSpec],
    folder: SweepFolder,
    *,
    measure: bool = True,
    on_probe: Callable[[RunSpec], None] | None = None,
) -> Estimate:
    """What the runs that are not complete still need.

    Args:
        specs: all runs of the sweep.
        folder: where runs may have left their speed.
        measure: make a short run where no speed is known.
        on_probe: told before each of these.
    """
    speeds = measured(specs, folder)
    seconds: dict[str, float] = {}
    unknown: list[str] = []
    probed = 0
    for spec in specs:
        if folder.is_done(spec.name):
            continue
        key = like(spec)
        if key not in speeds and measure:
            if on_probe is not None:
                on_probe(spec)
            speed = probe(spec)
            probed += speed is not None
            if speed is not None:
                speeds[key] = speed
        if key not in speeds:
            unknown.append(spec.name)
            continue
        left = max(
            0, kind_named(spec.kind).units(dict(spec.config)) - folder.progress(spec.name)[0]
        )
        seconds[spec.name] = STARTING + left / speeds[key]
    return Estimate(seconds, tuple(unknown), probed)


def measured(specs: Sequence[RunSpec], folder: SweepFolder) -> dict[str, float]:
    """Units a second, by ``like``, of the runs in a folder that worked for long enough."""
    sums: dict[str, tuple[float, float]] = {}
    for spec in specs:
        units, seconds = folder.progress(spec.name)
        if units > 0 and seconds >= _LEAST_SECONDS:
            before = sums.get(like(spec), (0.0, 0.0))
            sums[like(spec)] = (before[0] + units, before[1] + seconds)
    return {key: units / seconds for key, (units, seconds) in sums.items()}


class _Enough(Exception):  # noqa: N818
    """The probe has seen enough."""


def probe(spec: RunSpec) -> float | None:
    """Units a second of a short run like ``spec``, in this process; ``None`` where it has none."""
    kind = kind_named(spec.kind)
    if kind.probe is None:
        return None
    marks: list[Mark] = []

    warm = began = math.inf

    def moved(units: int) -> None:
        nonlocal warm, began
        now = time.monotonic()
        marks.append((now, units))
        if units > marks[0][1]:
            warm = min(warm, now + _WARM_SECONDS)
        if now >= warm:
            began = min(began, now)
        if now - began >= _PROBE_SECONDS:
            raise _Enough

    config: dict[str, Any] = kind.probe(dict(spec.config))
    with tempfile.TemporaryDirectory() as folder, suppress(_Enough):
        kind.run(config, Path(folder), moved)
    return _speed(marks)


def _warm(marks: Sequence[Mark]) -> Sequence[Mark]:
    """Those after which kernels are compiled: a second and more after the first unit was done.

    However long that unit took: with an empty kernel cache it is compilation, not work.
    """
    moved = (mark for mark in marks if mark[1] > marks[0][1])
    began = next(moved, (math.inf, 0))[0] + _WARM_SECONDS
    first = next((place for place, mark in enumerate(marks) if mark[0] >= began), len(marks))
    return marks[first:]


def _speed(marks: Sequence[Mark]) -> float | None:
    """Between warm marks where there are two; else after the first unit; else with it.

    >>> _speed([(0.0, 0), (8.0, 1), (10.0, 3), (12.0, 7)])
    2.0
    """
    moved = [mark for mark in marks if mark[1] > marks[0][1]]
    for measured in (_warm(marks), moved, marks):
        if len(measured) > 1:
            (began, low), (ended, high) = measured[0], measured[-1]
            return None if ended <= began or high <= low else (high - low) / (ended - began)
    return None
