"""Sampling by priority and need from features, exactly, without scoring every slot.

Need from features changes for every slot whenever the agent moves. A tree proposes slots by a bound
on their scores, and a slot is accepted with probability (its score) / (its bound): exact for any
bound. The norm tree and the vector tree differ in how they propose.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import EMPTY, Sampled, powers_of
from needreplay.replay.samplers.exhaustive import score_slots, slots_at
from needreplay.replay.samplers.need_sampler import (
    BY_PRIORITY,
    BY_SCORE,
    EXHAUSTIVE,
    UNIFORM,
    CorrectFor,
    NeedSampler,
)
from needreplay.replay.samplers.norm_tree import NormTree
from needreplay.replay.samplers.slot_need import LARGEST, FeatureStore
from needreplay.replay.samplers.vector_tree import VectorTree
from needreplay.rules.priority import combine

_NO_LUCK = np.zeros(0)


class Proposal(Protocol):
    """What a batch is sampled by: score = priority^alpha · max(0, ``query`` · v)^``need_alpha``.

    ``bound`` is above the sum of all scores. With ``exact`` it is that sum, slots are proposed by
    their very scores, and none is rejected.
    """

    @property
    def query(self) -> FloatArray: ...  # noqa: D102

    @property
    def need_alpha(self) -> float: ...  # noqa: D102

    @property
    def bound(self) -> float: ...  # noqa: D102

    @property
    def exact(self) -> bool: ...  # noqa: D102


class Tree(Protocol):
    """Proposes slots; ``powers`` are priority^alpha.

    ``spare`` is how many standard deviations more candidates a round gets than it is expected to
    need; a tree that stops as soon as all slots are filled can afford some.
    """

    spare: float
    powers: FloatArray

    @property
    def total_power(self) -> float: ...  # noqa: D102
    def set_powers(self, slots: IntArray, powers: FloatArray) -> None: ...  # noqa: D102
    def update_vectors(self, slots: IntArray) -> None: ...  # noqa: D102
    def by_priority(self) -> Proposal: ...  # noqa: D102
    def by_score(self, query: FloatArray) -> Proposal | None: ...  # noqa: D102
    def most_rejected(self, size: int) -> int: ...  # noqa: D102
    def check_valid(self) -> None: ...  # noqa: D102
    def arrays(self) -> dict[str, AnyArray]: ...  # noqa: D102

    def try_candidates(
        self,
        proposal: Any,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
        places: IntArray,
    ) -> tuple[int, int]:
        """A candidate for each share; accepted ones fill ``slots``, ``scores`` and ``places``.

        ``places[i]`` says which candidate ``slots[i]`` was. Returns how many were accepted and how
        many tried. May stop when all slots are filled, or accept more than there are.
        """
        ...


class FeatureNeedSampler(NeedSampler):
    """P(j) ∝ priority_j^alpha · max(0, q · v_j)^need_alpha, exactly.

    Forward need (the default): slots have features φ_j, and ``sample`` takes the successor features
    m of the current state. Backward need: slots have successor features m_j, and ``sample`` takes
    the current features φ. ``FeatureStore`` has the equations. Slots without features have need 0.

    After about as many rejections as a pass over the buffer costs, the rest of the batch is sampled
    by that pass: ``fallbacks.exhaustive`` counts these slots, ``acceptance_rate`` the others.
    Probabilities are normalized where nothing can be rejected, and otherwise right up to a constant.

    With ``uniform_mix`` and rejections, the total score S is only estimated, from the recent
    acceptance rate. Scores become score_j + c / N with c = S mix / (1 - mix), and slots are sampled
    exactly by these: weights are exact, and the uniform share is approximately ``uniform_mix``.

    Args:
        n_features: how many features there are.
        nonnegative: promise that features are not negative (ReLU, one-hot, probabilities): a tree
            of vectors then finds the slots that have need, however few they are, and at need_alpha
            1 rejects none. Otherwise features have any sign, and a tree of norms proposes slots,
            which is faster where most slots have some need.
        backward: see above.
        alpha: see ``NeedSampler`` for this and the following.
        need_alpha: the exponent of need; at most 1 with ``nonnegative``.
        correct_for: what importance weights correct for.
        uniform_mix: the share of the probability that is uniform.
    """

    name = "feature need"

    def __init__(
        self,
        n_features: int,
        *,
        nonnegative: bool = False,
        backward: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 0.6,
        correct_for: CorrectFor = "both",
        uniform_mix: float = 0.0,
    ) -> None:
        self.n_features = n_features
        self.nonnegative = nonnegative
        self.backward = backward
        super().__init__(alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self.features = FeatureStore(
            capacity,
            self.n_features,
            backward=self.backward,
            nonnegative=self.nonnegative,
            largest=LARGEST if self.need_alpha <= 2.0 else 1e60 ** (1.0 / self.need_alpha),
        )
        make = VectorTree if self.nonnegative else NormTree
        self._tree: Tree = make(self.features.vectors, self.need_alpha)
        self._candidates: IntArray = np.zeros(2, dtype=np.int64)
        self._recent_rate: FloatArray = np.ones(1)

    @property
    def acceptance_rate(self) -> float:
        """The share of candidates that were accepted; 1 before there were any."""
        accepted, tried = self._candidates.tolist()
        return accepted / tried if tried else 1.0

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> IntArray | None:
        """Set raw priorities; empty slots become occupied."""
        super().set_priorities(slots, priorities)
        self._priorities[slots] = priorities
        self._tree.set_powers(slots, powers_of(priorities, self.alpha))
        return None

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """Set the features of ``slots``, one row each (successor features if ``backward``)."""
        self.features.set(slots, features)
        self._tree.update_vectors(slots)

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their need is 0 until their features are set."""
        self.features.clear(slots)
        self._tree.update_vectors(slots)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        super().clear(slots)
        self._priorities[slots] = EMPTY
        self._tree.set_powers(slots, np.zeros(len(slots)))
        self.place(slots, slots)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        ignores_need = self.need_alpha == 0.0
        query = None if need is None and ignores_need else self.features.query(need)
        self.features.tick()
        proposal, found = self._propose(None if ignores_need else query, ignores_need)
        if found == UNIFORM:
            self._check_size(size)
            self._counts[UNIFORM] += size
            return self._sample_uniformly(rng.random(size))
        if self.uniform_mix == 1.0:
            return Sampled(self._pick(rng.random(size)), self._with_share(np.zeros(size)))
        share = self._uniform_score(proposal)
        slots, scores = np.empty(size, dtype=np.int64), np.empty(size)
        filled = self._fill(proposal, share, rng, slots, scores)
        self._counts[found] += filled
        if filled < size:
            sampled = self._pass_over_all(slots, filled, proposal, share, rng)
        elif proposal.exact:
            sampled = Sampled(slots, scores / (proposal.bound + share))
        else:
            sampled = Sampled(slots, scores, normalized=False)
        if self.correct_for == "both":
            return sampled
        by_priority = self._tree.powers[slots] / self._tree.total_power
        return sampled._replace(corrected=self._with_share(by_priority))

    def _mixed(self, sampled: Sampled, rng: np.random.Generator) -> Sampled:  # noqa: ARG002
        return sampled  # ``_sample`` mixes, because the total of the scores is not known

    def _at(self, slots: IntArray, size: int) -> Sampled:
        raise NotImplementedError

    def _propose(self, query: FloatArray | None, ignores_need: bool) -> tuple[Proposal, int]:
        """What to sample by, and what that is."""
        proposal = None if query is None else self._tree.by_score(query)
        if proposal is not None:
            return proposal, BY_SCORE
        by_priority = self._tree.by_priority()
        if by_priority.bound == 0.0:
            return by_priority, UNIFORM
        return by_priority, BY_SCORE if ignores_need else BY_PRIORITY

    def _uniform_score(self, proposal: Proposal) -> float:
        """c: what the uniform share adds to the total of the scores."""
        if self.uniform_mix == 0.0:
            return 0.0
        total = proposal.bound * (1.0 if proposal.exact else float(self._recent_rate[0]))
        return total * self.uniform_mix / (1.0 - self.uniform_mix)

    def _fill(
        self,
        proposal: Proposal,
        share: float,
        rng: np.random.Generator,
        slots: IntArray,
        scores: FloatArray,
    ) -> int:
        """Fill the slots with accepted candidates; returns how many, if a pass becomes cheaper.

        A round tries as many candidates as are probably enough, by the recent rounds.
        """
        size, filled, rejected = len(slots), 0, 0
        most_rejected = self._tree.most_rejected(size)
        while filled < size and rejected <= most_rejected:
            wanted = size - filled
            if proposal.exact:
                shares, luck = rng.random(wanted), _NO_LUCK
            else:
                rate = float(self._recent_rate[0])
                if share > 0.0:
                    rate = (rate * proposal.bound + share) / (proposal.bound + share)
                likely = (wanted + self._tree.spare * math.sqrt(wanted)) / rate
                shares, luck = rng.random((2, min(math.ceil(likely), wanted + most_rejected)))
            out = slots[filled:], scores[filled:]
            if share == 0.0:
                places = np.empty(wanted, dtype=np.int64)
                accepted, tried = self._tree.try_candidates(proposal, shares, luck, *out, places)
                filled = min(size, filled + accepted)
            else:
                accepted, tried, n_filled = self._try_mixed(proposal, share, shares, luck, *out)
                filled += n_filled
            rejected += tried - accepted
            self._candidates[0] += accepted
            self._candidates[1] += tried
            if not proposal.exact and tried:
                self._recent_rate[0] += 0.1 * (max(accepted, 1) / tried - self._recent_rate[0])
        return filled

    def _try_mixed(
        self,
        proposal: Proposal,
        share: float,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
    ) -> tuple[int, int, int]:
        """One round with a uniform share: candidates are uniform with probability c / (c + bound).

        These are always accepted. Returns how many candidates of the tree were accepted, how many
        tried, and how many slots were filled, in the order of candidates.
        """
        targets = shares * (proposal.bound + share)
        is_uniform = targets < share
        uniform, by_tree = np.flatnonzero(is_uniform), np.flatnonzero(~is_uniform)
        from_tree, places = np.empty((2, len(by_tree)), dtype=np.int64)
        tree_shares = np.minimum((targets[by_tree] - share) / proposal.bound, 1.0)
        tree_luck = luck if proposal.exact else luck[by_tree]
        tree_scores = np.empty(len(by_tree))
        accepted, tried = self._tree.try_candidates(
            proposal, tree_shares, tree_luck, from_tree, tree_scores, places
        )
        picked = self._pick(targets[uniform] / share)
        when = np.concatenate([by_tree[places[:accepted]], uniform])
        first = np.argsort(when)[: len(slots)]
        n = len(first)
        slots[:n] = np.concatenate([from_tree[:accepted], picked])[first]
        all_scores = np.concatenate([tree_scores[:accepted], self._scores(picked, proposal)])
        scores[:n] = all_scores[first] + share / int(self._window[1])
        return accepted, tried, n

    def _scores(self, slots: IntArray, proposal: Proposal) -> FloatArray:
        """The scores of ``slots``."""
        need = np.ones(len(slots))
        if proposal.need_alpha > 0.0:
            need = np.maximum(0.0, self.features.need_of(slots, proposal.query))
        scores: FloatArray = combine(self._tree.powers[slots], need, 1.0, proposal.need_alpha)  # type: ignore[arg-type,assignment]
        return scores

    def _pass_over_all(
        self,
        slots: IntArray,
        begin: int,
        proposal: Proposal,
        share: float,
        rng: np.random.Generator,
    ) -> Sampled:
        """Fill the slots from ``begin`` on by a pass over the buffer, which knows the total."""
        occupied, need = self._occupied, np.ones(self._capacity)
        if proposal.need_alpha > 0.0:
            every = np.arange(self._capacity)
            need = np.maximum(0.0, self.features.need_of(every, proposal.query))
        scores, total, found = score_slots(self._tree.powers, need, proposal.need_alpha, occupied)
        if share > 0.0:
            if found != BY_SCORE:  # what was filled so far was uniform, and no slot has need
                begin, share = 0, total * self.uniform_mix / (1.0 - self.uniform_mix)
            scores, total = scores + occupied * (share / occupied.sum()), total + share
        slots[begin:] = slots_at(scores, rng.random(len(slots) - begin))
        self._counts[EXHAUSTIVE if found == BY_SCORE else found] += len(slots) - begin
        return Sampled(slots, scores[slots] / total)

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        self._check_powers(self._tree.powers)
        self._tree.check_valid()

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        return {
            **super().arrays(),
            **self.features.arrays(),
            **self._tree.arrays(),
            "priorities": self._priorities,
            "counts": self._counts,
            "candidates": self._candidates,
            "recent_rate": self._recent_rate,
        }
