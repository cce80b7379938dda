"""Products of many rows with one vector, summed in float64 whatever the rows are stored in."""

from __future__ import annotations

from functools import partial

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray


@partial(jit, reassociate=True)
def dot(rows: AnyArray, row: int, query: FloatArray) -> float:
    """Σ_k rows[row, k] query[k]; a row that is not cut out costs no reference count."""
    total = 0.0
    for k in range(len(query)):
        total += rows[row, k] * query[k]
    return total


@jit
def dot_rows(rows: AnyArray, which: IntArray, query: FloatArray, out: FloatArray) -> None:
    """out[i] = rows[which[i]] · query."""
    for i in range(len(out)):
        out[i] = dot(rows, which[i], query)
