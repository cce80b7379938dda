from numpy cimport int64_t

from needreplay.replay._kernels.kernel cimport Kernel
from needreplay.replay._kernels.sumtree cimport SumTree

cdef enum:
    EMPTY = -1  # the priority of an empty slot


cdef class Proportional(Kernel):
    cdef double* priorities
    cdef SumTree tree
    cdef public double alpha, priority_floor
    cdef public bint stratified

    cdef int follow(self, SumTree tree, const int64_t* slots, Py_ssize_t count) except -1
