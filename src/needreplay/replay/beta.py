"""β, the exponent of importance weights, as it changes during a run."""

from __future__ import annotations

from dataclasses import dataclass

from needreplay.core.checks import AT_LEAST_ONE, check_number
from needreplay.replay.validation import check_beta
from needreplay.rules.priority import annealed


@dataclass(frozen=True)
class LinearBeta:
    """From ``start`` to ``end`` over the first ``batches`` batches, and ``end`` from then on."""

    start: float = 0.4
    end: float = 1.0
    batches: int = 1_000_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_beta(self.start, "start"))
        object.__setattr__(self, "end", check_beta(self.end, "end"))
        if isinstance(self.batches, float) and float(self.batches).is_integer():
            object.__setattr__(self, "batches", int(self.batches))  # 1e6 is as good as 1_000_000
        check_number("batches", self.batches, int, AT_LEAST_ONE)

    def __call__(self, drawn: int) -> float:
        """β for the batch before which ``drawn`` others were drawn."""
        return annealed(self.start, self.end, drawn / self.batches)
