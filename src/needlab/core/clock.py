"""The current speed of some work, and durations as text."""

from __future__ import annotations

SPEED_OVER = 20.0
"""Seconds over which the speed is averaged."""


class Speed:
    """Units per second over the last ``SPEED_OVER`` seconds, pauses included."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []

    def update(self, now: float, units: float) -> float:
        """Record that ``units`` are done ``now``; return the speed, 0 while it is unknown."""
        seen = self._seen
        seen.append((now, units))
        while len(seen) > 2 and seen[1][0] < now - SPEED_OVER:
            del seen[0]
        (began, first), (ended, last) = seen[0], seen[-1]
        return max(0.0, (last - first) / (ended - began)) if ended > began else 0.0


def duration(seconds: float) -> str:
    """Write a duration as text.

    >>> duration(42), duration(90 * 60), duration(3 * 86_400)
    ('42 s', '90 min', '72 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.0f} h"
