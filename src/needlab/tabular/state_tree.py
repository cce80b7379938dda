"""Slots grouped by state, one balanced sum tree per state: ``StateNeedSampler``, in numba.

The slots themselves are the nodes. A state's tree is complete (node k's parent is node k // 2,
counted from 1), so the place of a node gives the path to it, and nothing is ever allocated: a slot
that changes its state is replaced by the last node of its tree and becomes the last of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.core.equations import combine
from needlab.core.jit import jit
from needreplay._core.types import BoolArray, FloatArray, IntArray

TINY = 1e-200
"""Below this a sum of scores may have lost digits to underflow."""

BY_SCORE, BY_PRIORITY, UNIFORM = range(3)
"""What was sampled by: the score; priority alone, since every score was 0; or neither."""

NONE = -1
OWN = 0
TOTAL = 1


class GroupedTree(NamedTuple):
    """``capacity`` slots in ``n_states + 1`` groups: the last is of slots of unknown state.

    ``power[slot]`` holds priority^alpha of the slot and its sum over the slot's subtree;
    ``children`` are left and right. ``root`` and ``members`` (how many) are per group. Slots that
    are not ``occupied`` are in no tree.
    """

    group: IntArray
    occupied: BoolArray
    power: FloatArray
    children: IntArray
    parent: IntArray
    root: IntArray
    members: IntArray


def empty_tree(capacity: int, n_states: int) -> GroupedTree:
    """A tree without any slot in it."""
    return GroupedTree(
        group=np.full(capacity, n_states, dtype=np.int64),
        occupied=np.zeros(capacity, dtype=np.bool_),
        power=np.zeros((capacity, 2)),
        children=np.full((capacity, 2), NONE, dtype=np.int64),
        parent=np.full(capacity, NONE, dtype=np.int64),
        root=np.full(n_states + 1, NONE, dtype=np.int64),
        members=np.zeros(n_states + 1, dtype=np.int64),
    )


@jit
def total_of(power: FloatArray, slot: int) -> float:
    """Σ priority^alpha over the subtree of ``slot``, 0 for no slot.

    This and other inner kernels take arrays: passing the whole tuple costs reference counts.
    """
    return power[slot, TOTAL] if slot != NONE else 0.0


@jit
def slot_at(tree: GroupedTree, group: int, place: int) -> int:
    """The slot at ``place`` (from 1) of a group's tree: below its first bit, 0 is left, 1 right."""
    step = 1
    while step * 2 <= place:
        step *= 2
    children = tree.children
    slot: int = tree.root[group]
    step //= 2
    while step > 0:
        slot = children[slot, 1 if place & step else 0]
        step //= 2
    return slot


@jit
def sum_upwards(tree: GroupedTree, slot: int) -> None:
    """Recompute the totals of ``slot`` and of all above it; writes ``power``."""
    power, children, parent = tree.power, tree.children, tree.parent
    while slot != NONE:
        below = total_of(power, children[slot, 0]) + total_of(power, children[slot, 1])
        power[slot, TOTAL] = power[slot, OWN] + below
        slot = parent[slot]


@jit
def set_power(tree: GroupedTree, slot: int, new: float) -> None:
    """Set priority^alpha of ``slot``, which becomes occupied. O(log N)."""
    tree.power[slot, OWN] = new
    if tree.occupied[slot]:
        sum_upwards(tree, slot)
    else:
        tree.occupied[slot] = True
        attach(tree, slot)


@jit
def set_powers(tree: GroupedTree, slots: IntArray, powers: FloatArray) -> None:
    """``set_power`` for each slot in turn."""
    for i in range(len(slots)):
        set_power(tree, slots[i], powers[i])


def tree_of(states: IntArray, priorities: FloatArray, n_states: int, alpha: float) -> GroupedTree:
    """The tree of a full buffer: slot i is of ``states[i]``. O(N log N)."""
    tree = empty_tree(len(states), n_states)
    tree.group[:] = states
    powers = np.asarray(priorities, dtype=np.float64) ** alpha
    set_powers(tree, np.arange(len(states)), powers)
    return tree


