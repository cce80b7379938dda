"""Slots grouped by state, one balanced sum tree per state.

The slots themselves are the nodes. A state's tree is complete (node k's parent is node k // 2,
counted from 1), so the place of a node gives the path to it, and nothing is ever allocated: a slot
that changes its state is replaced by the last node of its tree and becomes the last of another.
"""

from numpy cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport as_i64, f64, i64, new_array, truth
from needreplay.replay._kernels.equations cimport combine, power, uniform_index
from needreplay.replay._kernels.kernel cimport Kernel, is_unknown

cnp.import_array()

cdef enum:
    NONE = -1
    OWN = 0, TOTAL            # columns of ``power``
    BY_SCORE = 0, BY_PRIORITY, UNIFORM

cdef double TINY = 1e-200  # below this a sum of scores may have lost digits to underflow


def empty_tree(Py_ssize_t capacity, Py_ssize_t n_states):
    """The arrays of ``capacity`` slots in ``n_states + 1`` groups: the last is of unknown state.

    ``power[slot]`` holds priority^alpha of the slot and its sum over the slot's subtree;
    ``children`` are left and right. ``root`` and ``members`` (how many) are per group. Slots that
    are not ``occupied`` are in no tree.
    """
    return {
        "group": np.full(capacity, n_states, dtype=np.int64),
        "occupied": np.zeros(capacity, dtype=np.bool_),
        "power": np.zeros((capacity, 2)),
        "children": np.full((capacity, 2), NONE, dtype=np.int64),
        "parent": np.full(capacity, NONE, dtype=np.int64),
        "root": np.full(n_states + 1, NONE, dtype=np.int64),
        "members": np.zeros(n_states + 1, dtype=np.int64),
    }


