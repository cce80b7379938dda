"""The vector tree: P(j) ∝ gain_j^a · max(0, m · v_j)^b exactly, without scoring every slot.

Need from features is linear in the vectors before its exponent is applied, so sums of vectors are
enough to find the slots that matter, however few they are.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.fallbacks import BY_GAIN, BY_PRIORITY, UNIFORM
from needreplay.replay.samplers.feature_need import FeatureSampler
from needreplay.replay.samplers.vector_descent import VectorProposal, draw_round, prepare
from needreplay.replay.samplers.vector_nodes import (
    BLOCK,
    FAN_OUT,
    empty_nodes,
    note_changed,
    recompute_changed,
    set_masses,
)

SLACK = 1.0 + 1e-9
"""How much the bound on a block's score is raised, so that rounding cannot put its score above."""


class VectorTreeSampler(FeatureSampler[VectorProposal]):
    """Gain and need from features that are not negative, exactly, in O(d log N) a slot.

    Negative features are refused: ``FeatureNeedSampler`` takes those. At need exponent 1, where
    need is not negative either, no candidate is ever rejected. See ``FeatureSampler``.
    """

    name = "vector tree"
    _takes_negative = False

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._tree = empty_nodes(np.zeros(capacity), self.features.vectors)
        self._mass = self._tree.mass

    def _set_mass(self, slots: IntArray, masses: FloatArray) -> None:
        set_masses(self._tree, slots, masses)

    def _note_vectors(self, slots: IntArray) -> None:
        note_changed(self._tree, slots)

    def _total_mass(self) -> float:
        return float(self._tree.masses[0])

    def _proposal(self, told: FloatArray | None) -> tuple[VectorProposal, int]:
        scaled, bounding = np.zeros((2, self.n_features))
        if told is None:
            recompute_changed(self._tree)
            total, negative = 0.0, False
        else:
            total, negative = prepare(self._tree, told, scaled, bounding)
        root_mass = self._total_mass()
        by_gain = VectorProposal(scaled, bounding, 0.0, 0.0, 1.0, 0.0, root_mass)
        if root_mass == 0.0:
            return by_gain, UNIFORM
        if told is None:
            return by_gain, BY_PRIORITY
        mean = total / root_mass
        if not mean > 0.0:
            return by_gain, BY_GAIN
        b = self.need_alpha
        bound = 0.0 if b == 1.0 and not negative else root_mass * mean**b * SLACK
        slope, offset = b * mean ** (b - 1.0), (1.0 - b) * mean**b
        return VectorProposal(scaled, bounding, b, slope, offset, bound, total), BY_PRIORITY

    def _round(
        self,
        proposal: VectorProposal,
        shares: FloatArray,
        luck: FloatArray,
        slots: IntArray,
        scores: FloatArray,
    ) -> tuple[int, int]:
        return draw_round(self._tree, proposal, shares, luck, slots, scores), len(shares)

    def _most_rejected(self, size: int) -> int:
        levels = len(self._tree.first) - 2
        return size + len(self._mass) // (BLOCK + levels * FAN_OUT)

    def check_valid(self) -> None:
        """Raise if a node that is not noted as changed is not the sum of what is below it."""
        tree = self._tree
        again = empty_nodes(tree.mass, tree.vectors)
        pending = self._tree.changed[: tree.n_changed[0]]
        if not np.array_equal(np.sort(pending), np.flatnonzero(tree.is_changed)):
            raise NeedReplayError("The list of changed blocks is not what is marked as changed.")
        self._check_masses(tree.mass)
        note_changed(again, np.arange(len(tree.mass)))
        recompute_changed(again)
        fresh = np.ones(len(tree.masses), dtype=np.bool_)
        for level in range(len(tree.first) - 1):
            covered = FAN_OUT ** (len(tree.first) - 2 - level)
            fresh[tree.first[level] + np.unique(pending // covered)] = False
        same = (again.sums == tree.sums).all(axis=1) & (again.masses == tree.masses)
        if not same[fresh].all():
            raise NeedReplayError("A node does not hold the sum of the slots below it.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        tree = self._tree._asdict()
        del tree["first"]
        return {**tree, **super().arrays()}
