from numpy cimport int64_t, uint8_t

from needreplay.replay._kernels.columns cimport Table

cdef enum:
    HEAD, HELD, LAST, ENDED, EPISODE, TIME, STATE
    TERMINATED = 0, TRUNCATED, SKIPPED, FLAGS


cdef class Windows:
    cdef Table step, info
    cdef readonly object arrays
    cdef Py_ssize_t n_envs, n_step, most, stride, next_from, next_to, reward_at, discount_at, capacity
    cdef char* current
    cdef char* pending
    cdef double* rewards
    cdef uint8_t* flags
    cdef int64_t* state
    cdef int64_t* slots
    cdef int64_t* previous
    cdef int64_t* sources
    cdef int64_t* following
    cdef int64_t* places
    cdef double discount
    cdef readonly double reward_limit
    cdef readonly bint skips_resets

    cpdef Py_ssize_t block(self, Py_ssize_t envs)
    cdef Py_ssize_t add(
        self, char* rows, int64_t first_id, Py_ssize_t stored, Py_ssize_t taken,
        Py_ssize_t begin, Py_ssize_t end,
    ) noexcept nogil
    cdef Py_ssize_t close(
        self, char* rows, int64_t first_id, Py_ssize_t stored, Py_ssize_t begin, Py_ssize_t end,
        bint cuts,
    ) noexcept nogil
    cdef void write_window(
        self, Py_ssize_t e, Py_ssize_t head, Py_ssize_t held, char* row
    ) noexcept nogil
    cdef int64_t newest_episode(self) noexcept nogil
