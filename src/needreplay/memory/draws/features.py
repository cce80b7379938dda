"""One vector per slot, and how old each is: the leaves that a need vector is held against."""

from __future__ import annotations

import numpy as np

from needreplay.errors import NeedReplayError
from needreplay.memory.draws.dots import dot_rows
from needreplay.memory.draws.query import checked_need
from needreplay.rules.projection import projector
from needreplay.types import AnyArray, FloatArray, IntArray

UNTOLD = -1


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
        rows = np.asarray(features)
        if rows.shape != (len(slots), self.n_features):
            raise NeedReplayError(
                f"features has the shape {rows.shape}, but {len(slots)} slots with "
                f"{self.n_features} features each were expected."
            )
        kept = rows if self.backward else projector(rows)
        with np.errstate(over="ignore"):
            vectors = kept.astype(np.float32)
        if not np.isfinite(vectors).all():
            raise NeedReplayError(
                "features holds NaN or infinity, or numbers beyond float32; nothing was stored."
            )
        return vectors

    def tell(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each."""
        self.vectors[slots] = self.checked(slots, features)
        self._told_at[slots] = self._clock_and_cursor[0]

    def forget(self, slots: IntArray) -> None:
        """``slots`` have no features, and need 0, until told."""
        self.vectors[slots] = 0.0
        self._told_at[slots] = UNTOLD

    def query(self, need: AnyArray | None) -> FloatArray:
        """What to multiply the vectors with, given what ``sample`` was told."""
        told = checked_need(need, self.n_features, "one for each feature")
        return projector(told) if self.backward else told

    def products(self, query: FloatArray) -> FloatArray:
        """The need q · v_j of every slot, negative ones as they are. O(N d)."""
        out = np.empty(len(self.vectors))
        dot_rows(self.vectors, query, out)
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
        cursor = int(self._clock_and_cursor[1])
        capacity = len(self._told_at)
        chosen: list[int] = []
        seen = 0
        while len(chosen) < count and seen < capacity:
            slot = (cursor + seen) % capacity
            if self._told_at[slot] != UNTOLD:
                chosen.append(slot)
            seen += 1
        self._clock_and_cursor[1] = (cursor + seen) % max(capacity, 1)
        return np.array(chosen, dtype=np.int64)

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {
            "vectors": self.vectors,
            "told_at": self._told_at,
            "clock_and_cursor": self._clock_and_cursor,
        }
