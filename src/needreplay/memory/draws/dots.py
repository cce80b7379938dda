"""Products of many rows with one vector, summed in float64 whatever the rows are stored in."""

from __future__ import annotations

from functools import partial

from needreplay.compiled import compiled
from needreplay.types import AnyArray, FloatArray


@partial(compiled, reassociate=True)
def dot(row: AnyArray, query: FloatArray) -> float:
    """Σ_k row[k] query[k]."""
    total = 0.0
    for k in range(len(query)):
        total += row[k] * query[k]
    return total


@compiled
def dot_rows(rows: AnyArray, query: FloatArray, out: FloatArray) -> None:
    """out[j] = row_j · query."""
    for j in range(len(out)):
        out[j] = dot(rows[j], query)
