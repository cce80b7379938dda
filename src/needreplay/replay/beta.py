"""β, the exponent of importance weights, as it changes during a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from needreplay.core.checks import AT_LEAST_ONE, check_number
from needreplay.core.errors import NeedReplayError
from needreplay.rules.priority import annealed


@dataclass(frozen=True)
class LinearBeta:
    """From ``start`` to ``end`` over the first ``batches`` batches, and ``end`` from then on."""

    start: float = 0.4
    end: float = 1.0
    batches: int = 1_000_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", checked_beta(self.start, "start"))
        object.__setattr__(self, "end", checked_beta(self.end, "end"))
        if isinstance(self.batches, float) and float(self.batches).is_integer():
            object.__setattr__(self, "batches", int(self.batches))  # 1e6 is as good as 1_000_000
        check_number("batches", self.batches, int, AT_LEAST_ONE)

    def __call__(self, drawn: int) -> float:
        """β for the batch before which ``drawn`` others were drawn."""
        return annealed(self.start, self.end, drawn / self.batches)


def checked_beta(beta: float, name: str = "beta") -> float:
    """``beta`` as a float, if it is a number from 0 to 1."""
    number = beta if type(beta) is float else _as_share(beta)
    if not 0.0 <= number <= 1.0:
        raise NeedReplayError(
            f"{name} is {beta!r}; it has to be a number from 0 (no correction) to 1 (full "
            "correction)."
        )
    return number


def _as_share(beta: Any) -> float:
    """``beta`` as a float; NaN, which lies nowhere, if it is not one real number from 0 to 1."""
    if getattr(beta, "ndim", None) == 0 and not isinstance(beta, np.ma.MaskedArray):
        beta = beta.item()
    is_real = isinstance(beta, Real) and not isinstance(beta, bool)
    return float(beta) if is_real and 0 <= beta <= 1 else math.nan