@jit
def attach(tree: GroupedTree, slot: int) -> None:
    """Put ``slot`` at the last place of its group's tree."""
    group = tree.group[slot]
    tree.members[group] += 1
    place = tree.members[group]
    tree.children[slot, 0] = NONE
    tree.children[slot, 1] = NONE
    tree.parent[slot] = NONE
    if place == 1:
        tree.root[group] = slot
    else:
        above = slot_at(tree, group, place // 2)
        tree.children[above, place & 1] = slot
        tree.parent[slot] = above
    sum_upwards(tree, slot)


@jit
def _score(
    power: FloatArray,
    root: IntArray,
    need: FloatArray,
    need_alpha: float,
    largest: float,
    scores: FloatArray,
) -> float:
    """Write the scores for need as a share of ``largest``, 1 at most; returns their sum."""
    scale = largest if largest > 0.0 else 1.0
    total = 0.0
    for group in range(len(scores)):
        relative = min(max(0.0, need[group] / scale), 1.0) if group < len(need) else 0.0
        scores[group] = combine(total_of(power, root[group]), relative, 1.0, need_alpha)
        total += scores[group]
    return total


@jit
def score_states(
    tree: GroupedTree, need: FloatArray, need_alpha: float, scores: FloatArray
) -> tuple[float, int]:
    """scores[s] = need[s]^b · Σ_{j in s} priority_j^alpha; returns their sum, and what they are.

    Negative need counts as 0, and need is divided by its largest entry, so that no power overflows.
    ``scores`` has one more entry than ``need``, for slots of unknown state, whose need is 0. Where
    the sum is 0, the scores are those of priority alone, and where that is 0, they count slots.
    O(states).
    """
    power, root, members = tree.power, tree.root, tree.members
    n_states = len(need)
    largest = 0.0
    for state in range(n_states):
        largest = max(largest, need[state])
    total = _score(power, root, need, need_alpha, largest, scores)
    if total < TINY:
        # The largest need may be of a state without slots; then only that of the others counts.
        largest = 0.0
        for state in range(n_states):
            if total_of(power, root[state]) > 0.0:
                largest = max(largest, need[state])
        total = _score(power, root, need, need_alpha, largest, scores)
    if total > 0.0:
        return total, BY_SCORE
    total = 0.0
    for group in range(n_states + 1):
        scores[group] = total_of(power, root[group])
        total += scores[group]
    if total > 0.0:
        return total, BY_PRIORITY
    for group in range(n_states + 1):
        scores[group] = members[group]
        total += scores[group]
    return total, UNIFORM


@jit
def sample_slot(
    tree: GroupedTree, scores: FloatArray, total: float, found: int, uniform: float
) -> int:
    """The slot at ``uniform`` in [0, 1) of the distribution that ``score_states`` wrote.

    O(states + log N).
    """
    rest = uniform * total
    group = NONE
    for candidate in range(len(scores)):
        if scores[candidate] > 0.0:
            group = candidate
            if rest < scores[group]:
                break
            rest -= scores[group]
    share = min(rest / scores[group], 1.0)
    if found == UNIFORM:
        place = min(int(share * tree.members[group]), tree.members[group] - 1)
        return slot_at(tree, group, place + 1)
    return slot_within(tree.power, tree.children, tree.root[group], share)


@jit
def slot_within(power: FloatArray, children: IntArray, root: int, share: float) -> int:
    """The slot below ``root`` at ``share`` in [0, 1] of its total, which must be positive.

    Rounding can leave more than there is; it then falls on the last slot with a positive power.
    """
    slot = root
    rest = share * power[root, TOTAL]
    while True:
        own = power[slot, OWN]
        left = children[slot, 0]
        right = children[slot, 1]
        below_left = total_of(power, left)
        below_right = total_of(power, right)
        if below_left > 0.0 and (rest < below_left or (own == 0.0 and below_right == 0.0)):
            slot = left
            continue
        rest -= below_left
        if own > 0.0 and (rest < own or below_right == 0.0):
            return slot
        rest -= own
        slot = right


@jit
def probability_of(
    tree: GroupedTree, scores: FloatArray, total: float, found: int, slot: int
) -> float:
    """P(slot) in the distribution that ``score_states`` wrote."""
    group = tree.group[slot]
    if scores[group] == 0.0:
        return 0.0
    if found == UNIFORM:
        return 1.0 / total
    share: float = tree.power[slot, OWN] / tree.power[tree.root[group], TOTAL]
    probability: float = scores[group] / total * share
    return probability
