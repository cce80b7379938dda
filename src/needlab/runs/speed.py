"""How long items will take: from their own speed, or from that of short runs made for it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from needlab.runs.kinds import kind_named
from needlab.runs.runner import NOTHING, Item, Worked
from needlab.runs.sweep_file import RunSpec

STARTING = 4.0
"""Seconds until a new process has imported torch and loaded its kernels."""
_PROBE_SECONDS = 4.0
_WARM_SECONDS = 1.0
_LEAST_SECONDS = 5.0
_TRUST = 20.0
"""For how many seconds of work an expected speed counts as much as a measured one."""
Mark: TypeAlias = tuple[float, float]
"""a time, and the units done by then"""


@dataclass(frozen=True)
class Estimate:
    """Seconds that each item still needs."""

    seconds: dict[str, float]
    unknown: tuple[str, ...] = ()
    """items whose speed is not known"""

    def wall(self, workers: int) -> float:
        """Seconds with ``workers`` items at once."""
        return max([sum(self.seconds.values()) / workers, *self.seconds.values()], default=0.0)


def speeds_of(
    items: Iterable[Item], worked: Mapping[str, Worked], expected: float | None = None
) -> dict[str, float]:
    """Units per second, by ``like``, where there was enough work to measure it.

    Args:
        items: the items.
        worked: what is done of them.
        expected: units per second that are expected, so that a speed is known from the start.
    """
    sums: dict[str, Worked] = {}
    start = NOTHING if expected is None else Worked(_TRUST * expected, _TRUST)
    for item in items:
        before, more = sums.get(item.like, start), worked.get(item.name, NOTHING)
        sums[item.like] = Worked(before.units + more.units, before.seconds + more.seconds)
    least = _LEAST_SECONDS if expected is None else 0.0
    return {
        like: each.units / each.seconds
        for like, each in sums.items()
        if each.units > 0.0 and each.seconds >= least
    }


def estimate(
    items: Iterable[Item],
    worked: Mapping[str, Worked],
    speeds: Mapping[str, float],
    starting: float = 0.0,
) -> Estimate:
    """What the items still need, each with the seconds of ``starting``."""
    seconds, unknown = {}, []
    for item in items:
        left = max(0.0, item.units - worked.get(item.name, NOTHING).units)
        if item.like in speeds:
            seconds[item.name] = starting + left / speeds[item.like]
        else:
            unknown.append(item.name)
    return Estimate(seconds, tuple(unknown))


class _Enough(Exception):  # noqa: N818
    """Raised inside a run to end it: the probe has measured enough."""


def probe(spec: RunSpec) -> float | None:
    """Units per second of a short run like ``spec`` in this process; ``None`` if unknown."""
    kind = kind_named(spec.kind)
    if kind.probe is None:
        return None
    marks: list[Mark] = []

    def on_units(units: float) -> None:
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
