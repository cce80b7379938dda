"""Sampling by priority and tabular need, P(j) ∝ priority_j^alpha · need[s_j]^need_alpha.

Need depends on a slot only through its state, so one sum of priority^alpha per state is enough to
sample the state, and a tree of the state's own slots to sample one of them: O(states + log N).
"""

from __future__ import annotations

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay._kernels.state_tree import StateTree, empty_tree
from needreplay.replay.samplers.base import Sampled
from needreplay.replay.samplers.need import BY_SCORE, UNIFORM, CorrectFor, NeedSampler, warn_unset
from needreplay.replay.validation import check_need, check_states, is_within

NONE = -1
"""No slot: no child, no parent, no root."""
OWN, TOTAL = 0, 1
"""Columns of ``power``: of the slot, and of its subtree."""


class StateNeedSampler(NeedSampler):
    """Priority and tabular need, exactly, without a pass over the slots.

    ``sample`` takes need as one number for each state: the current state's row of M (forward), or
    its column (backward). Slots have the states that ``set_state`` gave them; until then their need
    is 0. Changing a priority or a state and sampling a slot cost O(log N) each, and a batch
    O(states) once.

    Args:
        n_states: how many states there are.
        alpha: see ``NeedSampler`` for this and the following.
        need_alpha: the exponent of need.
        correct_for: what importance weights correct for.
        uniform_mix: the share of the probability that is uniform.
    """

    name = "state need"
    _compiled = True

    def __init__(
        self,
        n_states: int,
        *,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> None:
        self.n_states = check_number("n_states", n_states, int, AT_LEAST_ONE)
        super().__init__(alpha, need_alpha, correct_for, uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._tree = empty_tree(capacity, self.n_states)
        self._stored |= self._tree
        self._kernel = StateTree(self._bound, capacity, self._follows_window, self.alpha)
        self._scores = np.zeros(self.n_states + 1)
        self._total, self._found = 0.0, UNIFORM

    @property
    def described(self) -> BoolArray:
        """Which slots have a state. O(N)."""
        described: BoolArray = self._tree["group"] != self.n_states
        return described

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """Set the states of ``slots``, before or after their priorities."""
        check_states(states, self.n_states)
        self._kernel.set_states(slots, states)

    def _query(self, need: AnyArray | None, size: int | None = None) -> FloatArray:
        if need is None and self.need_alpha == 0.0:
            return np.ones(self.n_states)
        return check_need(need, self.n_states, "one for each state", size)

    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        if size <= 0 or not self._tree["members"].any():
            self._check_size(size)
        assert need is not None  # ``_query`` returns ones where it may be missing
        self._score(need)
        self._counts[self._found] += size
        if self._found != BY_SCORE and not self._tree["members"][:-1].any():
            warn_unset(self)
        uniforms = rng.random(size)
        if self._found == UNIFORM:
            return self._sample_uniformly(uniforms)
        last = self._scores, self._total, self._found
        slots: IntArray = self._kernel.sample(*last, uniforms)
        probabilities = self._kernel.probabilities(*last, slots)
        return Sampled(slots, probabilities, corrected=self._corrected(slots))

    def _at(self, slots: IntArray, size: int) -> Sampled:  # noqa: ARG002
        last = self._scores, self._total, self._found
        corrected = None if self._found == UNIFORM else self._corrected(slots)
        return Sampled(slots, self._kernel.probabilities(*last, slots), corrected=corrected)

    def _corrected(self, slots: IntArray) -> FloatArray | None:
        """The probabilities by priority, if weights correct for these alone."""
        if self.correct_for == "both":
            return None
        power, root = self._tree["power"], self._tree["root"]
        by_priority: FloatArray = power[slots, OWN] / power[root[root != NONE], TOTAL].sum()
        return by_priority

    def probabilities(self, need: AnyArray | None = None) -> FloatArray:
        """P of every slot, 0 for empty ones. O(N)."""
        self._score(self._query(need))
        occupied, probabilities = np.flatnonzero(self.occupied), np.zeros(self._capacity)
        probabilities[occupied] = self._with_share(self._at(occupied, len(occupied)).probabilities)
        return probabilities

    def _score(self, row: FloatArray) -> None:
        """Score the states for a query; ``_at`` refers to these scores."""
        self._total, self._found = self._kernel.score(row, self.need_alpha, self._scores)

    def check_valid(self) -> None:
        """Raise if links, counts or sums contradict each other."""
        super().check_valid()
        tree, n_groups = self._tree, self.n_states + 1
        links = tree["children"], tree["parent"], tree["root"]
        group, occupied = tree["group"], tree["occupied"]
        if not is_within(group, 0, n_groups) or not all(
            is_within(part, NONE, self._capacity) for part in links
        ):
            raise NeedReplayError("A slot has a state or a neighbor that does not exist.")
        counted = np.bincount(group[occupied], minlength=n_groups)
        if not np.array_equal(counted, tree["members"]):
            raise NeedReplayError("The number of slots of a state is not what its tree counts.")
        if not np.array_equal(occupied, self.occupied):
            raise NeedReplayError("A slot is in a tree without a priority, or the reverse.")
        self._check_powers(np.where(occupied, tree["power"][:, OWN], 0.0))
        wrong = self._kernel.first_wrong()
        if wrong != NONE:
            raise NeedReplayError(f"The tree of state {wrong} is not one of its slots.")
