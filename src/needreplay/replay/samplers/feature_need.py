"""Sampling by priority and need from features, exactly, without scoring every slot.

Need from features changes for every slot whenever the agent moves. Slots are found without a pass
over the buffer: proposed by a bound on their scores, which depends on the length and the direction
of their vectors, and accepted with probability (its score) / (its bound).
"""

from __future__ import annotations

import math

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.equations import combine, power
from needreplay.replay._kernels.directions import Directions, empty_directions, n_groups
from needreplay.replay._kernels.feature_need import FeatureNeed
from needreplay.replay._kernels.features import unit_rows
from needreplay.replay._kernels.groups import Groups, empty_groups
from needreplay.replay._kernels.sumtree import SumTree
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.exhaustive import places_at, score_slots, slots_at
from needreplay.replay.samplers.need import (
    BY_PRIORITY,
    BY_SCORE,
    EXHAUSTIVE,
    UNIFORM,
    CorrectFor,
    FeatureStore,
    NeedSampler,
    backward_or_raw,
    warn_unset,
)

TINY = 1e-200
"""Below this a sum of scores may have lost digits to underflow."""

SLOTS_PER_CANDIDATE = 8
"""How many slots a pass over the buffer scores in the time of one candidate, which is read from a
random address."""

CANDIDATES_OF_A_ROW = 32
"""How many candidates of a row are tried in any case, however small the buffer."""

NONE = -1
"""The slot of a row that has none yet."""

SPARE = 2.0
"""How many standard deviations more candidates a round tries than it is expected to need."""


class _Last:
    """The batch that was just sampled: its query, and what its probabilities are relative to."""

    query: FloatArray
    total = 0.0
    by_need = False
    rejects = False


