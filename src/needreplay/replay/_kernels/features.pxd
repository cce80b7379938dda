from numpy cimport int64_t


cdef class Features:
    cdef readonly Py_ssize_t capacity, n_features
    cdef bint projects
    cdef double nothing, smallest, largest
    cdef float* vectors
    cdef int64_t* set_at
    cdef int64_t* clock_and_cursor
    cdef double* row
    cdef object _kept

    cdef bint convert(self, const double* given) noexcept nogil
    cdef void store(self, int64_t slot) noexcept nogil
    cdef void forget(self, int64_t slot) noexcept nogil
    cdef double need(self, int64_t slot, const double* query) noexcept nogil
    cdef double norm(self, int64_t slot) noexcept nogil
    cdef void request(self, int64_t slot) noexcept nogil
