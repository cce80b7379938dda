"""Slots grouped by state, one balanced sum tree per state: the kernels of the state-grouped draw.

The slots themselves are the nodes. A state's tree is complete (node k's parent is node k // 2,
counted from 1), so the place of a node says the path to it, and no memory is ever allocated: a slot
that changes its state is replaced by the last node of its tree and becomes the last of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.core.jit import jit
from needreplay.core.types import BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.fallbacks import BY_GAIN, BY_PRIORITY, UNIFORM
from needreplay.replay.samplers.proportional import masses_of
from needreplay.rules import priority as rules

priority = jit(rules.priority)
shaped = jit(rules.shaped)

NONE = -1
OWN = 0
TOTAL = 1


class GroupedTree(NamedTuple):
    """``capacity`` slots in ``n_states + 1`` groups: the last one is of slots of unknown state.

    ``mass[slot]`` holds gain^a of the slot and its sum over the slot's subtree; ``children`` are
    left and right. ``root`` and ``members``, how many there are, are per group. Slots that are not
    ``occupied`` are in no tree.
    """

    group: IntArray
    occupied: BoolArray
    mass: FloatArray
    children: IntArray
    parent: IntArray
    root: IntArray
    members: IntArray


def empty_tree(capacity: int, n_states: int) -> GroupedTree:
    """A tree without any slot in it."""
    return GroupedTree(
        group=np.full(capacity, n_states, dtype=np.int64),
        occupied=np.zeros(capacity, dtype=np.bool_),
        mass=np.zeros((capacity, 2)),
        children=np.full((capacity, 2), NONE, dtype=np.int64),
        parent=np.full(capacity, NONE, dtype=np.int64),
        root=np.full(n_states + 1, NONE, dtype=np.int64),
        members=np.zeros(n_states + 1, dtype=np.int64),
    )


def tree_of(states: IntArray, gain: FloatArray, n_states: int, alpha: float) -> GroupedTree:
    """The tree of a memory that is filled beforehand: slot i is of ``states[i]``. O(N)."""
    tree = empty_tree(len(states), n_states)
    tree.group[:] = states
    tree.occupied[:] = True
    tree.mass[:, OWN] = masses_of(np.asarray(gain, dtype=np.float64), alpha)
    link_all(tree)
    return tree


@jit
def link_all(tree: GroupedTree) -> None:
    """Lay out every tree anew from ``group``, ``occupied`` and own mass; writes the rest. O(N)."""
    n_groups = len(tree.root)
    first = np.zeros(n_groups + 1, dtype=np.int64)
    for slot in range(len(tree.group)):
        if tree.occupied[slot]:
            first[tree.group[slot] + 1] += 1
    for group in range(n_groups):
        tree.members[group] = first[group + 1]
        tree.root[group] = NONE
        first[group + 1] += first[group]
    placed = first[:n_groups].copy()
    order = np.empty(first[n_groups], dtype=np.int64)
    for slot in range(len(tree.group)):
        tree.children[slot] = NONE
        tree.parent[slot] = NONE
        tree.mass[slot, TOTAL] = tree.mass[slot, OWN]
        if tree.occupied[slot]:
            order[placed[tree.group[slot]]] = slot
            placed[tree.group[slot]] += 1
    for group in range(n_groups):
        if tree.members[group] > 0:
            tree.root[group] = order[first[group]]
        for place in range(tree.members[group], 1, -1):
            slot = order[first[group] + place - 1]
            above = order[first[group] + place // 2 - 1]
            tree.parent[slot] = above
            tree.children[above, place & 1] = slot
            tree.mass[above, TOTAL] += tree.mass[slot, TOTAL]


@jit
def total_of(mass: FloatArray, slot: int) -> float:
    """Σ gain^a over the subtree of ``slot``, 0 for no slot.

    This and other inner kernels take arrays: handing on the whole tuple costs reference counts.
    """
    return mass[slot, TOTAL] if slot != NONE else 0.0


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
    """Recompute the totals of ``slot`` and of all above it; writes ``mass``."""
    mass, children, parent = tree.mass, tree.children, tree.parent
    while slot != NONE:
        below = total_of(mass, children[slot, 0]) + total_of(mass, children[slot, 1])
        mass[slot, TOTAL] = mass[slot, OWN] + below
        slot = parent[slot]


@jit
def set_mass(tree: GroupedTree, slot: int, mass: float) -> None:
    """``slot`` has gain^a = ``mass`` from now on, and is occupied. O(log N)."""
    tree.mass[slot, OWN] = mass
    if tree.occupied[slot]:
        sum_upwards(tree, slot)
    else:
        tree.occupied[slot] = True
        attach(tree, slot)


@jit
def set_empty(tree: GroupedTree, slot: int) -> None:
    """``slot`` is not occupied any more, and of no known state. O(log N)."""
    if tree.occupied[slot]:
        detach(tree, slot)
    tree.occupied[slot] = False
    tree.group[slot] = len(tree.root) - 1
    tree.mass[slot] = 0.0


@jit
def set_group(tree: GroupedTree, slot: int, group: int) -> None:
    """``slot`` is of state ``group`` from now on. O(log N)."""
    if tree.occupied[slot]:
        detach(tree, slot)
        tree.group[slot] = group
        attach(tree, slot)
    else:
        tree.group[slot] = group


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
def detach(tree: GroupedTree, slot: int) -> None:
    """Take ``slot`` out of its group's tree; the tree's last slot takes its place."""
    group = tree.group[slot]
    last = slot_at(tree, group, tree.members[group])
    above = tree.parent[last]
    put_below(tree, group, above, last, NONE)
    tree.members[group] -= 1
    sum_upwards(tree, above)
    if last != slot:
        put_below(tree, group, tree.parent[slot], slot, last)
        tree.parent[last] = tree.parent[slot]
        for side in range(2):
            child = tree.children[slot, side]
            tree.children[last, side] = child
            if child != NONE:
                tree.parent[child] = last
        sum_upwards(tree, last)


@jit
def put_below(tree: GroupedTree, group: int, above: int, old: int, new: int) -> None:
    """Where ``above`` (or the group's root) pointed to ``old``, let it point to ``new``."""
    if above == NONE:
        tree.root[group] = new
    elif tree.children[above, 0] == old:
        tree.children[above, 0] = new
    else:
        tree.children[above, 1] = new


@jit
def score_states(
    tree: GroupedTree, need: FloatArray, need_alpha: float, scores: FloatArray
) -> tuple[float, int]:
    """scores[s] = need[s]^b · Σ_{j in s} gain_j^a; answers with their sum and how it was found.

    Negative need counts as 0, need is taken relative to its largest entry (no power overflows).
    ``scores`` has one more entry than ``need``, for slots of unknown state, whose need is 0. Where
    the sum is 0, the scores are of gain alone, and where that is 0, they count slots. O(states).
    """
    mass, root, members = tree.mass, tree.root, tree.members
    n_states = len(need)
    largest = 0.0
    for state in range(n_states):
        largest = max(largest, need[state])
    scale = largest if largest > 0.0 else 1.0
    total = 0.0
    for group in range(n_states + 1):
        relative = max(0.0, need[group] / scale) if group < n_states else 0.0
        weight = shaped(relative, need_alpha)
        scores[group] = priority(total_of(mass, root[group]), weight)
        total += scores[group]
    if total > 0.0:
        return total, BY_PRIORITY
    total = 0.0
    for group in range(n_states + 1):
        scores[group] = total_of(mass, root[group])
        total += scores[group]
    if total > 0.0:
        return total, BY_GAIN
    for group in range(n_states + 1):
        scores[group] = members[group]
        total += scores[group]
    return total, UNIFORM


@jit
def draw_slot(
    tree: GroupedTree, scores: FloatArray, total: float, found: int, uniform: float
) -> int:
    """The slot at ``uniform`` in [0, 1) of the distribution that ``score_states`` has scored.

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
    return slot_within(tree.mass, tree.children, tree.root[group], share)


@jit
def slot_within(mass: FloatArray, children: IntArray, root: int, share: float) -> int:
    """The slot below ``root`` at ``share`` in [0, 1] of its total, which has to be above 0.

    Rounding can leave more than there is; it then goes to the last slot that has any mass.
    """
    slot = root
    rest = share * mass[root, TOTAL]
    while True:
        own = mass[slot, OWN]
        left = children[slot, 0]
        right = children[slot, 1]
        below_left = total_of(mass, left)
        below_right = total_of(mass, right)
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
    """P(slot) under the distribution that ``score_states`` has scored."""
    group = tree.group[slot]
    if scores[group] == 0.0:
        return 0.0
    if found == UNIFORM:
        return 1.0 / total
    share: float = tree.mass[slot, OWN] / tree.mass[tree.root[group], TOTAL]
    probability: float = scores[group] / total * share
    return probability