class FeatureNeedSampler(NeedSampler):
    """P(j) ∝ priority_j^alpha · max(0, q · v_j)^need_alpha, exactly.

    Forward need (the default): slots have features φ_j, and ``sample`` takes the successor features
    m of the current state. Backward need: slots have successor features m_j, and ``sample`` takes
    the current features φ. ``raw``: need is q · v_j of what is passed. ``FeatureStore`` has the
    equations. Slots without features have need 0.

    Probabilities are right up to a constant. Where so few candidates are accepted that a pass over
    the buffer costs less, slots are sampled by that pass: ``fallbacks.exhaustive`` counts these
    slots, and ``acceptance_rate`` is how many candidates are accepted.

    The sampler knows the total score S of a query only where it passes over the buffer. With
    ``uniform_mix`` the share is exact, and other probabilities are NaN. Weights that correct for
    "both" depend on them, so S is then estimated from the recent acceptance rate: scores become
    score_j + c / N with c = S mix / (1 - mix), and slots are sampled exactly by these. Weights are
    exact, and the share is approximately ``uniform_mix``.

    A query for each slot raises with ``correct_for="both"``. Each slot whose candidates are
    rejected too often takes a pass of its own.

    Args:
        n_features: how many features there are.
        backward: see above.
        raw: see above.
        alpha: see ``NeedSampler`` for this and the following.
        need_alpha: the exponent of need.
        correct_for: what importance weights correct for.
        uniform_mix: the share of the probability that is uniform.
    """

    name = "feature need"
    _compiled = True

    def __init__(
        self,
        n_features: int,
        *,
        backward: bool = False,
        raw: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        self.n_features = check_number("n_features", n_features, int, AT_LEAST_ONE)
        self.backward, self.raw = backward_or_raw(backward, raw)
        super().__init__(alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self.features = FeatureStore(
            capacity,
            self.n_features,
            backward=self.backward,
            raw=self.raw,
            need_alpha=self.need_alpha,
        )
        self._stored |= self.features.arrays()
        self._tree = SumTree(capacity)
        self._keep("tree", self._tree.array)
        self._powers: FloatArray = self._tree.masses
        directions = empty_directions(self.n_features)
        places, self._derived, self._bounds = empty_groups(capacity, n_groups(directions))
        self._stored |= directions | places
        self._norms: FloatArray = np.zeros(capacity)
        self._end = self._keep("end", np.zeros(1, dtype=np.int64))
        self._candidates = self._keep("candidates", np.zeros(2, dtype=np.int64))
        self._recent_rates = self._keep("recent_rates", np.ones((2, 2)))
        self._groups = Groups(places | self._derived, self._bounds)
        self._directions = Directions(directions, self.features.kernel, self._groups)
        arrays, alphas = {**self._bound, "norms": self._norms}, (self.alpha, self.need_alpha)
        parts = self._tree, self._directions
        self._kernel = FeatureNeed(arrays, capacity, self._follows_window, *alphas, *parts)
        self._last = _Last()
        self._work: tuple[IntArray, FloatArray] | None = None

    @property
    def described(self) -> BoolArray:
        """Which slots have features. O(N)."""
        return self.features.known

    @property
    def acceptance_rate(self) -> float:
        """The share of candidates that were accepted; 1 where there were none."""
        accepted, tried = self._candidates.tolist()
        return accepted / tried if tried else 1.0

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """Set the features of ``slots``, one row each (successor features if ``backward``)."""
        self._kernel.set_features(slots, self.features.checked(features, len(slots)))

    def _query(self, need: AnyArray | None, size: int) -> FloatArray | None:
        if need is None and self.need_alpha == 0.0:
            query = None
        else:
            query = self.features.query(need, size)
            if query.ndim == 2 and self.need_alpha > 0.0 and self.correct_for == "both":
                raise NeedReplayError(
                    f"need has shape {query.shape}, a query for each row, and this sampler has "
                    'correct_for="both": such weights require the total score of every query, '
                    "which it does not know. Pass one query, or make the sampler with "
                    'correct_for="gain". Nothing was sampled.'
                )
        self.features.tick()
        return query

    def _sample(self, size: int, rng: np.random.Generator, query: AnyArray | None) -> Sampled:
        self._last.total, self._last.by_need, self._last.rejects = self._tree.total, False, False
        if self._last.total == 0.0:
            self._check_size(size)
            self._counts[UNIFORM] += size
            return self._sample_uniformly(rng.random(size))
        if query is not None and self.need_alpha > 0.0:
            scaled, positive = unit_rows(query)
            if positive[0]:
                sampled = self._sample_by_bound(size, rng, scaled)
                if sampled is not None:
                    return sampled
        if self.need_alpha > 0.0 and self.features.is_unset:
            warn_unset(self)
        self._counts[BY_PRIORITY if self.need_alpha > 0.0 else BY_SCORE] += size
        return self._corrected(Sampled(*self._tree.sample(rng.random(size))))

    def _corrected(self, sampled: Sampled) -> Sampled:
        """With the probabilities that weights correct for, if for priorities alone."""
        if self.correct_for == "both":
            return sampled
        by_priority = self._powers[sampled.slots] / self._tree.total
        return sampled._replace(corrected=by_priority)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        if self._last.total == 0.0:
            return Sampled(slots, self._with_share(np.zeros(size)) / self.uniform_mix)
        return self._corrected(Sampled(slots, self._scores(slots) / self._last.total))

    def _scores(self, slots: IntArray) -> FloatArray:
        """The scores of ``slots`` for the last query."""
        powers: FloatArray = self._powers[slots]
        if not self._last.by_need:
            return powers
        need = np.maximum(0.0, self.features.need_of(slots, self._last.query)) * (powers > 0.0)
        scores: FloatArray = combine(powers, need, 1.0, self.need_alpha)  # type: ignore[arg-type,assignment]
        return scores

    def _mixed(self, sampled: Sampled, rng: np.random.Generator) -> Sampled:
        # ``_sample_by_bound`` has mixed already.
        return sampled if self._last.rejects else super()._mixed(sampled, rng)

    def _sample_by_bound(
        self, size: int, rng: np.random.Generator, query: FloatArray
    ) -> Sampled | None:
        """Sample by the score; None if no slot can have need.

        With a uniform share that weights correct for, a candidate is uniform with probability
        c / (c + bound), and is then always accepted. So P(j) ∝ score_j + c / N.
        """
        if self._kernel.total_norm() == 0.0:
            return None
        self._last.query, self._last.by_need, self._last.rejects = query, True, True
        if self.uniform_mix == 1.0:
            return Sampled(self._pick(rng.random(size)), self._with_share(np.zeros(size)))
        most_rejected = size + int(self._end[0] // SLOTS_PER_CANDIDATE)
        how = self.uniform_mix, self.correct_for == "both", most_rejected
        bits = rng.bit_generator.capsule
        slots, scores, corrected, filled = self._kernel.sample(query, size, bits, *how)
        if filled < size:
            rates, bound = self._recent_rates[0], self._kernel.bound
            return self._corrected(self._pass_over_all(slots, filled, rng, rates, bound))
        self._counts[BY_SCORE] += size
        return Sampled(slots, scores, normalized=False, corrected=corrected)

    def _sample_rows(self, queries: FloatArray, rng: np.random.Generator) -> Sampled:
        """One slot for each query: a coin for the uniform share, then candidates of that row.

        A row without need, by priority; one whose candidates are rejected too often, by a pass.
        Only of these is the total score known.
        """
        (scaled, positive), size = unit_rows(queries), len(queries)
        has_need = positive & (self._kernel.total_norm() > 0.0)
        without = np.flatnonzero(~has_need)
        if len(without) == size:
            return self._mixed(self._sample(size, rng, None), rng)
        slots, unknown = np.full(size, NONE), np.nan if self.uniform_mix < 1.0 else 0.0
        probabilities = self._with_share(np.full(size, unknown))
        if len(without):
            by_priority = self._mixed(self._sample(len(without), rng, None), rng)
            slots[without], probabilities[without] = by_priority[:2]
        coins, uniforms = rng.random((2, size))
        shared = has_need & (coins < self.uniform_mix)
        slots[shared] = self._pick(uniforms[shared])
        self._try_rows(scaled, np.flatnonzero(slots == NONE), slots, rng)
        self._counts[BY_SCORE] += np.count_nonzero(slots[has_need] != NONE)
        for row in np.flatnonzero(slots == NONE):
            self._last.query = scaled[row]
            rates, bound = self._recent_rates[1], self._kernel.total_norm()
            one = self._pass_over_all(slots[row : row + 1], 0, rng, rates, bound)
            probabilities[row] = self._with_share(one.probabilities[0])
        corrected = self._with_share(self._powers[slots] / self._tree.total)
        known = not np.isnan(probabilities).any()
        return Sampled(slots, probabilities, known, corrected=corrected)

    def _try_rows(
        self, queries: FloatArray, rows: IntArray, slots: IntArray, rng: np.random.Generator
    ) -> None:
        """Accepted candidates for ``rows``; leaves those to a pass for which that costs less."""
        most_rejected = CANDIDATES_OF_A_ROW + int(self._end[0] // SLOTS_PER_CANDIDATE)
        rejected = np.zeros(len(slots), dtype=np.int64)
        rates = self._recent_rates[1]
        while len(rows) and 1.0 / rates[0] <= 1 + most_rejected:
            likely = (len(rows) + SPARE * math.sqrt(len(rows))) / float(rates[0])
            shares, luck = rng.random((2, min(math.ceil(likely), len(rows) + most_rejected)))
            waiting = self._kernel.try_rows(
                queries, shares, luck, most_rejected, rows, rejected, slots
            )
            rows = rows[:waiting]

    def _pass_over_all(
        self,
        slots: IntArray,
        begin: int,
        rng: np.random.Generator,
        rates: FloatArray,
        bound: float,
    ) -> Sampled:
        """Fill the slots from ``begin`` on by a pass over the buffer, which knows the total.

        With a uniform share, all slots: ``_mixed`` adds the share now that the total is known.
        ``rates`` follow the rate at which candidates for this ``bound`` would have been accepted.
        """
        if self.uniform_mix > 0.0:
            begin = 0
        if self._work is None:
            self._work = np.empty(self._capacity, dtype=np.int64), np.empty(self._capacity)
        some, cumulative = self._work
        for reachable in (False, True):
            if reachable:
                # The query's largest entries are of features that no slot has.
                entries = np.where(self.features.vectors.any(axis=0), self._last.query, 0.0)
                self._last.query, _ = unit_rows(entries)
            n, largest = self._kernel.score_all(self._last.query, some, cumulative)
            if n == 0 or largest > TINY:
                break
        self._last.total, self._last.by_need = float(cumulative[n - 1]) if n else 0.0, True
        self._last.rejects = False
        uniforms = rng.random(len(slots) - begin)
        self._counts[BY_SCORE] += begin
        if self._last.total == 0.0:
            none = np.zeros(self._capacity)
            scores, self._last.total, found = score_slots(self._powers, none, 1.0, self.occupied)
            slots[begin:], self._last.by_need = slots_at(scores, uniforms), False
            self._counts[found] += len(uniforms)
            return Sampled(slots, scores[slots] / self._last.total)
        slots[begin:] = some[places_at(cumulative[:n], uniforms)]
        self._last.query = self._last.query / largest
        self._counts[EXHAUSTIVE] += len(uniforms)
        rate = (
            min(self._last.total * largest**self.need_alpha / bound, 1.0) if bound > TINY else 0.0
        )
        rates[0] += 0.1 * (max(rate, 1.0 / (self._capacity + 1)) - rates[0])
        rates[1] = rate
        return Sampled(slots, self._scores(slots) / self._last.total)

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        self._check_powers(self._powers)
        self._tree.check_valid()
        self.features.check_valid()
        accepted, tried = self._candidates.tolist()
        rates = self._recent_rates
        if not (
            0 <= accepted <= tried < 2**62
            and ((rates[:, 0] > 1e-12) & (rates[:, 0] <= 1.0)).all()
            and ((rates[:, 1] >= 0.0) & (rates[:, 1] <= 1.0)).all()
        ):
            raise NeedReplayError("More candidates were accepted than tried.")
        vectors = self.features.vectors
        end = int(self._end[0])
        if not 0 <= end <= self._capacity or vectors[end:].any():
            raise NeedReplayError("A slot beyond the end of those with features has some.")
        self._check_groups()

    def _check_groups(self) -> None:
        """Raise unless each slot with a vector is in the group of its direction."""
        place, axes, (count, retiring) = (self._stored[n] for n in ("place", "axes", "axis_counts"))
        lengths = np.sqrt((self.features.vectors.astype(np.float64) ** 2).sum(axis=1))
        if not (0 <= count <= len(axes) and 0 <= retiring < len(axes)):
            raise NeedReplayError("The number of axes is out of range.")
        if not (np.isfinite(axes).all() and axes[:count].any(axis=1).all()):
            raise NeedReplayError("An axis has no direction.")
        if not np.array_equal(place != NONE, lengths > 0.0):
            raise NeedReplayError("A slot is in a group without a vector, or the reverse.")
        self._groups.check_valid()
        wrong = self._directions.first_wrong()
        if wrong != NONE:
            raise NeedReplayError(f"Slot {wrong} is not in the group of its direction.")
        slots = np.flatnonzero(place != NONE)
        norms = power(lengths[slots], self.need_alpha)
        # A tolerance, because a file may come from a processor with another power.
        if not np.allclose(norms, self._norms[slots], 1e-12, 0.0):
            raise NeedReplayError("A slot's norm is not that of its vector.")
        masses = self._bounds.masses[place[slots]]
        if not np.array_equal(masses, self._powers[slots] * self._norms[slots]):
            raise NeedReplayError("A leaf of the bounds is not its slot's power times its norm.")

    def restore(self) -> None:
        """Derive what is not saved, after a file was read into the arrays."""
        self._kernel.restore()

    @property
    def derived_nbytes(self) -> int:
        """Bytes of the groups' leaves and norms, which follow from places and vectors."""
        derived = (self._bounds.array, self._norms, *self._derived.values())
        return sum(array.nbytes for array in derived)
