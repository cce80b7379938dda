"""The need that a draw is told: checked here, because its shape is the draw's own business."""

from __future__ import annotations

from typing import Literal

import numpy as np

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.told import KERNEL_FLOATS, real_numbers

Corrects = Literal["both", "gain"]
"""What importance weights correct for: gain and need, or gain alone."""


def checked_need(need: AnyArray | None, length: int, meaning: str) -> FloatArray:
    """``need`` as a float64 vector of ``length`` finite numbers, or an error in prose.

    Args:
        need: what the caller of ``sample`` told.
        length: how many entries the draw expects.
        meaning: what an entry stands for, used in the message ("one for each state").
    """
    if need is None:
        raise NeedReplayError(
            f"This draw weighs gain by need, but no need was told; pass need, {length} numbers "
            f"({meaning}), to sample."
        )
    if type(need) is np.ndarray and need.dtype in KERNEL_FLOATS:
        vector = np.asarray(need, dtype=np.float64)
    else:
        to_do = f"give {length} real numbers ({meaning}). Nothing was drawn."
        vector = real_numbers("need", need, to_do)
    if vector.shape != (length,):
        raise NeedReplayError(
            f"need has the shape {vector.shape}, but {length} numbers are expected ({meaning}). "
            "Nothing was drawn."
        )
    if not np.isfinite(vector).all():
        raise NeedReplayError(
            "need holds NaN or infinity; every entry has to be a finite number. Nothing was drawn."
        )
    return np.ascontiguousarray(vector)


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


def checked_states(states: IntArray, n_states: int) -> None:
    """Refuse states that a draw over ``n_states`` states does not have."""
    if len(states) and not (states.min() >= 0 and states.max() < n_states):
        raise NeedReplayError(
            f"states holds {states.min()} to {states.max()}, but this draw was made for "
            f"{n_states} states, counted from 0. Nothing was changed."
        )
