"""What the samplers by need share: their base class, and the need of slots.

Need is one number per slot, one per state, or an inner product with features.
"""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from needreplay import equations
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.base import EMPTY, PrioritySampler, Sampled, check_counts, powers_of
from needreplay.replay.validation import as_features, check_need, is_within

CorrectFor = Literal["both", "gain"]

BY_SCORE = 0
"""Sampled by the score, priority^alpha · need^need_alpha."""
BY_PRIORITY = 1
"""Every score was 0: sampled by priority alone."""
UNIFORM = 2
"""Every priority was 0 as well: sampled uniformly."""
EXHAUSTIVE = 3
"""Candidates are rejected too often: sampled by the score, with a pass over the buffer."""

UNKNOWN = -1
"""The state of a slot whose state was not set, or the age of features that were not."""
MIN_FEATURE, MAX_FEATURE = 1e-37, 1e37
"""The largest entry of a stored vector, in absolute value; one that is smaller is stored as 0."""

_projector = jit(equations.projector, reassociate=True)


def checked_correct_for(correct_for: CorrectFor) -> CorrectFor:
    """What importance weights correct for, or raise."""
    if correct_for not in ("both", "gain"):
        raise unknown("correct_for", correct_for, ("both", "gain"))
    return correct_for


class Fallbacks(NamedTuple):
    """How many slots were sampled each way since the sampler was made."""

    by_score: int
    by_priority: int
    uniform: int
    exhaustive: int


def warn_unset(sampler: Any) -> None:
    """Warn, once for each sampler, that need is 0 because no slot has a state or features."""
    if not getattr(sampler, "_warned_unset", False):
        sampler._warned_unset = True
        warnings.warn(
            f"No transition in this buffer has a state or features, so every need is 0 and the "
            f"{sampler.name} sampler samples by priority alone. Pass state= or features= to add, "
            "or call set_states or set_features (shown once).",
            RuntimeWarning,
            stacklevel=2,
        )


