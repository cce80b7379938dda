"""Recency: leaves that grow with every new transition, so that old ones need not be changed.

A slot's leaf is priority^alpha e^(rate (stamp - age) + base), and its stamp minus its age never
changes. Where leaves become too large, all are written again, with the largest at 1.
"""

from libc.math cimport INFINITY, exp, log
from numpy cimport int64_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport f64, i64
from needreplay.replay._kernels.kernel cimport Kernel
from needreplay.replay._kernels.proportional cimport EMPTY, Proportional
from needreplay.replay._kernels.sumtree cimport SumTree

cnp.import_array()

cdef enum:
    NEWEST, STAMP

cdef double SMALLEST_TOTAL = 1e-200, LARGEST_TOTAL = 1e200
# Of a leaf, until it is written again: above the largest total, and no sum of these overflows.
cdef double LARGEST_LOG = 500.0


cdef class Recency(Proportional):
    """Priorities times recency. ``gains`` is a second tree, of priority^alpha alone."""

    cdef SumTree gains
    cdef int64_t* clock
    cdef double* base
    cdef double rate

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, SumTree tree, double alpha,
        bint samples_alone, SumTree gains, double rate,
    ):
        Proportional.__init__(
            self, arrays, capacity, follows_window, tree, alpha, False, samples_alone
        )
        self.clock, self.base = i64(arrays["clock"], 2), f64(arrays["base"], 1)
        self.gains, self.rate = gains, rate

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """They are the newest of all when their priorities are set."""
        cdef Py_ssize_t i
        for i in range(count):
            self.priorities[slots[i]] = EMPTY
        return 0

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        """Store raw priorities; each slot that was empty is the newest from then on."""
        cdef Py_ssize_t i
        Kernel.assign(self, slots, priorities, count)
        for i in range(count):
            if self.priorities[slots[i]] == EMPTY:
                self.clock[NEWEST] = slots[i]
                self.clock[STAMP] += 1
            self.priorities[slots[i]] = priorities[i]
        self.follow(self.gains, slots, count)
        return self.write(slots, count)

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        Proportional.leave(self, slots, count)
        self.follow(self.gains, slots, count)
        return self.write(slots, count)

    cdef double log_mass(self, int64_t slot) noexcept nogil:
        """log(priority^alpha) + rate (stamp - age) + base, by the leaf of ``gains``."""
        cdef double gain = self.gains.numbers[slot]
        cdef int64_t age = (self.clock[NEWEST] - slot + self.capacity) % self.capacity
        if gain <= 0.0:
            return -INFINITY
        return log(gain) + self.rate * (self.clock[STAMP] - age) + self.base[0]

    cdef double mass(self, int64_t slot) noexcept nogil:
        return exp(min(self.log_mass(slot), LARGEST_LOG))

    cdef int write(self, const int64_t* slots, Py_ssize_t count) except -1:
        """Bring the leaves of ``slots`` in line, or those of all."""
        cdef Py_ssize_t i
        cdef double largest = -INFINITY
        for i in range(count):
            self.tree.numbers[slots[i]] = self.mass(slots[i])
        self.tree.sum_above(slots, count)
        if SMALLEST_TOTAL <= self.tree.sum() <= LARGEST_TOTAL:
            return 0
        self.clock[STAMP], self.base[0] = 0, 0.0
        for i in range(self.capacity):
            self.tree.numbers[i] = self.log_mass(i)
            largest = max(largest, self.tree.numbers[i])
        self.base[0] = 0.0 if largest == -INFINITY else -largest
        for i in range(self.capacity):
            self.tree.numbers[i] = exp(self.tree.numbers[i] + self.base[0])
        every = np.arange(self.capacity)
        return self.tree.sum_above(i64(every, self.capacity), self.capacity)

    def masses(self):
        """The leaves that all slots should have."""
        return np.array([self.mass(slot) for slot in range(self.capacity)])
