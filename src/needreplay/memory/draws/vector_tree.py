"""The vector tree: P(j) ∝ gain_j^a · max(0, m · v_j)^b exactly, without scoring every slot.

Need from features changes for every slot whenever the agent moves, but it is linear in the vectors
before its exponent is applied, so sums of vectors are enough to find the slots that matter.
"""

from __future__ import annotations

import math

import numpy as np

from needreplay.errors import NeedReplayError
from needreplay.memory.draws.base import Drawn
from needreplay.memory.draws.dots import dot
from needreplay.memory.draws.equal import ZeroMass
from needreplay.memory.draws.fallbacks import BY_GAIN, BY_PRIORITY, BY_SWEEP, UNIFORM, Fallbacks
from needreplay.memory.draws.features import FeatureStore
from needreplay.memory.draws.proportional import masses_of
from needreplay.memory.draws.query import (
    Corrects,
    checked_corrects,
    checked_exponents,
    checked_size,
)
from needreplay.memory.draws.sweep import score_slots, slots_at
from needreplay.memory.draws.vector_descent import Query, draw_round, split_query
from needreplay.memory.draws.vector_nodes import (
    BLOCK,
    FAN_OUT,
    empty_nodes,
    note_changed,
    recompute_changed,
)
from needreplay.types import AnyArray, FloatArray, IntArray

SLACK = 1.0 + 1e-5
"""How much the bound on a block's score is raised, so that sums in float32 cannot break it: some 50
additions from a slot to the root, each wrong by at most 6e-8 of what it adds to."""

_NO_LUCK = np.zeros(0)