class NeedSampler(PrioritySampler):
    """P(j) ∝ priority_j^alpha · need_j^need_alpha.

    Negative need counts as 0. Where every score is 0, slots are sampled by priority alone, and
    where every priority is 0, uniformly; ``fallbacks`` counts both.

    ``sample`` takes one query for all slots, or one for each (two axes). With one for each, slot i
    of the batch is sampled by query i, and the uniform share is that of each slot.

    Args:
        alpha: the exponent of priorities, from 0 to 1.
        need_alpha: the exponent of need, 0 or more.
        correct_for: what importance weights correct for: "both", or "gain" (priorities) alone, so
            that need keeps its effect at beta = 1.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    def __init__(
        self, alpha: float, need_alpha: float, correct_for: CorrectFor, uniform_mix: float
    ) -> None:
        self.need_alpha = check_number("need_alpha", need_alpha, float, (0.0, sys.float_info.max))
        self.correct_for = checked_correct_for(correct_for)
        super().__init__(alpha, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._counts = self._keep("counts", np.zeros(len(Fallbacks._fields), dtype=np.int64))

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were sampled by score, by priority, uniformly, and exhaustively."""
        return Fallbacks(*self._counts.tolist())

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        super().set_priorities(slots, priorities)
        self._priorities[slots] = priorities
        self._set_powers(slots, powers_of(priorities, self.alpha))

    @abstractmethod
    def _set_powers(self, slots: IntArray, powers: FloatArray) -> None:
        """Set priority^alpha of ``slots``."""

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        self._priorities[slots] = EMPTY
        self._set_empty(slots)

    @abstractmethod
    def _set_empty(self, slots: IntArray) -> None:
        """``slots`` have no power, and no state or features."""

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sample ``size`` slots with replacement, by one query or by one for each."""
        query = self._query(need, size)
        if query is not None and query.ndim == 2:
            if size > 0 and self.need_alpha > 0.0:
                return self._sample_rows(query, rng)
            query = np.ones(query.shape[1])  # need^0 = 1 by any query
        return self._mixed(self._sample(size, rng, query), rng)

    @abstractmethod
    def _query(self, need: AnyArray | None, size: int) -> FloatArray | None:
        """What was passed to ``sample``, checked; None where it may be missing and is."""

    def _sample_rows(self, queries: FloatArray, rng: np.random.Generator) -> Sampled:
        """One slot for each query."""
        rows = [self._mixed(self._sample(1, rng, query), rng) for query in queries]
        slots, probabilities, normalized, corrected = zip(*rows, strict=True)
        return Sampled(
            np.concatenate(slots),
            np.concatenate(probabilities),
            all(normalized),
            None if corrected[0] is None else np.concatenate(corrected),
        )

    def _check_size(self, size: int) -> None:
        """Raise for a negative size, and for any sample of an empty buffer. O(N)."""
        if size < 0:
            raise NeedReplayError(f"size is {size}; give 0 or more.")
        if size > 0 and not self.occupied.any():
            raise NeedReplayError("The buffer is empty; add transitions before you sample.")

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        check_counts(self._counts)


class FeatureStore:
    """A vector v_j for every slot, in float32, such that need_j = q · v_j for a query q.

    Forward need, how much the current state leads to slot j: the caller sets features φ_j, and the
    store holds v_j = φ_j / |φ_j|²; the query is m, the successor features of the current state.
    Backward need, how much slot j leads to the current state: the caller sets successor features
    m_j, stored as they are; the query is φ / |φ|² of the current features φ. Either way the caller
    passes φ and m as they are. φ = 0 has need 0, and so has a slot without features.

    Args:
        capacity: how many slots there are.
        n_features: how many features each has.
        backward: see above.
        need_alpha: the exponent of need; above 2 it narrows the range of the vectors.
    """

    def __init__(
        self,
        capacity: int,
        n_features: int,
        *,
        backward: bool = False,
        need_alpha: float = 1.0,
    ) -> None:
        self.n_features = n_features
        self.backward = backward
        self.smallest = max(MIN_FEATURE, 1e-74 ** (1.0 / max(need_alpha, 2.0)))
        self.largest = min(MAX_FEATURE, 1e74 ** (1.0 / max(need_alpha, 2.0)))
        self.vectors = np.zeros((capacity, n_features), dtype=np.float32)
        self._set_at = np.full(capacity, UNKNOWN, dtype=np.int64)
        self._clock_and_cursor = np.zeros(2, dtype=np.int64)
        self._any_set = False

    @property
    def known(self) -> BoolArray:
        """Which slots have features. O(N)."""
        known: BoolArray = self._set_at != UNKNOWN
        return known

    @property
    def is_unset(self) -> bool:
        """Whether no slot has features. O(N) until one has."""
        self._any_set = self._any_set or bool(self.known.any())
        return not self._any_set

    def set(self, slots: IntArray, features: AnyArray) -> None:
        """Set the features of ``slots``, one row each; all of them or none."""
        features = as_features(features)
        if features.shape != (len(slots), self.n_features):
            raise NeedReplayError(
                f"features has shape {features.shape}; give {self.n_features} features for each of "
                f"{len(slots)} slots. Nothing was changed."
            )
        self._write(slots, features)

    def check(self, features: AnyArray) -> None:
        """Raise for what ``set`` would refuse."""
        self._write(np.empty(0, dtype=np.int64), features)

    def _write(self, slots: IntArray, features: AnyArray) -> None:
        rows, clock = np.ascontiguousarray(features), self._clock_and_cursor[0]
        how = self.backward, self.smallest, self.largest
        if not _set(self.vectors, self._set_at, slots, rows, clock, *how):
            raise NeedReplayError(
                f"features holds NaN or infinity, or a row beyond {self.largest:.3g} (less if "
                "need_alpha is above 2; a row is divided by its square if need is forward); scale "
                "them. Nothing was changed."
            )

    def clear(self, slots: IntArray) -> None:
        """Remove the features of ``slots``: their need is 0 until new ones are set."""
        _clear(self.vectors, self._set_at, slots)

    def query(self, need: AnyArray | None, size: int | None = None) -> FloatArray:
        """The vector q for what was passed to ``sample``, or one for each of ``size`` rows."""
        given = check_need(need, self.n_features, "one for each feature", size)
        return _projected(np.atleast_2d(given)).reshape(given.shape) if self.backward else given

    def need_of(self, slots: IntArray, query: FloatArray) -> FloatArray:
        """q · v_j of ``slots``, also where it is negative."""
        need = np.empty(len(slots))
        _dot_rows(self.vectors, slots, query, need)
        return need

    def tick(self) -> None:
        """Count one more batch: every vector is one batch older."""
        self._clock_and_cursor[0] += 1

    @property
    def oldest_age(self) -> int:
        """How many batches ago the oldest vector was set; 0 where none was. O(N)."""
        known = self._set_at[self.known]
        return int(self._clock_and_cursor[0] - known.min()) if len(known) else 0

    def next_to_refresh(self, count: int) -> IntArray:
        """The next ``count`` slots that have features, in turn, for the caller to refresh.

        With r slots at each update, all are renewed every N / r updates.
        """
        chosen = np.empty(min(count, len(self._set_at)), dtype=np.int64)
        found, cursor = _next_known(self._set_at, self._clock_and_cursor[1], chosen)
        self._clock_and_cursor[1] = cursor
        return chosen[:found]

    def check_valid(self) -> None:
        """Raise unless vectors are ones that ``set`` stores, and known where they were set."""
        clock, cursor = self._clock_and_cursor.tolist()
        unset = ~self.known
        if not (0 <= cursor <= max(0, len(unset) - 1) and 0 <= clock < 2**62):
            raise NeedReplayError("The clock or the cursor of the features is out of range.")
        if not is_within(self._set_at, UNKNOWN, clock + 1) or self.vectors[unset].any():
            raise NeedReplayError("Features were set that are not known, or in the future.")
        if not _are_stored(self.vectors, self.smallest, self.largest):
            raise NeedReplayError("A vector of features is out of range.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        return {
            "vectors": self.vectors,
            "set_at": self._set_at,
            "clock_and_cursor": self._clock_and_cursor,
        }


@partial(jit, reassociate=True)
def dot(rows: AnyArray, row: int, query: FloatArray) -> float:
    """Σ_k rows[row, k] query[k] in float64; taking no slice saves a reference count."""
    total = 0.0
    for k in range(len(query)):
        total += rows[row, k] * query[k]
    return total


@jit
def _dot_rows(rows: AnyArray, which: IntArray, query: FloatArray, out: FloatArray) -> None:
    """out[i] = rows[which[i]] · query."""
    for i in range(len(out)):
        out[i] = dot(rows, which[i], query)


@jit
def _projected(rows: FloatArray) -> FloatArray:
    """φ / |φ|² of each row φ."""
    projected = np.empty_like(rows)
    for i in range(len(rows)):
        projected[i] = _projector(rows[i])
    return projected


@jit
def _clear(vectors: AnyArray, set_at: IntArray, slots: IntArray) -> None:
    """Slots have no features."""
    for i in range(len(slots)):
        vectors[slots[i]] = 0.0
        set_at[slots[i]] = UNKNOWN


@jit
def _set(
    vectors: AnyArray,
    set_at: IntArray,
    slots: IntArray,
    rows: AnyArray,
    clock: int,
    backward: bool,
    smallest: float,
    largest: float,
) -> bool:
    """Store the vectors of ``rows``, all of them or none; returns whether all are in range."""
    new = np.empty(rows.shape, dtype=np.float32)
    for i in range(len(rows)):
        row = rows[i].astype(np.float64)
        if not np.isfinite(row).all():
            return False
        vector = row if backward else _projector(row)
        size = np.abs(vector).max()
        if size > largest:
            return False
        for k in range(len(vector)):
            new[i, k] = vector[k] if size >= smallest else 0.0
    for i in range(len(slots)):
        vectors[slots[i]] = new[i]
        set_at[slots[i]] = clock
    return True


@jit
def _are_stored(vectors: AnyArray, smallest: float, largest: float) -> bool:
    """Whether these are vectors that ``_set`` stores, but for their rounding to float32."""
    for i in range(len(vectors)):
        size = 0.0
        for k in range(vectors.shape[1]):
            if not abs(vectors[i, k]) <= largest * 1.001:
                return False
            size = max(size, abs(vectors[i, k]))
        if size != 0.0 and size < smallest * 0.999:
            return False
    return True


@jit
def _next_known(set_at: IntArray, cursor: int, chosen: IntArray) -> tuple[int, int]:
    """Write the next slots from ``cursor`` on that have features; returns how many, and where."""
    found = 0
    for _ in range(len(set_at)):
        if found == len(chosen):
            break
        if set_at[cursor] != UNKNOWN:
            chosen[found] = cursor
            found += 1
        cursor += 1
        if cursor == len(set_at):
            cursor = 0
    return found, cursor
