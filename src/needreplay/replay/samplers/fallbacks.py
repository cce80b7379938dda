"""How a need draw found its slots: as asked, or, where there is nothing to go by, otherwise."""

from __future__ import annotations

from typing import NamedTuple

BY_PRIORITY = 0
"""Sampled by gain and need together, as asked."""
BY_GAIN = 1
"""The total priority was 0: drawn by gain alone."""
UNIFORM = 2
"""The total gain was 0 as well: drawn uniformly."""
BY_SWEEP = 3
"""Rejected too often: still drawn exactly, but by going over all slots."""


class Fallbacks(NamedTuple):
    """How many slots were drawn each way since the draw was made."""

    by_priority: int
    by_gain: int
    uniform: int
    by_sweep: int
