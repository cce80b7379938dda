"""The exact state-grouped draw: P(j) ∝ gain_j^a · need[s_j]^b in O(states + log N).

Need depends on a slot only through its state, so one sum of gain^a per state is enough to draw the
state, and a tree of the state's own slots to draw one of them. For tabular need.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.equal import ZeroMass
from needreplay.replay.samplers.fallbacks import UNIFORM
from needreplay.replay.samplers.gain_need import GainNeed
from needreplay.replay.samplers.proportional import EMPTY, masses_of
from needreplay.replay.samplers.query import (
    Corrects,
    checked_need,
    checked_size,
    checked_states,
)
from needreplay.replay.samplers.state_tree import (
    NONE,
    OWN,
    TOTAL,
    GroupedTree,
    draw_slot,
    empty_tree,
    probability_of,
    score_states,
    set_empty,
    set_group,
    set_mass,
    slot_at,
    total_of,
)


class StateNeedSampler(GainNeed):
    """Gain and tabular need, exactly, without going over the slots.

    ``sample`` is told need as one number for each state: the current state's row of M (forward), or
    its column (backward). A slot belongs to the state it was last told by ``set_state``; until then
    its need is 0. A gain change, a state change and a slot drawn cost O(log N) each, and a batch
    O(states) once. Negative need counts as 0. A total priority of 0 is drawn by gain alone, a total
    gain of 0 uniformly; ``fallbacks`` counts both. Importance weights correct for gain and need,
    or, where ``corrects`` is "gain", for gain alone: need then keeps its effect at beta = 1.
    """

    name = "grouped"

    def __init__(
        self,
        n_states: int,
        *,
        alpha: float = 0.6,
        need_alpha: float = 0.6,
        corrects: Corrects = "both",
    ) -> None:
        if n_states < 1:
            raise NeedReplayError(f"n_states is {n_states}; there has to be at least one state.")
        super().__init__(alpha, need_alpha, corrects)
        self.n_states = n_states
        self.allocate(0)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._gain = np.full(capacity, EMPTY)
        self._tree = empty_tree(capacity, self.n_states)
        self._scores = np.zeros(self.n_states + 1)
        self._drawn_by[:] = 0
        self._zero_mass = ZeroMass(self.name)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        self._gain[slots] = gain
        _set_masses(self._tree, slots, masses_of(gain, self.alpha))

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """``slots`` are of ``states`` from now on; a slot may be told its state before its gain."""
        checked_states(states, self.n_states)
        _set_groups(self._tree, slots, states)

    def place(self, slots: IntArray, previous: IntArray) -> None:  # noqa: ARG002
        """New transitions are in ``slots``: their state is unknown, their need 0, until told."""
        _set_groups(self._tree, slots, np.full(len(slots), self.n_states, dtype=np.int64))

    def clear(self, slots: IntArray) -> None:
        """``slots`` are empty from now on."""
        self._gain[slots] = EMPTY
        _set_empty(self._tree, slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement; ``need`` has one entry for each state."""
        checked_size(size, int(self._tree.members.sum()))
        total, found = self._score(need)
        self._drawn_by[found] += size
        uniforms = rng.random(size)
        if found == UNIFORM:
            return self._zero_mass.sample(self._tree.occupied, uniforms)
        slots = np.empty(size, dtype=np.int64)
        probabilities = np.empty(size)
        _draw_batch(self._tree, self._scores, total, found, uniforms, slots, probabilities)
        return Sampled(slots, probabilities, corrected=self._corrected(slots))

    def _corrected(self, slots: IntArray) -> FloatArray | None:
        """What weights correct for, if not for all that is drawn by: the probability by gain."""
        if self.corrects == "both":
            return None
        roots = self._tree.root[self._tree.root != NONE]
        by_gain: FloatArray = self._tree.mass[slots, OWN] / self._tree.mass[roots, TOTAL].sum()
        return by_gain

    def probabilities(self, need: AnyArray | None = None) -> FloatArray:
        """P of every slot, 0 for empty ones. O(N)."""
        total, found = self._score(need)
        probabilities = np.zeros(len(self._tree.group))
        for slot in np.flatnonzero(self._tree.occupied).tolist():
            probabilities[slot] = probability_of(self._tree, self._scores, total, found, slot)
        return probabilities

    def _score(self, need: AnyArray | None) -> tuple[float, int]:
        if need is None and self.need_alpha == 0.0:
            need = np.ones(self.n_states)
        row = checked_need(need, self.n_states, "one for each state")
        total, found = score_states(self._tree, row, self.need_alpha, self._scores)
        return total, found

    def check_valid(self) -> None:
        """Raise if links, counts or sums contradict each other."""
        tree = self._tree
        counted = np.bincount(tree.group[tree.occupied], minlength=self.n_states + 1)
        if not np.array_equal(counted, tree.members):
            raise NeedReplayError("The number of slots of a state is not what its tree counts.")
        if not np.array_equal(tree.occupied, self._occupied):
            raise NeedReplayError("A slot is in a tree without a gain, or has one and is in none.")
        self._check_masses(np.where(tree.occupied, tree.mass[:, OWN], 0.0))
        for group in range(self.n_states + 1):
            _check_group(tree, group)

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {**self._tree._asdict(), "gain": self._gain, "drawn_by": self._drawn_by}


def _check_group(tree: GroupedTree, group: int) -> None:
    """Raise unless the tree of ``group`` is complete, linked both ways, and sums up."""
    seen = set()
    for place in range(1, int(tree.members[group]) + 1):
        slot = slot_at(tree, group, place)
        above = NONE if place == 1 else slot_at(tree, group, place // 2)
        if slot == NONE or tree.group[slot] != group or not tree.occupied[slot]:
            raise NeedReplayError(f"Place {place} of state {group} holds a slot that is not its.")
        if tree.parent[slot] != above:
            raise NeedReplayError(f"Slot {slot} does not know the slot above it.")
        below = sum(total_of(tree.mass, child) for child in tree.children[slot])
        if tree.mass[slot, TOTAL] != tree.mass[slot, OWN] + below:
            raise NeedReplayError(f"The sum at slot {slot} is not that of the slots below it.")
        seen.add(int(slot))
    if len(seen) != tree.members[group]:
        raise NeedReplayError(f"A slot of state {group} is in its tree twice.")


@jit
def _set_masses(tree: GroupedTree, slots: IntArray, masses: FloatArray) -> None:
    """``set_mass`` for each slot in turn."""
    for i in range(len(slots)):
        set_mass(tree, slots[i], masses[i])


@jit
def _set_groups(tree: GroupedTree, slots: IntArray, groups: IntArray) -> None:
    """``set_group`` for each slot in turn."""
    for i in range(len(slots)):
        set_group(tree, slots[i], groups[i])


@jit
def _set_empty(tree: GroupedTree, slots: IntArray) -> None:
    """``set_empty`` for each slot in turn."""
    for i in range(len(slots)):
        set_empty(tree, slots[i])


@jit
def _draw_batch(
    tree: GroupedTree,
    scores: FloatArray,
    total: float,
    found: int,
    uniforms: FloatArray,
    slots: IntArray,
    probabilities: FloatArray,
) -> None:
    """One slot for each uniform number; writes ``slots`` and ``probabilities``."""
    for i in range(len(uniforms)):
        slots[i] = draw_slot(tree, scores, total, found, uniforms[i])
        probabilities[i] = probability_of(tree, scores, total, found, slots[i])
