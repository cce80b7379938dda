"""NeedScalingSampler in place of probability: draw by gain alone, and let need scale the update.

Yuan & Mattar, section 6 ("NeedScalingSampler vs. probability"): their own way with deep networks.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import AnyArray
from needreplay.replay.samplers.base import Sampled, knowing_smallest
from needreplay.replay.samplers.by_gain import ByGain


class NeedScalingSampler(ByGain):
    """The draws of ``by_gain``, slot for slot, with the need of each as its factor.

    Factors are need as it is, negative need too: how to scale by it is the learner's to decide.
    ``ByGain`` has the arguments.
    """

    name = "magnitude"

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots by gain, with their need as factors."""
        query = self.need_of_slots.query(need)
        self.need_of_slots.features.tick()
        drawn = self.by_gain.sample(size, rng)
        return drawn._replace(factors=self.need_of_slots.products(drawn.slots, query))

    def follow_smallest(self) -> None:
        """``smallest_probability`` will be asked for; called once, before ``allocate``."""
        knowing_smallest(self.by_gain).follow_smallest()

    def smallest_probability(self, size: int) -> float:
        """That of ``by_gain``: need has no say in what is drawn."""
        return knowing_smallest(self.by_gain).smallest_probability(size)
