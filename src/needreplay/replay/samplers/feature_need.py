"""What the draws by need from features share: propose slots by a bound, accept, or try again.

Need from features changes for every slot whenever the agent moves. A draw that can propose slots by
a bound on their scores accepts each with (its true score) / (its bound), which is exact whatever
the bound is. The vector tree and the norm tree differ in how they propose.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import numpy as np

from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.equal import ZeroMass
from needreplay.replay.samplers.exhaustive import score_slots, slots_at
from needreplay.replay.samplers.fallbacks import BY_PRIORITY, BY_SWEEP, UNIFORM
from needreplay.replay.samplers.features import FeatureStore
from needreplay.replay.samplers.gain_need import GainNeed
from needreplay.replay.samplers.proportional import EMPTY, masses_of
from needreplay.replay.samplers.query import Corrects, checked_size

_NO_LUCK = np.zeros(0)


class Proposal(Protocol):
    """What a batch is drawn by: score = gain^a · max(0, ``need`` · v)^``exponent``.

    ``bound`` is above the sum of all scores; it is 0 where slots are proposed by their very scores,
    so that nothing has to be rejected, and ``total`` is then the sum of all scores.
    """

    @property
    def need(self) -> FloatArray: ...  # noqa: D102

    @property
    def exponent(self) -> float: ...  # noqa: D102

    @property
    def bound(self) -> float: ...  # noqa: D102

    @property
    def total(self) -> float: ...  # noqa: D102


P = TypeVar("P", bound=Proposal)


class FeatureSampler(GainNeed, ABC, Generic[P]):
    """Gain and need from features, exactly, by proposals.

    Forward need (the default): slots are told their features φ_j, and ``sample`` the successor
    features m of the present. Backward need (``backward=True``): slots are told their successor
    features m_j, and ``sample`` the present features φ. ``FeatureStore`` has the equations. Slots
    that were told no features have need 0.

    Where candidates are rejected about as often as a sweep would cost, the rest of the batch is
    drawn by the sweep. A total priority of 0 is drawn by gain alone, a total gain of 0 uniformly.
    ``fallbacks`` counts all of these, ``acceptance_rate`` the rest. Probabilities are normalised
    where nothing can be rejected, and else right up to a constant.

    Args:
        n_features: how many features there are.
        backward: see above.
        alpha: a; see ``GainNeed`` for this and what follows.
        need_alpha: b.
        corrects: what importance weights correct for.
    """

    name: str
    _mass: FloatArray
    """gain^a of every slot."""
    _takes_negative = True
    """Whether features may be negative."""
    _spare = 0.0
    """How many standard deviations more candidates a round gets than it is likely to need: a round
    that stops when all is filled may well have some to spare."""

    def __init__(
        self,
        n_features: int,
        *,
        backward: bool = False,
        alpha: float = 0.6,
        need_alpha: float = 0.6,
        corrects: Corrects = "both",
    ) -> None:
        super().__init__(alpha, need_alpha, corrects)
        self.n_features = n_features
        self.backward = backward
        self._candidates = np.zeros(2, dtype=np.int64)
        self._recent_rate = np.ones(1)
        self.allocate(1)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self.features = FeatureStore(
            capacity,
            self.n_features,
            backward=self.backward,
            takes_negative=self._takes_negative,
        )
        self._gain = np.full(capacity, EMPTY)
        self._drawn_by[:] = 0
        self._candidates[:] = 0
        self._recent_rate[:] = 1.0
        self._zero_mass = ZeroMass(self.name)

    @property
    def acceptance_rate(self) -> float:
        """Which share of all candidates was accepted; 1 before there were any."""
        accepted, tried = self._candidates.tolist()
        return accepted / tried if tried else 1.0

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self._gain[slots] = gain
        self._set_mass(slots, masses_of(gain, self.alpha))

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each (successor features: backward)."""
        self.features.tell(slots, features)
        self._note_vectors(slots)

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: they have no features, and need 0, until told."""
        self.features.forget(slots)
        self._note_vectors(slots)

    def clear(self, slots: IntArray) -> None:
        """``slots`` are empty from now on."""
        self._gain[slots] = EMPTY
        self._set_mass(slots, np.zeros(len(slots)))
        self.features.forget(slots)
        self._note_vectors(slots)

    @abstractmethod
    def _set_mass(self, slots: IntArray, masses: FloatArray) -> None:
        """``slots`` have ``masses`` from now on."""

    @abstractmethod
    def _note_vectors(self, slots: IntArray) -> None:
        """The vectors of ``slots`` are others than they were."""

    @abstractmethod
    def _total_mass(self) -> float:
        """The sum of gain^a over all slots."""

    @abstractmethod
    def _proposal(self, told: FloatArray | None) -> tuple[P, int]:
        """What to draw by, and how it was found; ``None``: by gain alone, as asked."""

    @abstractmethod
    def _round(
        self,
        proposal: P,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
    ) -> tuple[int, int]:
        """A candidate for each share; those accepted fill ``slots`` and ``scores``.

        Answers with how many were accepted and how many tried. May stop when all are filled; or
        else accept more than there are places.
        """

    @abstractmethod
    def _most_rejected(self, size: int) -> int:
        """About as many candidates as cost one sweep over all slots."""

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement; ``need`` has one entry for each feature."""
        by_gain = self.need_alpha == 0.0
        told = None if need is None and by_gain else self.features.query(need)
        proposal, found = self._proposal(None if by_gain else told)
        self.features.tick()
        if found == UNIFORM:
            occupied = self._occupied
            checked_size(size, int(occupied.sum()))
            self._drawn_by[UNIFORM] += size
            return self._zero_mass.sample(occupied, rng.random(size))
        slots, scores = np.empty(size, dtype=np.int64), np.empty(size)
        filled = self._propose(proposal, rng, slots, scores)
        self._drawn_by[found] += filled
        if filled < size:
            drawn = self._sweep(slots, filled, proposal, rng)
        elif proposal.bound > 0.0:
            drawn = Sampled(slots, scores, normalised=False)
        else:
            drawn = Sampled(slots, scores / proposal.total)
        if self.corrects == "both":
            return drawn
        return drawn._replace(corrected=self._mass[slots] / self._total_mass())

    def _propose(
        self, proposal: P, rng: np.random.Generator, slots: IntArray, scores: FloatArray
    ) -> int:
        """Fill the slots by accepted candidates, and say how many could be, before a sweep pays.

        A round tries as many candidates as the last rounds let expect to be enough.
        """
        size, filled, rejected = len(slots), 0, 0
        most_rejected = self._most_rejected(size)
        while filled < size and rejected <= most_rejected:
            wanted = size - filled
            if proposal.bound > 0.0:
                likely = (wanted + self._spare * math.sqrt(wanted)) / self._recent_rate[0]
                shares, luck = rng.random((2, min(math.ceil(likely), wanted + most_rejected)))
            else:
                shares, luck = rng.random(wanted), _NO_LUCK
            accepted, tried = self._round(proposal, shares, luck, slots[filled:], scores[filled:])
            filled = min(size, filled + accepted)
            rejected += tried - accepted
            self._candidates[0] += accepted
            self._candidates[1] += tried
            if proposal.bound > 0.0:
                self._recent_rate[0] += 0.1 * (max(accepted, 1) / tried - self._recent_rate[0])
        return filled

    def _sweep(self, slots: IntArray, begin: int, proposal: P, rng: np.random.Generator) -> Sampled:
        """Fill the slots from ``begin`` on by the sweep, which also knows the total."""
        need = np.ones(len(self._gain))
        if proposal.exponent > 0.0:
            need = np.maximum(0.0, self.features.products(np.arange(len(need)), proposal.need))
        all_scores, total, found = score_slots(self._mass, need**proposal.exponent, self._occupied)
        slots[begin:] = slots_at(all_scores, rng.random(len(slots) - begin))
        self._drawn_by[BY_SWEEP if found == BY_PRIORITY else found] += len(slots) - begin
        return Sampled(slots, all_scores[slots] / total)

    @abstractmethod
    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {
            **self.features.arrays(),
            "gain": self._gain,
            "drawn_by": self._drawn_by,
            "candidates": self._candidates,
            "recent_rate": self._recent_rate,
        }
