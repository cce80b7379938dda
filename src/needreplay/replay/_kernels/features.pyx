"""A vector for every slot, in float32: need is its inner product with a query."""

from libc.math cimport fabs, isfinite, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from numpy cimport int64_t

import numpy as np

from needreplay.equations import SMALLEST

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport LINE, as_i64, f32, f64, i64, new_array, prefetch

cnp.import_array()

cdef extern from "dot.h":
    double dot_product(const float* row, const double* query, Py_ssize_t length) noexcept nogil
    double sum_of_squares(const float* row, Py_ssize_t length) noexcept nogil

cdef enum:
    UNKNOWN = -1

cdef double TINIEST = SMALLEST


cdef double scale_into(const double* vector, double* out, Py_ssize_t length) noexcept nogil:
    """out = vector / its largest entry, so that no square overflows; returns that entry, or 0."""
    cdef double largest = 0.0
    cdef Py_ssize_t k
    for k in range(length):
        largest = max(largest, fabs(vector[k]))
    if largest > 0.0:
        for k in range(length):
            out[k] = vector[k] / largest
    return largest


cdef double squares_of(const double* vector, Py_ssize_t length) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t k
    for k in range(length):
        total += vector[k] * vector[k]
    return total


cdef void project(const double* features, double* out, Py_ssize_t length) noexcept nogil:
    """φ / |φ|², and 0 where φ = 0, as ``equations.projector`` has it."""
    cdef double squares, largest = scale_into(features, out, length)
    cdef Py_ssize_t k
    if largest < TINIEST:
        memset(out, 0, length * sizeof(double))
        return
    squares = squares_of(out, length)
    for k in range(length):
        out[k] = out[k] / squares / largest


def projected(rows):
    """φ / |φ|² of each row φ."""
    cdef Py_ssize_t i, length = rows.shape[-1]
    result = np.empty_like(rows)
    cdef const double* given = f64(rows, rows.size)
    cdef double* out = f64(result, rows.size)
    for i in range(rows.size // length):
        project(given + i * length, out + i * length, length)
    return result


def unit_rows(rows):
    """Each row divided by its length, and which rows are not 0."""
    cdef Py_ssize_t i, k, length = rows.shape[-1], count = rows.size // length
    result, positive = np.empty_like(rows), np.zeros(count, dtype=np.bool_)
    cdef const double* given = f64(rows, rows.size)
    cdef double* out = f64(result, rows.size)
    cdef double norm
    for i in range(count):
        if scale_into(given + i * length, out + i * length, length) > 0.0:
            positive[i] = True
            norm = sqrt(squares_of(out + i * length, length))
            for k in range(length):
                out[i * length + k] /= norm
    return result, positive


cdef class Features:
    """The vectors of slots, and when they were set.

    Args:
        arrays: ``vectors``, ``set_at`` (-1: no vector) and ``clock_and_cursor``.
        projects: whether φ / |φ|² is stored for the features φ that are given, or they as they are.
        nothing: a vector whose largest entry is below this counts as 0.
        smallest, largest: the largest entry of any other has to be from here to there.
    """

    def __init__(
        self, dict arrays, bint projects, double nothing, double smallest, double largest
    ):
        self._kept = arrays
        self.capacity, self.n_features = arrays["vectors"].shape
        self.projects, self.nothing = projects, nothing
        self.smallest, self.largest = smallest, largest
        self.vectors = f32(arrays["vectors"], self.capacity * self.n_features)
        self.set_at = i64(arrays["set_at"], self.capacity)
        self.clock_and_cursor = i64(arrays["clock_and_cursor"], 2)
        self.row = <double*>malloc(self.n_features * sizeof(double))
        if self.row == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.row)

    cdef bint convert(self, const double* given) noexcept nogil:
        """Make the vector for these features, in ``row``; whether it is in range."""
        cdef double size = 0.0
        cdef Py_ssize_t k
        for k in range(self.n_features):
            if not isfinite(given[k]):
                return False
            self.row[k] = given[k]
        if self.projects:
            project(given, self.row, self.n_features)
        for k in range(self.n_features):
            size = max(size, fabs(self.row[k]))
        if size < self.nothing:
            memset(self.row, 0, self.n_features * sizeof(double))
            return True
        return self.smallest <= size <= self.largest

    cdef void store(self, int64_t slot) noexcept nogil:
        """The vector in ``row`` is that of ``slot``, from now on."""
        cdef float* vector = self.vectors + slot * self.n_features
        cdef Py_ssize_t k
        for k in range(self.n_features):
            vector[k] = <float>self.row[k]
        self.set_at[slot] = self.clock_and_cursor[0]

    cdef void forget(self, int64_t slot) noexcept nogil:
        """``slot`` has no features."""
        if self.set_at[slot] != UNKNOWN:
            memset(self.vectors + slot * self.n_features, 0, self.n_features * sizeof(float))
            self.set_at[slot] = UNKNOWN

    cdef double need(self, int64_t slot, const double* query) noexcept nogil:
        return dot_product(self.vectors + slot * self.n_features, query, self.n_features)

    cdef double norm(self, int64_t slot) noexcept nogil:
        return sqrt(sum_of_squares(self.vectors + slot * self.n_features, self.n_features))

    cdef void request(self, int64_t slot) noexcept nogil:
        """Request the vector of ``slot`` from memory."""
        cdef const char* vector = <const char*>(self.vectors + slot * self.n_features)
        cdef Py_ssize_t line
        for line in range((4 * self.n_features + LINE - 1) // LINE):
            prefetch(vector + line * LINE)

    def are_fine(self, rows):
        """Whether all rows of features, in float64, are in range."""
        cdef Py_ssize_t i, count = len(rows)
        cdef const double* given = f64(rows, count * self.n_features)
        for i in range(count):
            if not self.convert(given + i * self.n_features):
                return False
        return True

    def set(self, slots, rows):
        """Set the features of ``slots``, a row each, which are fine."""
        cdef Py_ssize_t i, count = len(slots)
        slots = as_i64(slots)
        cdef const int64_t* slot = i64(slots, count)
        cdef const double* given = f64(rows, count * self.n_features)
        for i in range(count):
            self.convert(given + i * self.n_features)
            self.store(slot[i])

    def clear(self, slots):
        """``slots`` have no features."""
        cdef Py_ssize_t i, count = len(slots)
        slots = as_i64(slots)
        cdef const int64_t* slot = i64(slots, count)
        for i in range(count):
            self.forget(slot[i])

    def need_of(self, slots, query):
        """The inner product of each slot's vector with the query."""
        cdef Py_ssize_t i, count = len(slots)
        result = new_array(cnp.NPY_FLOAT64, count)
        cdef const int64_t* slot = i64(slots, count)
        cdef const double* q = f64(query, self.n_features)
        cdef double* out = f64(result, count)
        with nogil:
            for i in range(count):
                out[i] = self.need(slot[i], q)
        return result

    def next_known(self, Py_ssize_t count):
        """The next slots, from the cursor on, that have features."""
        chosen = new_array(cnp.NPY_INT64, min(count, self.capacity))
        cdef int64_t* out = i64(chosen, len(chosen))
        cdef Py_ssize_t tried = 0, found = 0, wanted = len(chosen)
        cdef int64_t cursor = self.clock_and_cursor[1]
        while tried < self.capacity and found < wanted:
            if self.set_at[cursor] != UNKNOWN:
                out[found] = cursor
                found += 1
            cursor = cursor + 1 if cursor + 1 < self.capacity else 0
            tried += 1
        self.clock_and_cursor[1] = cursor
        return chosen[:found]
