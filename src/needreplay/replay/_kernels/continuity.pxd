from numpy cimport int64_t, uint8_t, uint64_t

from needreplay.replay._kernels.columns cimport Table
from needreplay.replay._kernels.steps cimport Windows

cdef enum:
    MOST_PAIRS = 64
    FINE = 0, WRONG_RESETS, JUMPS  # what ``look`` returns


cdef class Continuity:
    cdef Windows windows
    cdef Table step
    cdef object _kept
    cdef Py_ssize_t n_envs, n_pairs
    cdef Py_ssize_t obs[MOST_PAIRS]
    cdef Py_ssize_t next_obs[MOST_PAIRS]
    cdef uint8_t* has_step
    cdef uint8_t* has_first
    cdef uint64_t* first
    cdef int64_t follow, jump, continued, was_reset  # how many steps
    cdef Py_ssize_t adds
    cdef bint of_frames, said_resets, said_jumps
    cdef readonly Py_ssize_t env
    cdef readonly bint is_done

    cdef int look(self, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef bint noticed_resets(self) noexcept
    cdef bint noticed_jumps(self) noexcept
    cdef int follows(self, Py_ssize_t e, Py_ssize_t row) noexcept
    cdef bint tells(self, Py_ssize_t e, Py_ssize_t row) noexcept
    cdef uint64_t digest(self, Py_ssize_t row) noexcept
