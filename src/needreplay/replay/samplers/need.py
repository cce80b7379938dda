"""What the samplers by need share: their base class, and the need of slots.

Need is one number per slot, one per state, or an inner product with features.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Literal, NamedTuple

import numpy as np

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown, warn
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay._kernels.features import Features, projected
from needreplay.replay.samplers.base import PrioritySampler, Sampled, check_counts
from needreplay.replay.storage import aligned_rows
from needreplay.replay.validation import as_features, check_need, flag, is_within

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


def checked_correct_for(correct_for: CorrectFor) -> CorrectFor:
    """What importance weights correct for, or raise."""
    if correct_for not in ("both", "gain"):
        raise unknown("correct_for", correct_for, ("both", "gain"))
    return correct_for


def backward_or_raw(backward: bool, raw: bool) -> tuple[bool, bool]:
    """How vectors are stored and queried, or raise."""
    if flag("backward", backward) and flag("raw", raw):
        raise NeedReplayError(
            "backward and raw are both True; raw need has no direction: choose one of them."
        )
    return bool(backward), flag("raw", raw)


class Fallbacks(NamedTuple):
    """How many slots were sampled each way since the sampler was made."""

    by_score: int
    by_priority: int
    uniform: int
    exhaustive: int


def warn_unset(sampler: NeedSampler) -> None:
    """Warn, once for each sampler, that need is 0 because no slot has a state or features."""
    if not getattr(sampler, "_warned_unset", False):
        sampler._warned_unset = True
        warn(
            f"No transition in this buffer has a state or features, so every need is 0 and the "
            f"{sampler.name} sampler samples by priority alone. Pass state= or features= to add, "
            "or call set_states or set_features (shown once)."
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

    @property
    def described(self) -> BoolArray | None:
        """Which slots have the state or features that need is read from; None if it needs none."""
        return None

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


def vector_range(n_features: int, need_alpha: float) -> tuple[float, float]:
    """What the largest entry of a vector may be, so that |v|^need_alpha is from 1e-150 to 1e150."""
    widest = 1e150 ** (1.0 / max(need_alpha, 1.0))
    smallest = max(MIN_FEATURE, 1.0 / widest)
    largest = min(MAX_FEATURE, widest / np.sqrt(n_features))
    if largest < 10.0 * smallest:
        raise NeedReplayError(
            f"need_alpha is {need_alpha:g}: |v|^need_alpha of a vector of {n_features} features "
            "overflows or underflows for nearly every v. Pass a smaller one; 1 to 10 is usual."
        )
    return smallest, float(largest)


class FeatureStore:
    """A vector v_j for every slot, in float32, such that need_j = q · v_j for a query q.

    Forward need, how much the current state leads to slot j: the caller sets features φ_j, and the
    store holds v_j = φ_j / |φ_j|²; the query is m, the successor features of the current state.
    Backward need, how much slot j leads to the current state: the caller sets successor features
    m_j, stored as they are; the query is φ / |φ|² of the current features φ. Either way the caller
    passes φ and m as they are. ``raw``: vectors and queries are what is passed, and need is their
    inner product. φ = 0 has need 0, and so has a slot without features.

    Args:
        capacity: how many slots there are.
        n_features: how many features each has.
        backward: see above.
        raw: see above.
        need_alpha: the exponent of need; above 4 it narrows the range of the vectors.
    """

    def __init__(
        self,
        capacity: int,
        n_features: int,
        *,
        backward: bool = False,
        raw: bool = False,
        need_alpha: float = 1.0,
    ) -> None:
        self.n_features, self.backward, self.raw = n_features, backward, raw
        self.smallest, self.largest = vector_range(n_features, need_alpha)
        self.vectors = aligned_rows(capacity, 4 * n_features).view(np.float32)
        self._set_at = np.full(capacity, UNKNOWN, dtype=np.int64)
        self._clock_and_cursor = np.zeros(2, dtype=np.int64)
        self._any_set = False
        how = not (backward or raw), MIN_FEATURE, self.smallest, self.largest
        self.kernel = Features(self.arrays(), *how)

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
        self.kernel.set(slots, self.checked(features, len(slots)))

    def checked(self, features: AnyArray, count: int | None = None) -> FloatArray:
        """Features, one row for each of ``count`` slots, as a kernel takes them, or raise."""
        rows = as_features(features)
        if count is not None and rows.shape != (count, self.n_features):
            raise NeedReplayError(
                f"features has shape {rows.shape}; give {self.n_features} features for each of "
                f"{count} slots. Nothing was changed."
            )
        if not self.kernel.are_fine(rows):
            raise NeedReplayError(
                "features holds NaN or infinity, or a row whose largest entry is below "
                f"{self.smallest:.3g} or beyond {self.largest:.3g} (a row is divided by its square "
                "if need is forward; need_alpha above 4 narrows the range); scale them. Nothing "
                "was changed."
            )
        return rows

    def clear(self, slots: IntArray) -> None:
        """Remove the features of ``slots``: their need is 0 until new ones are set."""
        self.kernel.clear(slots)

    def query(self, need: AnyArray | None, size: int | None = None) -> FloatArray:
        """The vector q for what was passed to ``sample``, or one for each of ``size`` rows."""
        given = check_need(need, self.n_features, "one for each feature", size)
        return projected(given) if self.backward else given

    def need_of(self, slots: IntArray, query: FloatArray) -> FloatArray:
        """q · v_j of ``slots``, also where it is negative."""
        need: FloatArray = self.kernel.need_of(slots, query)
        return need

    def tick(self) -> None:
        """Count one more batch: every vector is one batch older."""
        self._clock_and_cursor[0] += 1

    @property
    def oldest_age(self) -> int:
        """How many batches ago the oldest vector was set; 0 where none was. O(N)."""
        known = self._set_at[self.known]
        return int(self._clock_and_cursor[0] - known.min()) if len(known) else 0

    def are_first(self, slots: IntArray) -> bool:
        """Whether it seems that no vector of ``slots`` (oldest first) was set again.

        None was chosen to be refreshed, and they were set in the order in which they came.
        """
        set_at = self._set_at[slots]
        in_order = (np.diff(set_at[set_at != UNKNOWN]) >= 0).all()
        return bool(in_order and self._clock_and_cursor[1] == 0)

    def next_to_refresh(self, count: int) -> IntArray:
        """The next ``count`` slots that have features, in turn, for the caller to refresh.

        With r slots at each update, all are renewed every N / r updates.
        """
        chosen: IntArray = self.kernel.next_known(min(count, len(self._set_at)))
        return chosen

    def check_valid(self) -> None:
        """Raise unless vectors are ones that ``set`` stores, and known where they were set."""
        clock, cursor = self._clock_and_cursor.tolist()
        unset = ~self.known
        if not (0 <= cursor <= max(0, len(unset) - 1) and 0 <= clock < 2**62):
            raise NeedReplayError("The clock or the cursor of the features is out of range.")
        if not is_within(self._set_at, UNKNOWN, clock + 1) or self.vectors[unset].any():
            raise NeedReplayError("Features were set that are not known, or in the future.")
        sizes = np.abs(self.vectors).max(axis=1, initial=0.0)
        low, high = self.smallest * 0.999, self.largest * 1.001  # of their rounding to float32
        if not np.all((sizes == 0.0) | ((sizes >= low) & (sizes <= high))):
            raise NeedReplayError("A vector of features is out of range.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        return {
            "vectors": self.vectors,
            "set_at": self._set_at,
            "clock_and_cursor": self._clock_and_cursor,
        }
