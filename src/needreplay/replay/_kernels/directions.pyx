"""Vectors in groups by direction, and the largest cosine that a query can have with any of a group.

A group is a ring around an axis, 7.5 degrees wide: the vectors to which this axis is the nearest, by
their angle to it. Axes are vectors that were once set. They retire in turn: a retiring axis takes no
more members, each vector that is set moves one of those it has, and when it has none it is replaced
by the next vector that is set. So axes follow what is stored, at a constant cost for each vector.
"""

from libc.math cimport M_PI, cos, sin, sqrt
from libc.stdlib cimport free, malloc
from numpy cimport int64_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport f32, f64, i64
from needreplay.replay._kernels.features cimport Features
from needreplay.replay._kernels.groups cimport NONE, Groups

cnp.import_array()

cdef extern from "dot.h":
    void dot_products(
        const float* rows, Py_ssize_t count, const double* query, Py_ssize_t length,
        double* products
    ) noexcept nogil
    double sum_of_squares(const float* row, Py_ssize_t length) noexcept nogil

cdef enum:
    RINGS = 12
    AXES = 0, RETIRING   # of ``counts``

# How much a bound is raised. The sine of a small angle from its cosine is wrong by 1e-8.
cdef double WIDER = 1e-6
cdef double[RINGS + 1] COS
cdef double[RINGS + 1] SIN
cdef int _k
for _k in range(RINGS):
    COS[_k], SIN[_k] = cos(_k * M_PI / 24), sin(_k * M_PI / 24)
COS[RINGS], SIN[RINGS] = -1.0, 0.0  # the last ring has all that is left


def empty_directions(Py_ssize_t n_features):
    """The arrays of no axes, of at most 64: fewer for long vectors, which are longer to compare."""
    most = max(1, min(64, 1024 // n_features))
    return {
        "axes": np.zeros((most, n_features), dtype=np.float32),
        "axis_counts": np.zeros(2, dtype=np.int64),
    }


def n_groups(arrays):
    """How many groups there can be."""
    return len(arrays["axes"]) * RINGS


cdef inline int ring_of(double cosine) noexcept nogil:
    """The ring of vectors with this cosine of the angle to the axis."""
    cdef int ring = 0
    while cosine < COS[ring + 1] and ring < RINGS - 1:
        ring += 1
    return ring


cdef class Directions:
    """Bound to the arrays of ``empty_directions``; keeps the slots with a vector in ``groups``."""

    def __init__(self, dict arrays, Features features, Groups groups):
        cdef Py_ssize_t d = features.n_features
        self._kept, self.features, self.groups = arrays, features, groups
        self.most = len(arrays["axes"])
        self.axes, self.counts = f32(arrays["axes"], self.most * d), i64(arrays["axis_counts"], 2)
        self.products = <double*>malloc((2 * self.most + d) * sizeof(double))
        if self.products == NULL:
            raise MemoryError()
        self.lengths, self.vector = self.products + self.most, self.products + 2 * self.most

    def __dealloc__(self):
        free(self.products)

    cdef int sort(self, int64_t slot) except -1:
        """Put ``slot``, whose vector was set, in its group; it has no mass until that is set."""
        cdef int64_t other
        cdef double mass
        self.groups.leave(slot)
        if self.features.norm(slot) == 0.0:
            return 0
        if self.counts[AXES] < self.most:
            self.point(self.counts[AXES], slot)
            self.counts[AXES] += 1
        elif self.most > 1:
            other = self.one_retiring()
            if other == NONE:
                self.point(self.counts[RETIRING], slot)
                self.counts[RETIRING] = (self.counts[RETIRING] + 1) % self.most
                self.page = 0
            else:
                mass = self.groups.leave(other)
                self.groups.join(other, self.group_of(other), mass)
        return self.groups.join(slot, self.group_of(slot), 0.0)

    cdef void point(self, Py_ssize_t axis, int64_t slot) noexcept nogil:
        """The direction of ``slot`` is that of ``axis``, which has no members."""
        cdef Py_ssize_t k, d = self.features.n_features
        for k in range(d):
            self.axes[axis * d + k] = self.features.vectors[slot * d + k]
        self.measure(axis)

    cdef void measure(self, Py_ssize_t axis) noexcept nogil:
        """Note the length of an axis."""
        cdef Py_ssize_t d = self.features.n_features
        self.lengths[axis] = sqrt(sum_of_squares(self.axes + axis * d, d))

    cdef int64_t one_retiring(self) noexcept nogil:
        """A slot that the retiring axis still has; -1 for none. ``page`` is the first it may be on."""
        cdef int64_t group, last
        while self.page < self.groups.n_pages:
            group = self.groups.group[self.page]
            if group != NONE and group // RINGS == self.counts[RETIRING]:
                last = self.groups.members[self.page] - 1
                return self.groups.slot_at[self.page * self.groups.page_size + last]
            self.page += 1
        return NONE

    cdef int64_t group_of(self, int64_t slot) noexcept nogil:
        """The ring around the nearest axis that does not retire, of a slot whose vector is not 0."""
        cdef Py_ssize_t k, d = self.features.n_features, nearest = 0, count = self.counts[AXES]
        cdef double cosine, largest = -2.0, norm = self.features.norm(slot)
        cdef int64_t retiring = self.counts[RETIRING] if 1 < self.most == count else NONE
        for k in range(d):
            self.vector[k] = self.features.vectors[slot * d + k]
        dot_products(self.axes, count, self.vector, d, self.products)
        for k in range(count):
            cosine = self.products[k] / (self.lengths[k] * norm)
            if k != retiring and cosine > largest:
                largest, nearest = cosine, k
        return nearest * RINGS + ring_of(largest)

    cdef void aim(self, const double* query) noexcept nogil:
        """``bound`` is for this query of length 1, from now on."""
        cdef Py_ssize_t k
        dot_products(self.axes, self.counts[AXES], query, self.features.n_features, self.products)
        for k in range(self.counts[AXES]):
            self.products[k] = max(-1.0, min(self.products[k] / self.lengths[k], 1.0))

    cdef double bound(self, int64_t group) noexcept nogil:
        """No vector of the group has a larger cosine with the query.

        The angle to the query is at least the difference of their angles to the axis.
        """
        cdef double cosine = self.products[group // RINGS]
        cdef int edge = group % RINGS  # the inner one
        if cosine <= COS[edge]:
            edge += 1
            if cosine >= COS[edge]:
                return 1.0
        return cosine * COS[edge] + sqrt(1.0 - cosine * cosine) * SIN[edge] + WIDER

    def first_wrong(self):
        """The first slot that is not in the ring of its angle to its axis; -1 for none."""
        cdef Py_ssize_t k, d = self.features.n_features
        cdef int64_t slot, group
        for slot in range(self.groups.capacity):
            if self.groups.place[slot] != NONE:
                group = self.groups.group[self.groups.page_of(slot)]
                if group // RINGS >= self.counts[AXES]:
                    return slot
                for k in range(d):
                    self.vector[k] = self.features.vectors[slot * d + k]
                dot_products(self.axes + group // RINGS * d, 1, self.vector, d, self.products)
                norm = self.lengths[group // RINGS] * self.features.norm(slot)
                if group % RINGS != ring_of(self.products[0] / norm):
                    return slot
        return NONE

    def bounds(self, query):
        """The bound of every group for a query of length 1."""
        self.aim(f64(query, self.features.n_features))
        return np.array([self.bound(group) for group in range(self.groups.n_groups)])

    def restore(self):
        """Derive what follows from the axes."""
        cdef Py_ssize_t axis
        self.page = 0
        for axis in range(self.most):
            self.measure(axis)
