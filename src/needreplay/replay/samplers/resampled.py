"""Candidates by gain, resampled by need: cheap, and only nearly P(j) ∝ gain_j^a · need_j^b.

The more candidates for each slot wanted, the nearer. Where it has to be exact, use another draw.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.replay.samplers.base import Sampled, Sampler
from needreplay.replay.samplers.by_gain import ByGain
from needreplay.replay.samplers.exhaustive import relative_power, slots_at
from needreplay.replay.samplers.fallbacks import BY_GAIN, BY_PRIORITY, Fallbacks
from needreplay.replay.samplers.query import checked_exponents


class ResampledSampler(ByGain):
    """Gain and need, approximately: need only chooses among candidates that gain has drawn.

    Slots of great need but little gain are drawn too seldom, as few of them become candidates. The
    probabilities it answers with are those it approximates, up to a constant. At need exponent 0 it
    makes the very draws of ``by_gain``; where no candidate has any need, candidates are kept as
    they come, and ``fallbacks`` counts them.

    Args:
        by_gain: draws the candidates; its gain exponent is the one that counts.
        n_states: how need is told: see ``NeedOfSlots``.
        n_features: how need is told: see ``NeedOfSlots``.
        backward: how need is told: see ``NeedOfSlots``.
        need_alpha: b, in [0, 1].
        candidates_per_slot: how many candidates are drawn for each slot that is wanted.
    """

    name = "resampled"

    def __init__(
        self,
        by_gain: Sampler,
        *,
        n_states: int | None = None,
        n_features: int | None = None,
        backward: bool = False,
        need_alpha: float = 0.6,
        candidates_per_slot: int = 16,
    ) -> None:
        checked_exponents(0.0, need_alpha)
        if candidates_per_slot < 1:
            raise NeedReplayError(
                f"candidates_per_slot is {candidates_per_slot}; it has to be at least 1."
            )
        super().__init__(by_gain, n_states=n_states, n_features=n_features, backward=backward)
        self.need_alpha = need_alpha
        self.candidates_per_slot = candidates_per_slot
        self._drawn_by = np.zeros(len(Fallbacks._fields), dtype=np.int64)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._drawn_by[:] = 0

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were chosen by need, and how many were kept as gain had drawn them."""
        return Fallbacks(*self._drawn_by.tolist())

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler candidates by gain, and ``size`` of them, with replacement, by need^b."""
        if self.need_alpha == 0.0:
            if need is not None:
                self.need_of_slots.query(need)
            self._drawn_by[BY_PRIORITY] += size
            return self.by_gain.sample(size, rng)
        query = self.need_of_slots.query(need)
        self.need_of_slots.features.tick()
        candidates = self.by_gain.sample(size * self.candidates_per_slot, rng)
        need_power = relative_power(
            self.need_of_slots.products(candidates.slots, query), self.need_alpha
        )
        if not need_power.any():
            self._drawn_by[BY_GAIN] += size
            chosen = rng.integers(0, len(candidates.slots), size)
            kept = candidates.probabilities[chosen]
            return Sampled(candidates.slots[chosen], kept, candidates.normalised)
        self._drawn_by[BY_PRIORITY] += size
        chosen = slots_at(need_power, rng.random(size))
        approximate = candidates.probabilities[chosen] * need_power[chosen]
        return Sampled(candidates.slots[chosen], approximate, normalised=False)

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {**super().arrays(), "drawn_by": self._drawn_by}
