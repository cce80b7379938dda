"""How fast something goes now, and a time in words, for whoever watches."""

from __future__ import annotations

SPEED_OVER = 20.0
"""Seconds that the speed shown is taken over."""


class Speed:
    """Units per second over the last ``SPEED_OVER`` seconds, pauses included."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []

    def tell(self, now: float, units: float) -> float:
        """The speed, now that so much is done; 0 as long as it is not known."""
        seen = self._seen
        seen.append((now, units))
        while len(seen) > 2 and seen[1][0] < now - SPEED_OVER:
            del seen[0]
        (began, first), (ended, last) = seen[0], seen[-1]
        return max(0.0, (last - first) / (ended - began)) if ended > began else 0.0


def duration(seconds: float) -> str:
    """A time for a person.

    >>> duration(42), duration(90 * 60), duration(3 * 86_400)
    ('42 s', '90 min', '72 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.0f} h"
