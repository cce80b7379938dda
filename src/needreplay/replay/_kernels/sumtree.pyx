"""A wide sum tree in one flat float64 array: any capacity, parents recomputed, never incremented.

Eight numbers a node are one cache line. Level 0 (the leaves) comes first, each level is padded to
whole nodes, and the last number of the array is the total. A batch goes down (or up) level by
level, so that the memory can serve many of its members at once.
"""

from libc.stdlib cimport free, realloc

import numpy as np

from needreplay._core.errors import NeedReplayError

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport LINE, as_f64, as_i64, f64, i64, new_array, prefetch

cnp.import_array()


cdef inline double node_sum(const double* node) noexcept nogil:
    """Always in this order: equal children, equal sum."""
    return ((node[0] + node[1]) + (node[2] + node[3])) + ((node[4] + node[5]) + (node[6] + node[7]))


cdef class SumTree:
    """Masses of ``capacity`` leaves, sampled in proportion.

    ``array`` holds it all: ``array[:capacity]`` are the masses and ``array[-1]`` is their sum.
    """

    def __init__(self, Py_ssize_t capacity):
        if capacity < 1:
            raise NeedReplayError(f"capacity is {capacity}; a tree needs at least one leaf.")
        cdef Py_ssize_t start = 0, groups = capacity
        self.capacity = capacity
        while True:
            groups = (groups + FANOUT - 1) // FANOUT
            self.first[self.levels] = start
            self.levels += 1
            start += groups * FANOUT
            if groups == 1:
                break
        self.first[self.levels] = start
        memory = np.zeros(start + FANOUT + LINE // 8)  # the nodes begin on cache lines
        offset = -memory.ctypes.data % LINE // 8
        self.array = memory[offset : offset + start + FANOUT]
        self.numbers = f64(self.array, start + FANOUT)

    def __dealloc__(self):
        free(self.nodes)

    cdef double sum(self) noexcept nogil:
        return self.numbers[self.first[self.levels] + FANOUT - 1]

    @property
    def total(self):
        """The sum of all masses."""
        return self.sum()

    @property
    def masses(self):
        """The mass of each leaf; change them by ``set`` only."""
        return self.array[: self.capacity]

    def set(self, slots, masses):
        """Give ``slots`` their ``masses``; of equal slots the last wins."""
        cdef Py_ssize_t i, count = len(slots)
        slots, masses = as_i64(slots), as_f64(masses)
        cdef const int64_t* at = i64(slots, count)
        cdef const double* mass = f64(masses, count)
        for i in range(count):
            self.numbers[at[i]] = mass[i]
        with nogil:
            self.sum_above(at, count)

    cdef int sum_above(self, const int64_t* slots, Py_ssize_t count) except -1 nogil:
        """The leaves ``slots`` have changed: sum again all that is above them.

        Neighbors that share a node go up as one. On a level with no more nodes than slots that are
        left, every node is summed once: to sum all, ``count`` is the capacity, whatever ``slots``.
        """
        cdef Py_ssize_t i, kept, groups
        cdef int64_t parent
        cdef int level
        cdef double* above
        cdef const double* below
        cdef const int64_t* changed = slots
        if count == 0:
            return 0
        if count > self.reserved:
            larger = <int64_t*>realloc(self.nodes, count * sizeof(int64_t))
            if larger == NULL:
                raise MemoryError()
            self.nodes, self.reserved = larger, count
        for level in range(self.levels):
            below = self.numbers + self.first[level]
            above = self.numbers + self.first[level + 1]
            groups = (self.first[level + 1] - self.first[level]) // FANOUT
            if groups <= count:
                for i in range(groups):
                    above[i] = node_sum(below + i * FANOUT)
                continue
            kept = 0
            for i in range(count):
                parent = changed[i] // FANOUT
                if kept == 0 or parent != self.nodes[kept - 1]:
                    prefetch(below + parent * FANOUT)
                    self.nodes[kept] = parent
                    kept += 1
            count, changed = kept, self.nodes
            for i in range(count):
                above[changed[i]] = node_sum(below + changed[i] * FANOUT)
        self.numbers[self.first[self.levels] + FANOUT - 1] = self.numbers[self.first[self.levels]]
        return 0

    cdef void find(self, double* targets, int64_t* slots, Py_ssize_t count) noexcept nogil:
        """The leaf in which each target in [0, total) falls; ``targets`` are used up."""
        cdef Py_ssize_t i
        for i in range(count):
            slots[i] = 0
        self.descend(self.levels, targets, slots, count)

    cdef void descend(
        self, int level, double* targets, int64_t* nodes, Py_ssize_t count
    ) noexcept nogil:
        """From nodes of a level to the leaves below them in which targets fall, which are used up.

        The sums of a node are compared all alike, without a branch to guess. A target that rounding
        carries past the end of a node falls to its last child with mass, so that a leaf of mass 0
        is never found while any other has mass.
        """
        cdef double before[FANOUT]
        cdef double target, passed
        cdef const double* node
        cdef Py_ssize_t i
        cdef int below, k, child
        before[0] = 0.0
        for below in range(level - 1, -1, -1):
            for i in range(count):
                node = self.numbers + self.first[below] + nodes[i] * FANOUT
                target, passed, child = targets[i], 0.0, 0
                for k in range(FANOUT - 1):
                    passed += node[k]
                    before[k + 1] = passed
                    child += target >= passed
                targets[i] = target - before[child]
                while node[child] == 0.0 and child > 0:
                    child -= 1
                nodes[i] = nodes[i] * FANOUT + child
                if below > 0:
                    prefetch(self.numbers + self.first[below - 1] + nodes[i] * FANOUT)

    cdef void draw(
        self, double* uniforms, int64_t* slots, Py_ssize_t count, bint stratified
    ) noexcept nogil:
        """A leaf for each uniform number, which becomes its share of the total.

        ``stratified``: one in each of ``count`` equal strata.
        """
        cdef Py_ssize_t i
        cdef double total = self.sum()
        for i in range(count):
            if stratified:
                uniforms[i] = (i + uniforms[i]) / count * total
            else:
                uniforms[i] *= total
        self.find(uniforms, slots, count)
        for i in range(count):
            uniforms[i] = self.numbers[slots[i]] / total

    def sample(self, uniforms, bint stratified=False):
        """A slot for each uniform number in [0, 1), and its share of the total."""
        cdef Py_ssize_t count = len(uniforms)
        shares, slots = uniforms.copy(), new_array(cnp.NPY_INT64, count)
        cdef double* share = f64(shares, count)
        cdef int64_t* slot = i64(slots, count)
        with nogil:
            self.draw(share, slot, count, stratified)
        return slots, shares

    def check_valid(self):
        """Raise unless every parent is the sum of its children and no mass is negative."""
        cdef Py_ssize_t level, start, end, used = self.capacity
        for level in range(self.levels):
            start, end = self.first[level], self.first[level + 1]
            nodes = self.array[start:end].reshape(-1, FANOUT)
            a, b, c, d, e, f, g, h = nodes.T
            with np.errstate(invalid="ignore", over="ignore"):
                sums = ((a + b) + (c + d)) + ((e + f) + (g + h))
            above = self.array[end : end + len(sums)]
            if not np.array_equal(sums, above) or self.array[start + used : end].any():
                raise NeedReplayError("The sum tree holds a sum that is not that of its children.")
            used = len(sums)
        if self.array[-1] != above[0]:
            raise NeedReplayError("The sum tree holds a sum that is not that of its children.")
        if not np.all(self.masses >= 0.0) or not np.isfinite(self.total):
            raise NeedReplayError("The sum tree holds a mass that is negative or not finite.")
