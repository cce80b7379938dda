"""Recency: new transitions more often than old ones, by a truncated geometric distribution of age.

The weight of an age falls by the same factor with every new transition. So it is enough to let the
weight of new transitions grow by that factor: old leaves of the sum tree stay as they are.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import recency_rate
from needreplay.replay._kernels.recency import Recency
from needreplay.replay._kernels.sumtree import SumTree
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.need import CorrectFor, checked_correct_for
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.validation import is_within


class RecencySampler(ProportionalSampler):
    """P(j) ∝ priority_j^alpha · (m / (m + 1))^age_j, where m is ``mean_age``.

    The age of a transition is how many were stored after it: 0 for the newest. At alpha 0 (the
    default) the age is geometric with mean m, truncated at the oldest transition.
    ``equations.mean_age_for`` chooses m so that transitions are worth a given number of equally
    likely ones. At alpha above 0 this is the control for need: gain x recency.

    Args:
        mean_age: the mean age of what is sampled from a buffer much longer than that.
        alpha: the exponent of priorities: 0 is by age alone.
        correct_for: what importance weights correct for: "both", or "gain" (priorities) alone, so
            that recency keeps its effect at beta = 1, as need does.
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    name = "recency"
    _compiled = True

    def __init__(
        self,
        mean_age: float,
        *,
        alpha: float = 0.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        self.mean_age = check_number("mean_age", mean_age, float, (1e-100, 1e100))
        self._rate = recency_rate(self.mean_age)
        self.correct_for = checked_correct_for(correct_for)
        super().__init__(alpha, stratified=False, uniform_mix=uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        self._gains = SumTree(capacity)
        super().allocate(capacity)
        self._keep("gains", self._gains.array)
        self._clock = self._keep("clock", np.zeros(2, dtype=np.int64))
        self._base = self._keep("base", np.zeros(1))
        settings = self._tree, self.alpha, self.uniform_mix == 0.0 and self.correct_for == "both"
        self._kernel = Recency(
            self._bound, capacity, self._follows_window, *settings, self._gains, self._rate
        )

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        sampled = super()._sample(size, rng, need)
        return self._corrected(sampled)

    def _at(self, slots: IntArray, size: int) -> Sampled:
        return self._corrected(super()._at(slots, size))

    def _corrected(self, sampled: Sampled) -> Sampled:
        """With the probabilities by priority, if weights correct for these alone."""
        if self.correct_for == "both" or self._gains.total == 0.0:
            return sampled
        by_priority = self._gains.masses[sampled.slots] / self._gains.total
        return sampled._replace(corrected=by_priority)

    def _check_powers(self, powers: FloatArray) -> None:
        """Raise unless ``powers`` are the leaves that follow from priorities and ages."""
        self._gains.check_valid()
        super()._check_powers(self._gains.masses)
        newest, stamp = self._clock.tolist()
        if not (0 <= newest < self._capacity and 0 <= stamp < 2**62 and np.isfinite(self._base[0])):
            raise NeedReplayError("The clock of the recency sampler is out of range.")
        occupied = np.flatnonzero(self.occupied)
        if not is_within((newest - occupied) % self._capacity, 0, len(occupied)):
            raise NeedReplayError("The newest transition is not the last of those that are stored.")
        if not np.allclose(powers, self._kernel.masses(), 1e-11, 1e-250):
            raise NeedReplayError("A slot's leaf is not its priority's power times its recency.")
