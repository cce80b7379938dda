"""What the published figures draw in numbers, beside ours.

The article draws its bars and prints no table of them. Its plotting scripts (the authors' code)
fix the axes, and hold as numbers the changes in animals (Ambrose, Pfeiffer & Foster 2016) that
figure 5 shows beside the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from needlab.core.tables import Table, long_table
from needlab.report.statistics import Interval, curve_interval, mean_interval
from needlab.studies.mattar_daw.cases import LINEAR, OPEN
from needlab.studies.mattar_daw.claims import AFTER, BEFORE, F, Found, R, rates, reward_ratio
from needreplay._core.rng import stream

NOTHING = Interval(float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True)
class Height:
    """A published number, or the axis that a published bar fits on, and how ours is measured."""

    figure: str
    quantity: str
    kind: Literal["axis", "animals"]
    low: float
    high: float
    """the same as ``low`` if it is a number"""
    measure: Callable[[Found, np.random.Generator], Interval]


def _moment(found: Found, rng: np.random.Generator, direction: int, when: int) -> Interval:
    return mean_interval(found[f"{OPEN}/baseline"]["events"][:, 0, direction, when], rng)


def _after(found: Found, rng: np.random.Generator, case: str, group: int) -> Interval:
    return mean_interval(rates(found, f"{LINEAR}/{case}", R, group), rng)


def _change(found: Found, rng: np.random.Generator, case: str, direction: int) -> Interval:
    """Events after the second reward of a schedule against the first, as a change in percent."""
    ratio = reward_ratio(found, rng, case, case, direction)
    if ratio is None:
        return NOTHING
    return Interval(*(100.0 * (end - 1.0) for end in (ratio.estimate, ratio.low, ratio.high)))


def _highest_lap(found: Found, rng: np.random.Generator, direction: int) -> Interval:
    laps = found[f"{LINEAR}/baseline"]["laps"][..., direction]
    return curve_interval(laps, lambda mean: float(mean.max()), rng)


HEIGHTS: tuple[Height, ...] = (
    *(
        Height("fig. 3", f"{name}, {OPEN}", "axis", 0.0, 1.0,
               partial(_moment, direction=direction, when=when))
        for name, direction, when in (
            ("forward events before a run", F, BEFORE), ("reverse events after a run", R, AFTER),
        )
    ),
    *(
        Height("fig. 5", f"reverse events, {name}", "axis", 0.0, 1.0,
               partial(_after, case=case, group=group))
        for name, case, group in (
            ("reward always 1", "baseline", 0), ("after 1, where 4 may come", "1-or-4", 0),
            ("after 4", "1-or-4", 1), ("after 1, where 0 may come", "1-or-0", 0),
            ("after 0", "1-or-0", 1),
        )
    ),
    *(
        Height("fig. 5", f"change of {name} events from reward 1 to {reward}, in percent",
               "animals", percent, percent, partial(_change, case=case, direction=direction))
        for name, reward, case, direction, percent in (
            ("forward", 4, "1-or-4", F, -3.0), ("reverse", 4, "1-or-4", R, 56.0),
            ("forward", 0, "1-or-0", F, -83.0), ("reverse", 0, "1-or-0", R, -88.0),
        )
    ),
    *(
        Height("fig. 6", f"{name} events in the lap with most of them", "axis", 0.0, high,
               partial(_highest_lap, direction=direction))
        for name, direction, high in (("forward", F, 3.0), ("reverse", R, 1.0))
    ),
)  # fmt: skip


def height_table(presets: dict[str, Found], seed: int) -> Table:
    """Published numbers and ours, by preset."""
    return long_table(
        ("preset", "figure", "quantity"),
        {
            (preset, height.figure, height.quantity): {
                "kind": height.kind,
                "published_low": height.low,
                "published_high": height.high,
                **height.measure(
                    own, stream(seed, "mattar-daw", "heights", preset, height.quantity)
                ).columns("ours"),
            }
            for preset, own in presets.items()
            for height in HEIGHTS
        },
    )