cdef class StateTree(Kernel):
    """Raw priorities, and priority^alpha in the tree of each slot's state."""

    cdef double* priorities
    cdef double* power
    cdef public double alpha
    cdef int64_t* group
    cdef uint8_t* occupied
    cdef int64_t* children
    cdef int64_t* parent
    cdef int64_t* root
    cdef int64_t* members
    cdef Py_ssize_t n_groups

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, double alpha
    ):
        Kernel.__init__(self, arrays, capacity, follows_window)
        self.n_groups, self.alpha = len(arrays["root"]), alpha
        self.priorities, self.power = f64(arrays["priorities"], capacity), f64(arrays["power"], 2 * capacity)
        self.group, self.occupied = i64(arrays["group"], capacity), truth(arrays["occupied"], capacity)
        self.children, self.parent = i64(arrays["children"], 2 * capacity), i64(arrays["parent"], capacity)
        self.root, self.members = i64(arrays["root"], self.n_groups), i64(arrays["members"], self.n_groups)

    # What a buffer calls ------------------------------------------------------------------------

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """Their need is 0 until their state is set."""
        cdef Py_ssize_t i
        for i in range(count):
            self.set_group(slots[i], self.n_groups - 1)
        return 0

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        cdef Py_ssize_t i
        Kernel.assign(self, slots, priorities, count)
        for i in range(count):
            self.priorities[slots[i]] = priorities[i]
            self.set_power(slots[i], power(priorities[i], self.alpha))
        return 0

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        cdef Py_ssize_t i
        Kernel.leave(self, slots, count)
        for i in range(count):
            self.set_empty(slots[i])
        return 0

    cdef int arrive(
        self, const int64_t* slots, const int64_t* previous, const double* priorities,
        const char* rows, Py_ssize_t step, Py_ssize_t count,
    ) except -1:
        """The same as one after the other, with one change of tree for each slot."""
        cdef Py_ssize_t i
        cdef int64_t slot
        Kernel.assign(self, slots, priorities, count)
        for i in range(count):
            slot = slots[i]
            if self.occupied[slot]:
                self.detach(slot)
            self.occupied[slot] = True
            self.group[slot] = self.n_groups - 1
            if rows != NULL and not is_unknown(rows + i * step):
                self.group[slot] = (<const int64_t*>(rows + i * step))[0]
            self.priorities[slot] = priorities[i]
            self.power[2 * slot + OWN] = power(priorities[i], self.alpha)
            self.attach(slot)
        return 0

    cdef bint takes(self, const char* row) noexcept:
        return 0 <= (<const int64_t*>row)[0] < self.n_groups - 1

    cdef int describe(
        self, const int64_t* slots, const char* rows, Py_ssize_t step, Py_ssize_t count
    ) except -1:
        cdef Py_ssize_t i
        for i in range(count):
            self.set_group(slots[i], (<const int64_t*>(rows + i * step))[0])
        return 0

    def set_states(self, slots, states):
        """Set the state of each of ``slots``."""
        cdef Py_ssize_t i, count = len(slots)
        slots, states = as_i64(slots), as_i64(states)
        cdef const int64_t* slot = i64(slots, count)
        cdef const int64_t* state = i64(states, count)
        for i in range(count):
            self.set_group(slot[i], state[i])

    # The trees ----------------------------------------------------------------------------------

    cdef double total_of(self, int64_t slot) noexcept nogil:
        """Σ priority^alpha over the subtree of ``slot``, 0 for no slot."""
        return self.power[2 * slot + TOTAL] if slot != NONE else 0.0

    cdef int64_t slot_at(self, Py_ssize_t group, int64_t place) noexcept nogil:
        """The slot at ``place`` (from 1) of a group's tree.

        Below its first bit, 0 is left and 1 right.
        """
        cdef int64_t slot = self.root[group], step = 1
        while step * 2 <= place:
            step *= 2
        step //= 2
        while step > 0 and slot != NONE:
            slot = self.children[2 * slot + (1 if place & step else 0)]
            step //= 2
        return slot

    cdef void sum_upwards(self, int64_t slot) noexcept nogil:
        """Recompute the totals of ``slot`` and of all above it."""
        while slot != NONE:
            below = self.total_of(self.children[2 * slot])
            below += self.total_of(self.children[2 * slot + 1])
            self.power[2 * slot + TOTAL] = self.power[2 * slot + OWN] + below
            slot = self.parent[slot]

    cdef void set_power(self, int64_t slot, double new) noexcept nogil:
        """Set priority^alpha of ``slot``, which becomes occupied. O(log N)."""
        self.power[2 * slot + OWN] = new
        if self.occupied[slot]:
            self.sum_upwards(slot)
        else:
            self.occupied[slot] = True
            self.attach(slot)

    cdef void set_empty(self, int64_t slot) noexcept nogil:
        """Empty ``slot``; its state is unknown. O(log N)."""
        if self.occupied[slot]:
            self.detach(slot)
        self.priorities[slot] = NONE
        self.occupied[slot] = False
        self.group[slot] = self.n_groups - 1
        self.power[2 * slot + OWN] = self.power[2 * slot + TOTAL] = 0.0

    cdef void set_group(self, int64_t slot, int64_t group) noexcept nogil:
        """Set the state of ``slot``. O(log N)."""
        if self.occupied[slot]:
            self.detach(slot)
            self.group[slot] = group
            self.attach(slot)
        else:
            self.group[slot] = group

    cdef void attach(self, int64_t slot) noexcept nogil:
        """Put ``slot`` at the last place of its group's tree."""
        cdef int64_t group = self.group[slot]
        self.members[group] += 1
        cdef int64_t place = self.members[group], above
        self.children[2 * slot] = self.children[2 * slot + 1] = self.parent[slot] = NONE
        if place == 1:
            self.root[group] = slot
        else:
            above = self.slot_at(group, place // 2)
            self.children[2 * above + (place & 1)] = slot
            self.parent[slot] = above
        self.sum_upwards(slot)

    cdef void detach(self, int64_t slot) noexcept nogil:
        """Take ``slot`` out of its group's tree; the tree's last slot takes its place."""
        cdef int64_t group = self.group[slot], last, above, child
        cdef int side
        last = self.slot_at(group, self.members[group])
        above = self.parent[last]
        self.put_below(group, above, last, NONE)
        self.members[group] -= 1
        self.sum_upwards(above)
        if last == slot:
            return
        self.put_below(group, self.parent[slot], slot, last)
        self.parent[last] = self.parent[slot]
        for side in range(2):
            child = self.children[2 * slot + side]
            self.children[2 * last + side] = child
            if child != NONE:
                self.parent[child] = last
        self.sum_upwards(last)

    cdef void put_below(
        self, int64_t group, int64_t above, int64_t old, int64_t new
    ) noexcept nogil:
        """Make ``above`` (or the group's root) point to ``new`` where it pointed to ``old``."""
        if above == NONE:
            self.root[group] = new
        elif self.children[2 * above] == old:
            self.children[2 * above] = new
        else:
            self.children[2 * above + 1] = new

    def first_wrong(self):
        """The first group whose tree is not complete, linked both ways and summed up; -1 for none.

        Links are slots or -1, and ``members`` counts the slots of each group. A place below a
        missing one is never found, because each slot at a place has to name the slot above it.
        """
        cdef Py_ssize_t group, place, side
        cdef int64_t slot, above
        seen = np.zeros(self.capacity, dtype=np.bool_)
        cdef uint8_t* was_seen = truth(seen, self.capacity)
        for group in range(self.n_groups):
            if self.members[group] == 0 and self.root[group] != NONE:
                return group
            for place in range(1, self.members[group] + 1):
                slot = self.slot_at(group, place)
                if slot == NONE or was_seen[slot] or self.group[slot] != group:
                    return group
                was_seen[slot] = True
                above = NONE if place == 1 else self.slot_at(group, place // 2)
                if self.parent[slot] != above or not self.occupied[slot]:
                    return group
                for side in range(2):
                    is_last = 2 * place + side > self.members[group]
                    if is_last != (self.children[2 * slot + side] == NONE):
                        return group
                below = self.total_of(self.children[2 * slot])
                below += self.total_of(self.children[2 * slot + 1])
                if self.power[2 * slot + TOTAL] != self.power[2 * slot + OWN] + below:
                    return group
        return NONE

    # Sampling -----------------------------------------------------------------------------------

    cdef double score_by(
        self, const double* need, double need_alpha, double largest, double* scores
    ) noexcept nogil:
        """Write the scores for need as a share of ``largest``, 1 at most; returns their sum."""
        cdef double relative, total = 0.0, scale = largest if largest > 0.0 else 1.0
        cdef Py_ssize_t group
        for group in range(self.n_groups):
            relative = 0.0
            if group < self.n_groups - 1:
                relative = min(max(0.0, need[group] / scale), 1.0)
            scores[group] = combine(self.total_of(self.root[group]), relative, need_alpha)
            total += scores[group]
        return total

    def score(self, need, double need_alpha, scores):
        """scores[s] = need[s]^b · Σ_{j in s} priority_j^alpha; their sum, and what they are.

        Negative need counts as 0, and need is divided by its largest entry, so that no power
        overflows. ``scores`` has one more entry than ``need``, for slots of unknown state, whose
        need is 0. Where the sum is 0, the scores are those of priority alone, and where that is 0,
        they count slots. O(states).
        """
        cdef Py_ssize_t group, n_states = self.n_groups - 1
        cdef const double* given = f64(need, n_states)
        cdef double* out = f64(scores, self.n_groups)
        cdef double total, largest = 0.0
        for group in range(n_states):
            largest = max(largest, given[group])
        total = self.score_by(given, need_alpha, largest, out)
        if total < TINY:
            # The largest need may be of a state without slots; then only that of the others counts.
            largest = 0.0
            for group in range(n_states):
                if self.total_of(self.root[group]) > 0.0:
                    largest = max(largest, given[group])
            total = self.score_by(given, need_alpha, largest, out)
        if total > 0.0:
            return total, BY_SCORE
        total = 0.0
        for group in range(self.n_groups):
            out[group] = self.total_of(self.root[group])
            total += out[group]
        if total > 0.0:
            return total, BY_PRIORITY
        for group in range(self.n_groups):
            out[group] = self.members[group]
            total += out[group]
        return total, UNIFORM

    def sample(self, scores, double total, int found, uniforms):
        """A slot for each uniform number, of the distribution that ``score`` wrote.

        O(states + log N) each.
        """
        cdef Py_ssize_t i, count = len(uniforms)
        slots = new_array(cnp.NPY_INT64, count)
        cdef const double* score = f64(scores, self.n_groups)
        cdef const double* uniform = f64(uniforms, count)
        cdef int64_t* slot = i64(slots, count)
        with nogil:
            for i in range(count):
                slot[i] = self.sample_slot(score, total, found, uniform[i])
        return slots

    cdef int64_t sample_slot(
        self, const double* scores, double total, int found, double uniform
    ) noexcept nogil:
        cdef double share, rest = uniform * total
        cdef Py_ssize_t candidate, group = NONE
        for candidate in range(self.n_groups):
            if scores[candidate] > 0.0:
                group = candidate
                if rest < scores[group]:
                    break
                rest -= scores[group]
        share = min(rest / scores[group], 1.0)
        if found == UNIFORM:
            return self.slot_at(group, uniform_index(share, self.members[group]) + 1)
        return self.slot_within(self.root[group], share)

    cdef int64_t slot_within(self, int64_t slot, double share) noexcept nogil:
        """The slot below ``slot`` at ``share`` in [0, 1] of its total, which must be positive.

        Rounding can leave more than there is; it then falls on the last slot with a positive power.
        """
        cdef double own, left, right, rest = share * self.power[2 * slot + TOTAL]
        while True:
            own = self.power[2 * slot + OWN]
            left = self.total_of(self.children[2 * slot])
            right = self.total_of(self.children[2 * slot + 1])
            if left > 0.0 and (rest < left or (own == 0.0 and right == 0.0)):
                slot = self.children[2 * slot]
                continue
            rest -= left
            if own > 0.0 and (rest < own or right == 0.0):
                return slot
            rest -= own
            slot = self.children[2 * slot + 1]

    def probabilities(self, scores, double total, int found, slots):
        """P of each of ``slots`` in the distribution that ``score`` wrote."""
        cdef Py_ssize_t i, count = len(slots)
        cdef int64_t group
        result = new_array(cnp.NPY_FLOAT64, count)
        cdef const double* score = f64(scores, self.n_groups)
        cdef const int64_t* slot = i64(slots, count)
        cdef double* out = f64(result, count)
        for i in range(count):
            group = self.group[slot[i]]
            if score[group] == 0.0:
                out[i] = 0.0
            elif found == UNIFORM:
                out[i] = 1.0 / total
            else:
                out[i] = score[group] / total * (
                    self.power[2 * slot[i] + OWN] / self.power[2 * self.root[group] + TOTAL]
                )
        return result
