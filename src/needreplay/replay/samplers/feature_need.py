"""Sampling by priority and need from features, exactly, without scoring every slot.

Need from features changes for every slot whenever the agent moves. The norm tree finds slots
without a pass over the buffer: it proposes slots by a bound on their scores, and each is accepted
with probability (its score) / (its bound).
"""

from __future__ import annotations

import math

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import combine, power
from needreplay.replay.samplers import norm_tree
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
    warn_unset,
)
from needreplay.replay.samplers.proportional import sample_leaves
from needreplay.replay.sumtree import SumTree
from needreplay.replay.validation import flag

TINY = 1e-200
"""Below this a sum of scores may have lost digits to underflow."""

SPARE = 2.0
"""How many standard deviations more candidates a round tries than it is expected to need."""


class FeatureNeedSampler(NeedSampler):
    """P(j) ∝ priority_j^alpha · max(0, q · v_j)^need_alpha, exactly.

    Forward need (the default): slots have features φ_j, and ``sample`` takes the successor features
    m of the current state. Backward need: slots have successor features m_j, and ``sample`` takes
    the current features φ. ``FeatureStore`` has the equations. Slots without features have need 0.

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
        alpha: see ``NeedSampler`` for this and the following.
        need_alpha: the exponent of need.
        correct_for: what importance weights correct for.
        uniform_mix: the share of the probability that is uniform.
    """

    name = "feature need"

    def __init__(
        self,
        n_features: int,
        *,
        backward: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        self.n_features = check_number("n_features", n_features, int, AT_LEAST_ONE)
        self.backward = flag("backward", backward)
        super().__init__(alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self.features = FeatureStore(
            capacity, self.n_features, backward=self.backward, need_alpha=self.need_alpha
        )
        self._stored |= self.features.arrays()
        self._tree = SumTree(capacity)
        self._keep("tree", self._tree.array)
        self._powers = self._tree.masses
        self._bounds = SumTree(capacity)
        self._keep("bounds", self._bounds.array)
        self._norms = self._keep("norms", np.full(capacity, power(0.0, self.need_alpha)))
        self._end = self._keep("end", np.zeros(1, dtype=np.int64))
        self._candidates = self._keep("candidates", np.zeros(2, dtype=np.int64))
        self._recent_rate = self._keep("recent_rate", np.ones(2))
        self._last_query: FloatArray = np.zeros(self.n_features)
        self._total = 0.0
        self._by_need = self._rejects = False
        self._work: tuple[IntArray, FloatArray] | None = None

    @property
    def acceptance_rate(self) -> float:
        """The share of candidates that were accepted; 1 where there were none."""
        accepted, tried = self._candidates.tolist()
        return accepted / tried if tried else 1.0

    def _set_powers(self, slots: IntArray, powers: FloatArray) -> None:
        self._tree.set(slots, powers)
        self._set_bounds(slots)

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """Set the features of ``slots``, one row each (successor features if ``backward``)."""
        self.features.set(slots, features)
        self._set_norms(slots)

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their need is 0 until their features are set."""
        self.features.clear(slots)
        self._set_norms(slots)

    def _set_empty(self, slots: IntArray) -> None:
        self._tree.set(slots, np.zeros(len(slots)))
        self.place(slots, slots)

    def _set_norms(self, slots: IntArray) -> None:
        """Follow the vectors of ``slots``."""
        end = norm_tree.set_norms(self.features.vectors, slots, self.need_alpha, self._norms)
        self._end[0] = max(self._end[0], end)
        self._set_bounds(slots)

    def _set_bounds(self, slots: IntArray) -> None:
        """Follow the powers and norms of ``slots``."""
        norm_tree.set_bounds(self._bounds.array, self._powers, self._norms, slots)

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
        self._total, self._by_need, self._rejects = self._tree.total, False, False
        if self._total == 0.0:
            self._check_size(size)
            self._counts[UNIFORM] += size
            return self._sample_uniformly(rng.random(size))
        if query is not None and self.need_alpha > 0.0:
            scaled = np.empty(self.n_features)
            if norm_tree.unit(query, scaled):
                sampled = self._sample_by_bound(size, rng, scaled)
                if sampled is not None:
                    return self._corrected(sampled)
        if self.need_alpha > 0.0 and self.features.is_unset:
            warn_unset(self)
        self._counts[BY_PRIORITY if self.need_alpha > 0.0 else BY_SCORE] += size
        slots, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        tree = self._tree.array
        sample_leaves(tree, self._capacity, rng.random(size), False, slots, probabilities)
        return self._corrected(Sampled(slots, probabilities))

    def _corrected(self, sampled: Sampled) -> Sampled:
        """With the probabilities that weights correct for, if for priorities alone."""
        if self.correct_for == "both":
            return sampled
        by_priority = self._powers[sampled.slots] / self._tree.total
        return sampled._replace(corrected=by_priority)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        if self._total == 0.0:
            return Sampled(slots, self._with_share(np.zeros(size)) / self.uniform_mix)
        return self._corrected(Sampled(slots, self._scores(slots) / self._total))

    def _scores(self, slots: IntArray) -> FloatArray:
        """The scores of ``slots`` for the last query."""
        if not self._by_need:
            return self._powers[slots]
        powers = self._powers[slots]
        need = np.maximum(0.0, self.features.need_of(slots, self._last_query)) * (powers > 0.0)
        scores: FloatArray = combine(powers, need, 1.0, self.need_alpha)  # type: ignore[arg-type,assignment]
        return scores

    def _mixed(self, sampled: Sampled, rng: np.random.Generator) -> Sampled:
        if not self._rejects:
            return super()._mixed(sampled, rng)
        if self.uniform_mix == 0.0 or self.correct_for == "both":
            return sampled  # ``_sample_by_bound`` has mixed already
        self._replace_some(sampled.slots, rng)
        known = self.uniform_mix == 1.0
        unknown = np.full(len(sampled.slots), 0.0 if known else np.nan)
        corrected = self._with_share(self._powers[sampled.slots] / self._tree.total)
        return Sampled(sampled.slots, self._with_share(unknown), known, corrected=corrected)

    def _sample_by_bound(
        self, size: int, rng: np.random.Generator, query: FloatArray
    ) -> Sampled | None:
        """Sample by the score; None if no slot can have need.

        With a uniform share that weights correct for, a candidate is uniform with probability
        c / (c + bound), and is then always accepted. So P(j) ∝ score_j + c / N.
        """
        bound = self._bounds.total * norm_tree.SLACK
        if bound == 0.0:
            return None
        self._last_query, self._by_need, self._rejects = query, True, True
        if self.uniform_mix == 1.0:
            return Sampled(self._pick(rng.random(size)), self._with_share(np.zeros(size)))
        share = 0.0
        if self.correct_for == "both":
            share = bound * self._recent_rate[1] * self.uniform_mix / (1.0 - self.uniform_mix)
        slots, scores = np.empty(size, dtype=np.int64), np.empty(size)
        filled, rejected = 0, 0
        most_rejected = size + int(self._end[0]) // norm_tree.SLOTS_PER_CANDIDATE
        while filled < size and rejected <= most_rejected:
            wanted, rate = size - filled, float(self._recent_rate[0])
            if share > 0.0:
                rate = (rate * bound + share) / (bound + share)
            if wanted / rate > wanted + most_rejected:
                break
            likely = (wanted + SPARE * math.sqrt(wanted)) / rate
            shares, luck = rng.random((2, min(math.ceil(likely), wanted + most_rejected)))
            n, accepted, tried = self._try(
                bound, share, shares, luck, slots[filled:], scores[filled:]
            )
            filled += n
            rejected += tried - accepted
            self._note_tried(accepted, tried)
        if filled < size:
            return self._pass_over_all(slots, filled, rng)
        self._counts[BY_SCORE] += size
        return Sampled(slots, scores, normalized=False)

    def _note_tried(self, accepted: int, tried: int) -> None:
        """Count candidates, and follow the rate at which they are accepted."""
        self._candidates += (accepted, tried)
        if tried:
            recent = self._recent_rate
            recent[0] += 0.1 * (max(accepted, 1) / tried - recent[0])
            recent[1] += 0.1 * (accepted / tried - recent[1])

    def _sample_rows(self, queries: FloatArray, rng: np.random.Generator) -> Sampled:
        """One slot for each query: a coin for the uniform share, then candidates of that row.

        A row without need, by priority; one whose candidates are rejected too often, by a pass.
        Only of these is the total score known.
        """
        scaled, size = np.empty_like(queries), len(queries)
        has_need = norm_tree.unit_rows(queries, scaled) & (self._bounds.total > 0.0)
        without = np.flatnonzero(~has_need)
        if len(without) == size:
            return self._mixed(self._sample(size, rng, None), rng)
        slots, unknown = np.full(size, norm_tree.NONE), np.nan if self.uniform_mix < 1.0 else 0.0
        probabilities = self._with_share(np.full(size, unknown))
        if len(without):
            by_priority = self._mixed(self._sample(len(without), rng, None), rng)
            slots[without], probabilities[without] = by_priority[:2]
        coins, uniforms = rng.random((2, size))
        shared = has_need & (coins < self.uniform_mix)
        slots[shared] = self._pick(uniforms[shared])
        self._try_rows(scaled, np.flatnonzero(slots == norm_tree.NONE), slots, rng)
        self._counts[BY_SCORE] += np.count_nonzero(slots[has_need] != norm_tree.NONE)
        for row in np.flatnonzero(slots == norm_tree.NONE):
            self._last_query = scaled[row]
            one = self._pass_over_all(slots[row : row + 1], 0, rng)
            probabilities[row] = self._with_share(one.probabilities[0])
        corrected = self._with_share(self._powers[slots] / self._tree.total)
        known = not np.isnan(probabilities).any()
        return Sampled(slots, probabilities, known, corrected=corrected)

    def _try_rows(
        self, queries: FloatArray, rows: IntArray, slots: IntArray, rng: np.random.Generator
    ) -> None:
        """Accepted candidates for ``rows``; leaves those to a pass for which that costs less."""
        most_rejected = norm_tree.AT_A_TIME + int(self._end[0] // norm_tree.SLOTS_PER_CANDIDATE)
        rejected = np.zeros(len(slots), dtype=np.int64)
        stored = self._bounds.array, self._norms, self.features.vectors
        while len(rows) and 1.0 / self._recent_rate[0] <= 1 + most_rejected:
            likely = (len(rows) + SPARE * math.sqrt(len(rows))) / float(self._recent_rate[0])
            shares, luck = rng.random((2, min(math.ceil(likely), len(rows) + most_rejected)))
            random = shares, luck
            waiting, accepted, tried = norm_tree.try_rows(
                *stored, queries, self.need_alpha, *random, most_rejected, rows, rejected, slots
            )
            self._note_tried(accepted, tried)
            rows = rows[:waiting]

    def _try(
        self,
        bound: float,
        share: float,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
    ) -> tuple[int, int, int]:
        """One candidate for each of ``shares``; accepted ones fill ``slots`` and ``scores``.

        Returns how many slots were filled, and how many candidates of the tree were accepted and
        tried.
        """
        stored = self._bounds.array, self._powers, self._norms, self.features.vectors
        how = *stored, self._last_query, self.need_alpha
        if share == 0.0:
            places = np.empty(len(slots), dtype=np.int64)
            accepted, tried = norm_tree.try_candidates(*how, shares, luck, slots, scores, places)
            return accepted, accepted, tried
        targets = shares * (bound + share)
        uniform, by_tree = np.flatnonzero(targets < share), np.flatnonzero(targets >= share)
        from_tree, places = np.empty((2, len(by_tree)), dtype=np.int64)
        tree_shares, tree_scores = (targets[by_tree] - share) / bound, np.empty(len(by_tree))
        accepted, tried = norm_tree.try_candidates(
            *how, tree_shares, luck[by_tree], from_tree, tree_scores, places
        )
        picked = self._pick(targets[uniform] / share)
        first = np.argsort(np.concatenate([by_tree[places[:accepted]], uniform]))[: len(slots)]
        slots[: len(first)] = np.concatenate([from_tree[:accepted], picked])[first]
        both = np.concatenate([tree_scores[:accepted], self._scores(picked)])
        scores[: len(first)] = both[first] + share / int(self._window[1])
        return len(first), accepted, tried

    def _pass_over_all(self, slots: IntArray, begin: int, rng: np.random.Generator) -> Sampled:
        """Fill the slots from ``begin`` on by a pass over the buffer, which knows the total.

        With a uniform share, all slots: ``_mixed`` adds the share now that the total is known.
        """
        if self.uniform_mix > 0.0:
            begin = 0
        if self._work is None:
            self._work = np.empty(self._capacity, dtype=np.int64), np.empty(self._capacity)
        some, cumulative = self._work
        powers, vectors = self._powers[: self._end[0]], self.features.vectors
        for reachable in (False, True):
            if reachable:
                # The query's largest entries are of features that no slot has.
                entries = np.where(vectors.any(axis=0), self._last_query, 0.0)
                norm_tree.unit(entries, self._last_query)
            how = self._last_query, self.need_alpha
            n, largest = norm_tree.score_all(powers, vectors, *how, some, cumulative)
            if n == 0 or largest > TINY:
                break
        self._total, self._by_need = float(cumulative[n - 1]) if n else 0.0, True
        self._rejects = False
        uniforms = rng.random(len(slots) - begin)
        self._counts[BY_SCORE] += begin
        if self._total == 0.0:
            none = np.zeros(self._capacity)
            scores, self._total, found = score_slots(self._powers, none, 1.0, self.occupied)
            slots[begin:], self._by_need = slots_at(scores, uniforms), False
            self._counts[found] += len(uniforms)
            return Sampled(slots, scores[slots] / self._total)
        slots[begin:] = some[places_at(cumulative[:n], uniforms)]
        self._last_query = self._last_query / largest
        self._counts[EXHAUSTIVE] += len(uniforms)
        bound = self._bounds.total * norm_tree.SLACK
        rate = self._total * largest**self.need_alpha / bound
        self._recent_rate[0] += 0.1 * (max(rate, 1.0 / (self._capacity + 1)) - self._recent_rate[0])
        self._recent_rate[1] = rate
        return Sampled(slots, self._scores(slots) / self._total)

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        self._check_powers(self._powers)
        self._tree.check_valid()
        self.features.check_valid()
        accepted, tried = self._candidates.tolist()
        expected, recent = self._recent_rate.tolist()
        if not (
            0 <= accepted <= tried < 2**62 and 1e-12 < expected <= 1.0 and 0.0 <= recent <= 1.1
        ):
            raise NeedReplayError("More candidates were accepted than tried.")
        vectors = self.features.vectors
        end = int(self._end[0])
        if not 0 <= end <= self._capacity or vectors[end:].any():
            raise NeedReplayError("A slot beyond the end of those with features has some.")
        self._bounds.check_valid()
        norms = np.empty(self._capacity)
        norm_tree.set_norms(vectors, np.arange(self._capacity), self.need_alpha, norms)
        if not np.array_equal(norms, self._norms):
            raise NeedReplayError("A slot's norm is not that of its vector.")
        if not np.array_equal(self._bounds.masses, self._powers * norms):
            raise NeedReplayError("A leaf of the bounds is not its slot's power times its norm.")
