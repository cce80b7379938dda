"""The need that a draw is told: checked here, because its shape is the draw's own business."""

from __future__ import annotations

from typing import Literal

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.replay.validation import check_need as checked_need
from needreplay.replay.validation import check_states as checked_states

__all__ = [
    "Corrects",
    "checked_corrects",
    "checked_exponents",
    "checked_need",
    "checked_size",
    "checked_states",
]

Corrects = Literal["both", "gain"]
"""What importance weights correct for: gain and need, or gain alone."""


def checked_exponents(alpha: float, need_alpha: float) -> None:
    """Refuse an exponent outside [0, 1]: above 1 the largest gain would have an infinite mass."""
    if not 0.0 <= alpha <= 1.0:
        raise NeedReplayError(f"alpha is {alpha}; it has to lie in [0, 1].")
    if not 0.0 <= need_alpha <= 1.0:
        raise NeedReplayError(f"need_alpha is {need_alpha}; it has to lie in [0, 1].")


def checked_corrects(corrects: Corrects) -> Corrects:
    """``corrects``, or an error that lists what there is."""
    if corrects not in ("both", "gain"):
        raise unknown("corrects", corrects, ("both", "gain"))
    return corrects


def checked_size(size: int, occupied: int) -> None:
    """Refuse to draw a negative number of slots, or any from an empty memory."""
    if size < 0:
        raise NeedReplayError(f"size is {size}; the number of slots to draw cannot be negative.")
    if size > 0 and occupied == 0:
        raise NeedReplayError("The memory is empty, there is nothing to draw; add to it first.")
