"""Pointers into numpy arrays, after a check of type and length."""

cimport numpy as cnp
from numpy cimport int64_t, uint8_t


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define NEEDREPLAY_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define NEEDREPLAY_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "NEEDREPLAY_PREFETCH"(const void* address) noexcept nogil


cdef enum:
    LINE = 64  # bytes of a cache line


cdef inline bint is_plain(object array, int kind) noexcept:
    """Whether this is a numpy array of that type, aligned, contiguous, in native byte order."""
    return (
        cnp.PyArray_CheckExact(array)
        and cnp.PyArray_TYPE(array) == kind
        and cnp.PyArray_ISCARRAY_RO(array)
    )


cdef inline object as_i64(object array):
    """``array``, or a copy that a kernel can read."""
    if is_plain(array, cnp.NPY_INT64):
        return array
    return cnp.PyArray_FROMANY(array, cnp.NPY_INT64, 1, 1, cnp.NPY_ARRAY_CARRAY_RO)


cdef inline object as_f64(object array):
    """``array``, or a copy that a kernel can read."""
    if is_plain(array, cnp.NPY_FLOAT64):
        return array
    return cnp.PyArray_FROMANY(array, cnp.NPY_FLOAT64, 0, 0, cnp.NPY_ARRAY_CARRAY_RO)


cdef inline void* pointer(object array, int kind, Py_ssize_t length) except NULL:
    if not is_plain(array, kind) or cnp.PyArray_SIZE(array) != length:
        raise TypeError(f"a kernel takes {length} contiguous numbers of one type here: {array!r}")
    return cnp.PyArray_DATA(array)


cdef inline double* f64(object array, Py_ssize_t length) except NULL:
    return <double*>pointer(array, cnp.NPY_FLOAT64, length)


cdef inline float* f32(object array, Py_ssize_t length) except NULL:
    return <float*>pointer(array, cnp.NPY_FLOAT32, length)


cdef inline int64_t* i64(object array, Py_ssize_t length) except NULL:
    return <int64_t*>pointer(array, cnp.NPY_INT64, length)


cdef inline uint8_t* u8(object array, Py_ssize_t length) except NULL:
    return <uint8_t*>pointer(array, cnp.NPY_UINT8, length)


cdef inline uint8_t* truth(object array, Py_ssize_t length) except NULL:
    return <uint8_t*>pointer(array, cnp.NPY_BOOL, length)


cdef inline object new_array(int kind, cnp.npy_intp length):
    return cnp.PyArray_SimpleNew(1, &length, kind)
