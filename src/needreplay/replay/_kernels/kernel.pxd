from numpy cimport int64_t


cdef class Kernel:
    cdef int64_t* window
    cdef readonly Py_ssize_t capacity
    cdef bint follows_window
    cdef readonly bint samples_alone
    cdef readonly object arrays

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1
    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1
    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1
    cdef bint takes(self, const char* row) noexcept
    cdef int arrive(
        self, const int64_t* slots, const int64_t* previous, const double* priorities,
        const char* rows, Py_ssize_t step, Py_ssize_t count,
    ) except -1
    cdef int describe(
        self, const int64_t* slots, const char* rows, Py_ssize_t step, Py_ssize_t count
    ) except -1
    cdef bint draw(self, double* uniforms, int64_t* slots, Py_ssize_t count) noexcept nogil
    cdef Py_ssize_t occupied(self) noexcept nogil
    cdef void pick_into(self, const double* uniforms, int64_t* slots, Py_ssize_t count) noexcept nogil


cdef bint is_unknown(const char* row) noexcept nogil
cdef int powers_into(
    const double* priorities, double* powers, Py_ssize_t count, double alpha
) noexcept nogil
cdef int current_into(
    const int64_t* ids, Py_ssize_t count, int64_t oldest, int64_t next_id, int64_t* chosen,
    Py_ssize_t* first, Py_ssize_t* overwritten,
) except -2