class VectorTree:
    """Gain and need from features, exactly, in O(d log N) a slot.

    Forward need (the default): slots are told their features φ_j, and ``sample`` the successor
    features m of the present. Backward need (``backward=True``): slots are told their successor
    features m_j, and ``sample`` the present features φ. ``FeatureStore`` has the equations. Slots
    that were told no features have need 0.

    Args:
        n_features: how many features there are.
        signed: whether what slots are told may be negative. If not, negative entries are refused,
            half the memory of the nodes is saved, and more candidates are accepted.
        backward: see above.
        gain_exponent: a.
        need_exponent: b, in [0, 1]. At 1, with nothing negative, no candidate is ever rejected.
        corrects: what importance weights correct for: gain and need, or gain alone, so that need
            keeps its effect at beta = 1.

    Where candidates are rejected about as often as a sweep would cost, the rest of the batch is
    drawn by the sweep. A total priority of 0 is drawn by gain alone, a total gain of 0 uniformly.
    ``fallbacks`` counts all of these, ``acceptance_rate`` the rest. Probabilities are normalised
    where nothing can be rejected, and else right up to a constant.
    """

    name = "vector tree"

    def __init__(
        self,
        n_features: int,
        *,
        signed: bool = True,
        backward: bool = False,
        gain_exponent: float = 0.6,
        need_exponent: float = 0.6,
        corrects: Corrects = "both",
    ) -> None:
        checked_exponents(gain_exponent, need_exponent)
        self.n_features = n_features
        self.signed = signed
        self.backward = backward
        self.gain_exponent = gain_exponent
        self.need_exponent = need_exponent
        self.corrects = checked_corrects(corrects)
        self._drawn_by = np.zeros(len(Fallbacks._fields), dtype=np.int64)
        self._candidates = np.zeros(2, dtype=np.int64)
        self._recent_rate = np.ones(1)
        self.allocate(0)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self.features = FeatureStore(capacity, self.n_features, backward=self.backward)
        self._occupied = np.zeros(capacity, dtype=np.bool_)
        self._tree = empty_nodes(np.zeros(capacity), self.features.vectors, signed=self.signed)
        self._drawn_by[:] = 0
        self._candidates[:] = 0
        self._recent_rate[:] = 1.0
        self._zero_mass = ZeroMass(self.name)

    @property
    def fallbacks(self) -> Fallbacks:
        """How many slots were drawn by priority, by gain alone, uniformly, and by the sweep."""
        return Fallbacks(*self._drawn_by.tolist())

    @property
    def acceptance_rate(self) -> float:
        """Which share of all candidates was accepted; 1 before there were any."""
        accepted, tried = self._candidates.tolist()
        return accepted / tried if tried else 1.0

    def set_gain(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self._tree.mass[slots] = masses_of(gain, self.gain_exponent)
        self._occupied[slots] = True
        note_changed(self._tree, slots)

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` have ``features`` from now on, one row each (successor features: backward)."""
        if not self.signed and len(slots) and np.min(features) < 0.0:
            raise NeedReplayError(
                "features holds negative numbers, but this draw was made with signed=False; "
                "nothing was stored. Make it with signed=True."
            )
        self.features.tell(slots, features)
        note_changed(self._tree, slots)

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: they have no features, and need 0, until told."""
        self.features.forget(slots)
        note_changed(self._tree, slots)

    def clear(self, slots: IntArray) -> None:
        """``slots`` are empty from now on."""
        self._occupied[slots] = False
        self._tree.mass[slots] = 0.0
        self.features.forget(slots)
        note_changed(self._tree, slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Drawn:
        """Draw ``size`` slots with replacement; ``need`` has one entry for each feature."""
        recompute_changed(self._tree)
        query, found = self._query(need)
        self.features.tick()
        if found == UNIFORM:
            checked_size(size, int(self._occupied.sum()))
            self._drawn_by[UNIFORM] += size
            return self._zero_mass.draw(self._occupied, rng.random(size))
        slots, scores = np.empty(size, dtype=np.int64), np.empty(size)
        filled = self._descend(query, rng, slots, scores)
        self._drawn_by[found] += filled
        if filled < size:
            drawn = self._sweep(slots, filled, query, rng)
        elif query.bound > 0.0:
            drawn = Drawn(slots, scores, normalised=False)
        else:
            drawn = Drawn(slots, scores / query.total)
        if self.corrects == "both":
            return drawn
        return drawn._replace(corrected=self._tree.mass[slots] / self._tree.masses[0])

    def _query(self, need: AnyArray | None) -> tuple[Query, int]:
        """What to draw by, and how it was found."""
        sums, root_mass = self._tree.sums, float(self._tree.masses[0])
        scaled, bounding = np.zeros(self.n_features), np.zeros(sums.shape[1])
        by_gain = Query(scaled, bounding, 0.0, 0.0, 1.0, 0.0, root_mass)
        b = self.need_exponent
        told = None if need is None and b == 0.0 else self.features.query(need)
        if root_mass == 0.0:
            return by_gain, UNIFORM
        if told is None or b == 0.0:
            return by_gain, BY_PRIORITY
        negative = split_query(told, scaled, bounding)
        total = dot(sums, 0, bounding)
        mean = total / root_mass
        if not mean > 0.0:
            return by_gain, BY_GAIN
        certain = b == 1.0 and not self.signed and not negative
        bound = 0.0 if certain else root_mass * mean**b * SLACK
        slope, offset = b * mean ** (b - 1.0), (1.0 - b) * mean**b
        return Query(scaled, bounding, b, slope, offset, bound, total), BY_PRIORITY

    def _descend(
        self, query: Query, rng: np.random.Generator, slots: IntArray, scores: FloatArray
    ) -> int:
        """Fill the slots by accepted candidates, and say how many could be, before a sweep pays.

        A round tries as many candidates as the last rounds let expect to be enough.
        """
        size, filled, rejected = len(slots), 0, 0
        most_rejected = self._most_rejected(size)
        while filled < size and rejected <= most_rejected:
            wanted = size - filled
            if query.bound > 0.0:
                tried = min(math.ceil(wanted / self._recent_rate[0]), wanted + most_rejected)
                shares, luck = rng.random((2, tried))
            else:
                tried, shares, luck = wanted, rng.random(wanted), _NO_LUCK
            accepted = draw_round(self._tree, query, shares, luck, slots[filled:], scores[filled:])
            filled = min(size, filled + accepted)
            rejected += tried - accepted
            self._candidates[0] += accepted
            self._candidates[1] += tried
            if query.bound > 0.0:
                self._recent_rate[0] += 0.1 * (max(accepted, 1) / tried - self._recent_rate[0])
        return filled

    def _most_rejected(self, size: int) -> int:
        """About as many candidates as cost one sweep over all slots."""
        levels = len(self._tree.first) - 2
        return size + len(self._occupied) // (BLOCK + levels * FAN_OUT)

    def _sweep(
        self,
        slots: IntArray,
        begin: int,
        query: Query,
        rng: np.random.Generator,
    ) -> Drawn:
        """Fill the slots from ``begin`` on by the sweep, which also knows the total."""
        need = np.ones(len(self._occupied))
        if query.exponent > 0.0:
            need = np.maximum(0.0, self.features.products(np.arange(len(need)), query.need))
        all_scores, total, found = score_slots(
            self._tree.mass, need**query.exponent, self._occupied
        )
        slots[begin:] = slots_at(all_scores, rng.random(len(slots) - begin))
        self._drawn_by[BY_SWEEP if found == BY_PRIORITY else found] += len(slots) - begin
        return Drawn(slots, all_scores[slots] / total)

    def check_valid(self) -> None:
        """Raise if a node that is not noted as changed is not the sum of what is below it."""
        tree = self._tree
        again = empty_nodes(tree.mass, tree.vectors, signed=self.signed)
        pending = self._tree.changed[: tree.n_changed[0]]
        if not np.array_equal(np.sort(pending), np.flatnonzero(tree.is_changed)):
            raise NeedReplayError("The list of changed blocks is not what is marked as changed.")
        if tree.mass[~self._occupied].any():
            raise NeedReplayError("A slot that was never told its gain has mass.")
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
        return {
            **tree,
            **self.features.arrays(),
            "occupied": self._occupied,
            "drawn_by": self._drawn_by,
            "candidates": self._candidates,
            "recent_rate": self._recent_rate,
        }
