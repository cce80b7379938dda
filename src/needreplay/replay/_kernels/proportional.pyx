"""Raw priorities, and priority^alpha in a sum tree."""

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport f64
from needreplay.replay._kernels.equations cimport power

cnp.import_array()


cdef class Proportional(Kernel):
    """See ``Kernel`` for the first three arguments."""

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, SumTree tree, double alpha,
        bint stratified, bint samples_alone=True,
    ):
        Kernel.__init__(self, arrays, capacity, follows_window, samples_alone)
        self.priorities = f64(arrays["priorities"], capacity)
        self.tree, self.alpha, self.stratified = tree, alpha, stratified

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        cdef Py_ssize_t i
        Kernel.assign(self, slots, priorities, count)
        for i in range(count):
            self.priorities[slots[i]] = priorities[i]
        return self.follow(self.tree, slots, count)

    cdef int follow(self, SumTree tree, const int64_t* slots, Py_ssize_t count) except -1:
        """The leaves of ``slots`` are priority^alpha (or the floor's), 0 where a slot is empty."""
        cdef Py_ssize_t i
        cdef double priority, before = EMPTY, mass = 0.0
        for i in range(count):  # new transitions have equal priorities: one power for all
            priority = self.priorities[slots[i]]
            if priority != before:
                before, mass = priority, 0.0
                if priority != EMPTY:
                    mass = power(max(priority, self.priority_floor), self.alpha)
            tree.numbers[slots[i]] = mass
        return tree.sum_above(slots, count)

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        cdef Py_ssize_t i
        Kernel.leave(self, slots, count)
        for i in range(count):
            self.priorities[slots[i]] = EMPTY
        return self.follow(self.tree, slots, count)

    cdef bint draw(self, double* uniforms, int64_t* slots, Py_ssize_t count) noexcept nogil:
        if self.tree.sum() == 0.0:
            return False
        self.tree.draw(uniforms, slots, count, self.stratified)
        return True
