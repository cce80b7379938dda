"""β, the exponent of importance weights, as it changes during a run."""

from __future__ import annotations

from dataclasses import dataclass

from needreplay.errors import NeedReplayError
from needreplay.rules.priority import annealed


@dataclass(frozen=True)
class LinearBeta:
    """From ``start`` to ``end`` over the first ``batches`` batches, and ``end`` from then on."""

    start: float = 0.4
    end: float = 1.0
    batches: int = 1_000_000

    def __post_init__(self) -> None:
        checked_beta(self.start)
        checked_beta(self.end)
        if self.batches < 1:
            raise NeedReplayError(f"batches is {self.batches}; it has to be 1 or more.")

    def __call__(self, drawn: int) -> float:
        """β for the batch before which ``drawn`` others were drawn."""
        return annealed(self.start, self.end, drawn / self.batches)


def checked_beta(beta: float) -> float:
    """``beta`` as a float, if it is one from 0 to 1."""
    if not 0.0 <= beta <= 1.0:
        raise NeedReplayError(
            f"beta is {beta}; it has to be from 0 (no correction) to 1 (full correction)."
        )
    return float(beta)
