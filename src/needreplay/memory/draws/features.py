"""One vector per slot, and how old each is: the leaves that a need vector is held against."""

from __future__ import annotations

import numpy as np

from needreplay.compiled import compiled
from needreplay.errors import NeedReplayError
from needreplay.memory.draws.dots import dot_rows
from needreplay.memory.draws.query import checked_need
from needreplay.rules.projection import projector
from needreplay.types import AnyArray, FloatArray, IntArray

UNTOLD = -1
LARGEST = float(np.finfo(np.float32).max)

_projector = compiled(projector, reassociate=True)


class FeatureStore:
    """v_j of every slot, in float32, such that need_j = q · v_j for a query q.

    Forward need, how much the present leads to slot j: the store is told features φ_j and keeps
    v_j = φ_j / |φ_j|²; the query is m, the successor features of the present.
    Backward need, how much slot j leads to the present: the store is told successor features m_j
    and keeps them; the query is φ / |φ|² of the present features φ.
    Either way the caller tells φ and m as they are. φ = 0 has need 0, and so has a slot that was
    told nothing yet.
    """

    def __init__(self, capacity: int, n_features: int, *, backward: bool = False) -> None:
        if n_features < 1:
            raise NeedReplayError(f"n_features is {n_features}; there has to be at least one.")
        self.n_features = n_features
        self.backward = backward
        self.vectors = np.zeros((capacity, n_features), dtype=np.float32)
        self._told_at = np.full(capacity, UNTOLD, dtype=np.int64)
        self._clock_and_cursor = np.zeros(2, dtype=np.int64)

    def checked(self, slots: IntArray, features: AnyArray) -> AnyArray:
        """The vectors to keep for ``features``, or an error in prose."""
        rows = np.ascontiguousarray(features, dtype=np.float64)
        if rows.shape != (len(slots), self.n_features):
            raise NeedReplayError(
                f"features has the shape {rows.shape}, but {len(slots)} slots with "
                f"{self.n_features} features each were expected."
            )
        vectors = np.empty(rows.shape, dtype=np.float32)
        if not _to_keep(rows, self.backward, vectors):
            raise NeedReplayError(
                "features holds NaN or infinity, or numbers beyond float32; nothing was stored."
            )
        return vectors

    def tell(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each."""
        vectors = self.checked(slots, features)
        _store(self.vectors, self._told_at, slots, vectors, self._clock_and_cursor[0])

    def forget(self, slots: IntArray) -> None:
        """``slots`` have no features, and need 0, until told."""
        self.vectors[slots] = 0.0
        self._told_at[slots] = UNTOLD

    def query(self, need: AnyArray | None) -> FloatArray:
        """What to multiply the vectors with, given what ``sample`` was told."""
        told = checked_need(need, self.n_features, "one for each feature")
        return projector(told) if self.backward else told

    def products(self, slots: IntArray, query: FloatArray) -> FloatArray:
        """The need q · v_j of ``slots``, negative need as it is."""
        out = np.empty(len(slots))
        dot_rows(self.vectors, slots, query, out)
        return out

    def tick(self) -> None:
        """One more draw has been made: every vector is one older."""
        self._clock_and_cursor[0] += 1

    @property
    def oldest_age(self) -> int:
        """How many draws ago the stalest vector was told; 0 where none was. O(N)."""
        told = self._told_at[self._told_at != UNTOLD]
        return int(self._clock_and_cursor[0] - told.min()) if len(told) else 0

    @property
    def n_untold(self) -> int:
        """How many slots, empty ones included, have no vector. O(N)."""
        return int((self._told_at == UNTOLD).sum())

    def next_in_rotation(self, count: int) -> IntArray:
        """The next ``count`` slots that have a vector, in turn, to be told anew by the caller.

        Asked for r slots at each update, the whole memory is renewed every N / r updates.
        """
        chosen = np.empty(count, dtype=np.int64)
        found, cursor = _next_told(self._told_at, self._clock_and_cursor[1], chosen)
        self._clock_and_cursor[1] = cursor
        return chosen[:found]

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {
            "vectors": self.vectors,
            "told_at": self._told_at,
            "clock_and_cursor": self._clock_and_cursor,
        }


@compiled
def _to_keep(rows: FloatArray, as_told: bool, vectors: AnyArray) -> bool:
    """Writes what to keep for each row, and answers whether all of it is finite in float32."""
    for i in range(len(rows)):
        if not np.isfinite(rows[i]).all():
            return False
        vector = rows[i] if as_told else _projector(rows[i])
        if np.abs(vector).max() > LARGEST:
            return False
        for k in range(len(vector)):
            vectors[i, k] = vector[k]
    return True


@compiled
def _store(
    vectors: AnyArray, told_at: IntArray, slots: IntArray, rows: AnyArray, clock: int
) -> None:
    """Slot i has the vector ``rows[i]`` since ``clock``."""
    for i in range(len(slots)):
        vectors[slots[i]] = rows[i]
        told_at[slots[i]] = clock


@compiled
def _next_told(told_at: IntArray, cursor: int, chosen: IntArray) -> tuple[int, int]:
    """Writes the next slots from ``cursor`` on that were told; answers how many, and where it is."""
    found = 0
    for _ in range(len(told_at)):
        if found == len(chosen):
            break
        if told_at[cursor] != UNTOLD:
            chosen[found] = cursor
            found += 1
        cursor += 1
        if cursor == len(told_at):
            cursor = 0
    return found, cursor
