from numpy cimport int64_t

cdef enum:
    FANOUT = 8
    MOST_LEVELS = 24


cdef class SumTree:
    cdef readonly object array
    cdef readonly Py_ssize_t capacity
    cdef double* numbers
    cdef Py_ssize_t first[MOST_LEVELS + 1]
    cdef int levels
    cdef int64_t* nodes
    cdef Py_ssize_t reserved

    cdef double sum(self) noexcept nogil
    cdef int sum_above(self, const int64_t* slots, Py_ssize_t count) except -1 nogil
    cdef void find(self, double* targets, int64_t* slots, Py_ssize_t count) noexcept nogil
    cdef void descend(
        self, int level, double* targets, int64_t* nodes, Py_ssize_t count
    ) noexcept nogil
    cdef void draw(
        self, double* uniforms, int64_t* slots, Py_ssize_t count, bint stratified
    ) noexcept nogil
