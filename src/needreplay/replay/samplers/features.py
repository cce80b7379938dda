"""One vector per slot, and how old each is: the leaves that a need vector is held against."""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.dots import dot_rows
from needreplay.replay.samplers.query import checked_need
from needreplay.replay.validation import as_features
from needreplay.rules.projection import projector

UNTOLD = -1
LARGEST = float(np.finfo(np.float32).max)

_FINE, _TOO_LARGE, _NEGATIVE = 0, 1, 2

_projector = jit(projector, reassociate=True)


class FeatureStore:
    """v_j of every slot, in float32, such that need_j = q · v_j for a query q.

    Forward need, how much the present leads to slot j: the store is told features φ_j and keeps
    v_j = φ_j / |φ_j|²; the query is m, the successor features of the present.
    Backward need, how much slot j leads to the present: the store is told successor features m_j
    and keeps them; the query is φ / |φ|² of the present features φ.
    Either way the caller tells φ and m as they are. φ = 0 has need 0, and so has a slot that was
    told nothing yet. With ``takes_negative=False`` what is told must not be negative.
    """

    def __init__(
        self,
        capacity: int,
        n_features: int,
        *,
        backward: bool = False,
        takes_negative: bool = True,
    ) -> None:
        if n_features < 1:
            raise NeedReplayError(f"n_features is {n_features}; there has to be at least one.")
        self.n_features = n_features
        self.backward = backward
        self.takes_negative = takes_negative
        self.vectors = np.zeros((capacity, n_features), dtype=np.float32)
        self._told_at = np.full(capacity, UNTOLD, dtype=np.int64)
        self._clock_and_cursor = np.zeros(2, dtype=np.int64)

    def tell(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each; all of them or none."""
        features = as_features(features)
        if features.shape != (len(slots), self.n_features):
            raise NeedReplayError(
                f"features has the shape {features.shape}, but {len(slots)} slots with "
                f"{self.n_features} features each were expected. Nothing was changed."
            )
        found = _tell(
            self.vectors,
            self._told_at,
            slots,
            np.ascontiguousarray(features),
            self._clock_and_cursor[0],
            self.backward,
            self.takes_negative,
        )
        if found == _NEGATIVE:
            raise NeedReplayError(
                "features holds negative numbers, which the vector tree cannot take. "
                "FeatureNeedSampler, with the same arguments, takes features of any sign. "
                "Nothing was changed."
            )
        if found == _TOO_LARGE:
            raise NeedReplayError(
                "features holds NaN or infinity, or numbers beyond float32; give finite numbers. "
                "Nothing was changed."
            )

    def forget(self, slots: IntArray) -> None:
        """``slots`` have no features, and need 0, until told."""
        _forget(self.vectors, self._told_at, slots)

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
        chosen = np.empty(min(count, len(self._told_at)), dtype=np.int64)
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


@jit
def _to_keep(rows: AnyArray, as_told: bool, takes_negative: bool, vectors: AnyArray) -> int:
    """Writes what to keep for each row; answers whether all of it can be kept."""
    for i in range(len(rows)):
        row = rows[i].astype(np.float64)
        if not np.isfinite(row).all():
            return _TOO_LARGE
        if not takes_negative and row.min() < 0.0:
            return _NEGATIVE
        vector = row if as_told else _projector(row)
        if np.abs(vector).max() > LARGEST:
            return _TOO_LARGE
        for k in range(len(vector)):
            vectors[i, k] = vector[k]
    return _FINE


@jit
def _forget(vectors: AnyArray, told_at: IntArray, slots: IntArray) -> None:
    for i in range(len(slots)):
        vectors[slots[i]] = 0.0
        told_at[slots[i]] = UNTOLD


@jit
def _tell(
    vectors: AnyArray,
    told_at: IntArray,
    slots: IntArray,
    rows: AnyArray,
    clock: int,
    as_told: bool,
    takes_negative: bool,
) -> int:
    """Slot i has what is kept of ``rows[i]`` since ``clock``, unless any row cannot be kept."""
    kept = np.empty(rows.shape, dtype=np.float32)
    found = _to_keep(rows, as_told, takes_negative, kept)
    if found == _FINE:
        for i in range(len(slots)):
            vectors[slots[i]] = kept[i]
            told_at[slots[i]] = clock
    return found


@jit
def _next_told(told_at: IntArray, cursor: int, chosen: IntArray) -> tuple[int, int]:
    """Writes the next slots from ``cursor`` on that were told; answers how many, and the cursor."""
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
