"""What a memory hands out: columns, and for each transition its id, probability and weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.ring import Bytes, Ring, take_rows
from needreplay.rules import priority as rules

importance_weight = jit(rules.importance_weight)


@jit
def smallest_of(probabilities: FloatArray) -> float:
    """The smallest probability of a batch."""
    smallest: float = probabilities[0]
    for i in range(1, len(probabilities)):
        smallest = min(smallest, probabilities[i])
    return smallest


@jit
def _hand_out(
    rows: Bytes,
    spans: IntArray,
    starts: IntArray,
    out: Bytes,
    slots: IntArray,
    probabilities: FloatArray,
    smallest: float,
    beta: float,
    next_id: int,
    ids: IntArray,
    weights: FloatArray,
) -> None:
    """Columns, ids and weights of a batch; writes ``out``, ``ids`` and ``weights``."""
    take_rows(rows, slots, spans, starts, out)
    if smallest == 0.0:
        smallest = smallest_of(probabilities)
    for i in range(len(slots)):
        ids[i] = next_id - 1 - (next_id - 1 - slots[i]) % len(rows)
        weights[i] = importance_weight(probabilities[i], smallest, beta)


def hand_out(
    ring: Ring, slots: IntArray, probabilities: FloatArray, smallest: float, beta: float
) -> tuple[IntArray, FloatArray, dict[str, AnyArray]]:
    """The ids, importance weights and columns of the transitions in ``slots``.

    Weights are relative to that of probability ``smallest`` (0: the smallest of the batch).
    """
    if ring.native is not None:
        handed = ring.native.hand_out(slots, probabilities, smallest, beta, ring.next_id)
        if handed is not None:
            return handed
    size = len(slots)
    plan = ring.plan(size)
    out = np.empty(plan.length, dtype=np.uint8)
    ids, weights = np.empty(size, dtype=np.int64), np.empty(size)
    _hand_out(
        ring.rows,
        ring.spans,
        plan.starts,
        out,
        slots,
        probabilities,
        smallest,
        beta,
        ring.next_id,
        ids,
        weights,
    )
    return ids, weights, plan.columns(out)


@dataclass(slots=True, eq=False)
class Batch:
    """``size`` transitions; ``batch["obs"]`` is a column, one row for each."""

    ids: IntArray
    """Hand these back to ``update``."""
    probabilities: FloatArray
    """With which each was drawn, up to one constant where not ``normalized``; of
    ``ResampledSampler``, those that it approximates."""
    weights: FloatArray
    """Importance weights, at most 1 if divided by the batch's maximum: multiply the losses."""
    columns: dict[str, Any]
    """Every column by name; of a Dict space, a dict of arrays."""
    normalized: bool = True
    """Whether ``probabilities`` sum to 1 over the memory."""
    factors: FloatArray | None = None
    """The need of each, where the draw leaves it to the learner to scale its update."""

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.ids)

    def keys(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self.columns)
