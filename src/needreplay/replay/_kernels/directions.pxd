from numpy cimport int64_t

from needreplay.replay._kernels.features cimport Features
from needreplay.replay._kernels.groups cimport Groups


cdef class Directions:
    cdef Features features
    cdef Groups groups
    cdef float* axes
    cdef double* lengths
    cdef int64_t* counts
    cdef Py_ssize_t most, page
    cdef double* products
    cdef double* vector
    cdef object _kept

    cdef int sort(self, int64_t slot) except -1
    cdef void point(self, Py_ssize_t axis, int64_t slot) noexcept nogil
    cdef void measure(self, Py_ssize_t axis) noexcept nogil
    cdef int64_t one_retiring(self) noexcept nogil
    cdef int64_t group_of(self, int64_t slot) noexcept nogil
    cdef void aim(self, const double* query) noexcept nogil
    cdef double bound(self, int64_t group) noexcept nogil
