"""PSER: a priority decays back along the trajectory that led to it, and falls slowly."""

from libc.stdlib cimport free, malloc
from numpy cimport int64_t

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport i64
from needreplay.replay._kernels.equations cimport pser_decayed, pser_priority
from needreplay.replay._kernels.kernel cimport Kernel
from needreplay.replay._kernels.proportional cimport EMPTY, Proportional
from needreplay.replay._kernels.sumtree cimport SumTree

from needreplay.replay.validation import MIN_PRIORITY

cnp.import_array()

cdef enum:
    NONE = -1

cdef double SMALLEST = MIN_PRIORITY


cdef inline double in_range(double priority) noexcept nogil:
    """``priority``, or 0 where decay took it below the range."""
    return priority if priority >= SMALLEST else 0.0


cdef class Pser(Proportional):
    """Priorities that pass back along links to the transition ``before`` and ``after`` each."""

    cdef int64_t* before
    cdef int64_t* after
    cdef public double retained, decay
    cdef Py_ssize_t steps_back

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, SumTree tree, double alpha,
        bint stratified, bint samples_alone, double retained, double decay, Py_ssize_t steps_back,
    ):
        Proportional.__init__(
            self, arrays, capacity, follows_window, tree, alpha, stratified, samples_alone
        )
        self.before, self.after = i64(arrays["before"], capacity), i64(arrays["after"], capacity)
        self.retained, self.decay = retained, decay
        self.steps_back = min(steps_back, capacity)

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """Forget what was in ``slots``, and link the new occupants to ``previous``."""
        cdef Py_ssize_t i
        cdef int64_t slot
        for i in range(count):
            slot = slots[i]
            if self.after[slot] != NONE and self.before[self.after[slot]] == slot:
                self.before[self.after[slot]] = NONE
            self.after[slot] = NONE
            self.before[slot] = NONE if previous == NULL else previous[i]
            if self.before[slot] != NONE:
                self.after[self.before[slot]] = slot
            self.priorities[slot] = EMPTY
        return 0

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        """p_i = max(priority_i, η p_i); then p_{i-k} = max(p_{i-k}, p_i ρ^k) for k = 1, 2, ...

        A new transition takes its priority as it is and passes nothing back.
        """
        cdef Py_ssize_t i, steps, n = 0
        cdef int64_t slot, earlier
        cdef double* stored = self.priorities
        Kernel.assign(self, slots, priorities, count)
        changed = <int64_t*>malloc(max(1, count * (self.steps_back + 1)) * sizeof(int64_t))
        if changed == NULL:
            raise MemoryError()
        for i in range(count):
            slot = slots[i]
            changed[n] = slot
            n += 1
            if stored[slot] == EMPTY:
                stored[slot] = priorities[i]
                continue
            stored[slot] = in_range(pser_priority(priorities[i], stored[slot], self.retained))
            earlier = self.before[slot]
            for steps in range(1, self.steps_back + 1):
                if earlier == NONE:
                    break
                stored[earlier] = max(
                    stored[earlier], in_range(pser_decayed(stored[slot], self.decay, steps))
                )
                changed[n] = earlier
                n += 1
                earlier = self.before[earlier]
        try:
            return self.follow(self.tree, changed, n)
        finally:
            free(changed)

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        self.enter(slots, NULL, count)
        return Proportional.leave(self, slots, count)
