"""``Need``: what a ``NeedBuffer`` and a learner ask of any need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from needreplay._core.types import Columns, FloatArray, Observation
from needreplay.need.quality import NeedQuality, NeedsOf
from needreplay.replay import ReplayBuffer
from needreplay.replay.samplers import FeatureNeedSampler
from needreplay.replay.samplers.need import CorrectFor


class Need(Protocol):
    """Need as an inner product: of a query with the vector that a buffer stores for a transition.

    ``NeedModel`` is one. Write a class with these methods for a need of your own.
    """

    def sampler(
        self, *, alpha: float, need_alpha: float, correct_for: CorrectFor, uniform_mix: float
    ) -> FeatureNeedSampler:
        """A sampler by gain and this need."""

    def views(self, buffer: ReplayBuffer, size: int, obs: Observation) -> Observation:
        """The observations that need is seen from: ``obs``, or ``size`` that ``buffer`` stores."""

    def queries(self, views: Observation) -> FloatArray:
        """The query of one observation, or one for each of a batch."""

    def vectors(self, columns: Columns) -> FloatArray:
        """The vectors of transitions with these columns."""

    def vectors_and_queries(
        self, columns: Columns, views: Observation
    ) -> tuple[FloatArray, FloatArray]:
        """``vectors`` and ``queries``, in one pass through the layers where that is possible."""

    def need_of(self, products: FloatArray) -> FloatArray:
        """Need, from inner products of queries and vectors."""

    def needs_of(self, views: Observation, columns: Columns) -> FloatArray:
        """Need of transitions with these columns, seen from a view: [i, j], or [j] from one."""

    def loss(self, batch: Any, passed: Any) -> Any:
        """What a learner adds to its loss on ``batch``; None if need learns on its own.

        ``batch`` is the learner's own kind of batch, and ``passed`` what its networks computed on
        it.
        """

    def learn(self, buffer: ReplayBuffer) -> float:
        """One update of its own from ``buffer``; returns its loss (NaN: none was made)."""

    def quality(
        self,
        buffer: ReplayBuffer,
        *,
        queries: int = 32,
        seed: int | np.random.Generator = 0,
        new: bool = False,
        needs_of: NeedsOf | None = None,
    ) -> NeedQuality:
        """How accurate need is; see ``NeedModel.quality``."""

    def state_dict(self) -> dict[str, Any]:
        """All that it has learned: tensors and plain values alone."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``state_dict`` returned."""
