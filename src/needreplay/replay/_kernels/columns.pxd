from cpython.ref cimport PyObject
from numpy cimport (
    int8_t, int16_t, int32_t, int64_t, npy_intp, uint8_t, uint16_t, uint32_t, uint64_t,
)

cdef union Number:
    double f64
    float f32
    int64_t i64
    int32_t i32
    int16_t i16
    int8_t i8
    uint64_t u64
    uint32_t u32
    uint16_t u16
    uint8_t u8
    char bytes[64]

cdef struct Column:
    PyObject* name
    PyObject* dtype
    PyObject* scalar   # numpy's type of one number of it; NULL: none is taken
    char* data
    Py_ssize_t step    # bytes from one row to the next
    Py_ssize_t nbytes  # of one row
    int kind           # numpy's number of the dtype
    int ndim           # of one row
    const npy_intp* shape
    const char* given  # what ``take`` found for this column; NULL: nothing
    bint checked       # whether NaN and infinity are noticed, and what is ``limit`` and above
    Number limit       # as a number of ``f64``
    bint widens        # whether that is float32, for a column of float64
    Number number      # where it was not an array


cdef class Table:
    cdef Column* columns
    cdef Py_ssize_t count, rows
    cdef object _arrays

    cdef int take_number(self, Column* column, object value) except -1
    cdef bint take_array(
        self, Column* column, object array, bint leading, Py_ssize_t rows, bint converted
    ) noexcept
    cdef Py_ssize_t take(self, dict values, Py_ssize_t rows, bint converted) except -1
    cdef int take_some(self, dict values, Py_ssize_t rows, bint leading, bint converted) except -1
    cdef bint leads(self, dict values)
    cdef int not_finite(self, Py_ssize_t rows, Py_ssize_t* row) noexcept
    cdef void copy(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil
    cdef void write(self, Py_ssize_t i, Py_ssize_t row) noexcept nogil
    cdef dict gather(self, const int64_t* slots, Py_ssize_t size)
