from numpy cimport int64_t

from needreplay.replay._kernels.sumtree cimport SumTree

cdef enum:
    NONE = -1
    MOST_CHANGED = 1024


cdef class Groups:
    cdef SumTree tree
    cdef int level
    cdef readonly Py_ssize_t capacity, n_groups, n_pages, page_size
    cdef Py_ssize_t first_free, n_changed
    cdef int64_t* place
    cdef int64_t* group
    cdef int64_t* slot_at
    cdef int64_t* members
    cdef int64_t* partial
    cdef int64_t changed[MOST_CHANGED]
    cdef object _kept

    cdef int64_t page_of(self, int64_t slot) noexcept nogil
    cdef double page_mass(self, Py_ssize_t page) noexcept nogil
    cdef int set(self, int64_t slot, double mass) except -1 nogil
    cdef int join(self, int64_t slot, int64_t group, double mass) except -1 nogil
    cdef double leave(self, int64_t slot) except? -1.0 nogil
    cdef int settle(self) except -1 nogil
    cdef int change(self, int64_t place, double mass) except -1 nogil
    cdef int64_t new_page(self, int64_t group) noexcept nogil
