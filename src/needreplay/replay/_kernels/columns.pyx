"""Columns: which values can be copied as they are, writing them, and gathering rows.

A table is bound to named arrays with the same number of rows, each row contiguous. ``take`` finds a
plain value for every column: a contiguous array of the column's own dtype, or one number. It takes
nothing else: Python then converts the values, or says what is wrong with them.
"""

from cpython.dict cimport PyDict_GetItem, PyDict_Size
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from libc.math cimport INFINITY, isfinite
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport i64

cnp.import_array()

cdef extern from *:
    """
    #define is_double(value) PyArray_IsScalar(value, Double)
    #define is_float32(value) (Py_TYPE(value) == &PyFloatArrType_Type)
    static PyObject *new_rows(PyObject *dtype, int ndim, const npy_intp *shape)
    {
        Py_INCREF(dtype); /* the new array takes it */
        return PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)dtype, ndim, shape, NULL, NULL,
                                    0, NULL);
    }
    """
    bint is_double(object value)
    bint is_float32(object value)
    PyObject* type_of "(PyObject *)Py_TYPE" (object value)
    object new_rows(PyObject* dtype, int ndim, const npy_intp* shape)

cdef enum:
    MOST_AXES = 64


cdef bint take_integer(Column* column, int64_t value) noexcept:
    """A whole number in a numeric column that can hold it exactly."""
    cdef int64_t low, high
    cdef int kind = column.kind
    if kind == cnp.NPY_INT64:
        column.number.i64 = value
        return True
    if kind == cnp.NPY_UINT64:
        column.number.u64 = <uint64_t>value
        return value >= 0
    if kind == cnp.NPY_FLOAT64:
        column.number.f64 = <double>value
        return -(<int64_t>1 << 53) <= value <= <int64_t>1 << 53
    if kind == cnp.NPY_FLOAT32:
        column.number.f32 = <float>value
        return -(1 << 24) <= value <= 1 << 24
    if kind == cnp.NPY_INT32:
        column.number.i32 = <int32_t>value
        return column.number.i32 == value
    if kind == cnp.NPY_UINT32:
        column.number.u32 = <uint32_t>value
        return column.number.u32 == value
    if kind == cnp.NPY_INT16:
        column.number.i16 = <int16_t>value
        return column.number.i16 == value
    if kind == cnp.NPY_UINT16:
        column.number.u16 = <uint16_t>value
        return column.number.u16 == value
    if kind == cnp.NPY_INT8:
        column.number.i8 = <int8_t>value
        return column.number.i8 == value
    if kind == cnp.NPY_UINT8:
        column.number.u8 = <uint8_t>value
        return column.number.u8 == value
    return False


ctypedef fused bits:
    uint32_t
    uint64_t


cdef Py_ssize_t first_above(const bits* number, Py_ssize_t count, bits limit) noexcept nogil:
    """The first of ``count`` floats that is NaN or, without its sign, ``limit`` or above; or -1.

    All are given as their bits, which are in the order of the numbers.
    """
    cdef Py_ssize_t i
    cdef bits found = 0, least = limit << 1  # without the sign
    for i in range(count):  # no branch, so that several are looked at in one instruction
        found |= <bits>(number[i] << 1) >= least
    if found:
        for i in range(count):
            if <bits>(number[i] << 1) >= least:
                return i
    return -1


cdef class Table:
    """Named arrays with the same number of rows."""

    def __cinit__(self, dict arrays):
        cdef Column* column
        cdef Py_ssize_t nbytes
        cdef int k
        self._arrays = [(name, array, array.dtype) for name, array in arrays.items()]
        self.columns = <Column*>calloc(len(arrays) + 1, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError()
        for name, array, dtype in self._arrays:
            if not 1 <= cnp.PyArray_NDIM(array) <= MOST_AXES or dtype.hasobject:
                raise TypeError(f"{name}: a column is an array of numbers, with an axis of rows.")
            if self.count > 0 and cnp.PyArray_DIM(array, 0) != self.rows:
                raise TypeError(f"{name} has {len(array)} rows, not {self.rows}.")
            column = &self.columns[self.count]
            column.name, column.dtype = <PyObject*>name, <PyObject*>dtype
            column.data = <char*>cnp.PyArray_DATA(array)
            column.step = cnp.PyArray_STRIDE(array, 0)
            column.ndim = cnp.PyArray_NDIM(array) - 1
            column.shape = cnp.PyArray_DIMS(array) + 1
            # -1: bytes in another order than the machine's, so no number is written there.
            column.kind = cnp.PyArray_TYPE(array) if dtype.isnative else -1
            number = column.kind >= 0 and dtype.kind in "biufc"
            column.scalar = <PyObject*>dtype.type if number else NULL
            nbytes = cnp.PyArray_ITEMSIZE(array)
            for k in range(column.ndim, 0, -1):
                if cnp.PyArray_DIM(array, k) != 1 and cnp.PyArray_STRIDE(array, k) != nbytes:
                    raise TypeError(f"{name}: a column is an array whose rows are contiguous.")
                nbytes *= cnp.PyArray_DIM(array, k)
            column.nbytes = nbytes
            self.rows = cnp.PyArray_DIM(array, 0)
            self.count += 1

    def __dealloc__(self):
        free(self.columns)

    cdef int take_number(self, Column* column, object value) except -1:
        """A number, from Python or numpy, for a column without a shape."""
        cdef int overflow = 0
        cdef double number
        cdef int64_t whole
        column.given = column.number.bytes
        if column.ndim != 0:
            return False
        column.widens = column.kind == cnp.NPY_FLOAT64 and is_float32(value)
        if column.widens or type_of(value) == column.scalar:
            cnp.PyArray_ScalarAsCtype(value, column.number.bytes)
            return True
        if PyFloat_CheckExact(value) or is_double(value):
            number = PyFloat_AS_DOUBLE(value)
            if column.kind == cnp.NPY_FLOAT64:
                column.number.f64 = number
                return True
            column.number.f32 = <float>number
            return column.kind == cnp.NPY_FLOAT32 and (
                isfinite(column.number.f32) or not isfinite(number)
            )
        if value is True or value is False:
            column.number.u8 = value is True
            return column.kind == cnp.NPY_BOOL
        if PyLong_CheckExact(value):
            whole = PyLong_AsLongLongAndOverflow(value, &overflow)
            return not overflow and take_integer(column, whole)
        return False

    cdef bint take_array(
        self, Column* column, object array, bint leading, Py_ssize_t rows, bint converted
    ) noexcept:
        """A contiguous array of the column's own dtype: one row, or ``rows`` with a leading axis.

        Rewards are summed in float64 and often passed in float32, so these are taken too. The
        column's own memory is not, as it would change while it is read, nor are records, except
        ``converted`` ones, because what is between their fields is to be zeros.
        """
        cdef const char* given = <const char*>cnp.PyArray_DATA(array)
        cdef int k
        if not converted and (
            column.kind == cnp.NPY_VOID
            or column.data <= given < column.data + self.rows * column.step
        ):
            return False
        column.widens = (
            column.kind == cnp.NPY_FLOAT64
            and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT32
            and cnp.PyArray_ISNOTSWAPPED(array)
        )
        if (
            (<PyObject*>cnp.PyArray_DESCR(array) != column.dtype and not column.widens)
            or cnp.PyArray_NDIM(array) != column.ndim + leading
            or not cnp.PyArray_IS_C_CONTIGUOUS(array)
            or not cnp.PyArray_ISALIGNED(array)
            or (leading and cnp.PyArray_DIM(array, 0) != rows)
        ):
            return False
        for k in range(column.ndim):
            if cnp.PyArray_DIM(array, k + leading) != column.shape[k]:
                return False
        column.given = given
        return True

    cdef bint leads(self, dict values):
        """Whether values have a leading axis of rows: the first column decides."""
        cdef PyObject* value = PyDict_GetItem(values, <object>self.columns[0].name)
        return (
            value != NULL
            and cnp.PyArray_CheckExact(<object>value)
            and cnp.PyArray_NDIM(<object>value) == self.columns[0].ndim + 1
        )

    cdef Py_ssize_t take(self, dict values, Py_ssize_t rows, bint converted) except -1:
        """How many rows ``values`` has, if each column has a plain value there; 0 if not.

        Either one row without a leading axis, or any number of them (``rows``, unless 0).
        """
        cdef bint leading = self.leads(values)
        cdef Py_ssize_t given = 1
        if leading:
            given = cnp.PyArray_DIM(<object>PyDict_GetItem(values, <object>self.columns[0].name), 0)
        if given < 1 or (rows != 0 and given != rows):
            return 0
        return given if self.take_some(values, given, leading, converted) == self.count else 0

    cdef int take_some(self, dict values, Py_ssize_t rows, bint leading, bint converted) except -1:
        """For how many of the columns there is a value; fewer where one is not plain."""
        cdef Py_ssize_t c
        cdef int found = 0
        cdef PyObject* value
        for c in range(self.count):
            self.columns[c].given = NULL
            value = PyDict_GetItem(values, <object>self.columns[c].name)
            if value == NULL:
                continue
            if cnp.PyArray_CheckExact(<object>value):
                if not self.take_array(
                    &self.columns[c], <object>value, leading, rows, converted
                ):
                    return found
            elif leading or not self.take_number(&self.columns[c], <object>value):
                return found
            found += 1
        return found

    def check(self, names, bint checked=True, double limit=INFINITY):
        """Notice NaN and numbers of ``limit`` and above in columns of floats; or no longer.

        ``limit`` is a number of float32.
        """
        for c, (name, _, _) in enumerate(self._arrays):
            if name in names:
                self.columns[c].checked = checked and (
                    self.columns[c].kind == cnp.NPY_FLOAT32 or self.columns[c].kind == cnp.NPY_FLOAT64
                )
                self.columns[c].limit.f64 = limit

    def name_of(self, Py_ssize_t column):
        """The name of a column."""
        return self._arrays[column][0]

    cdef int not_finite(self, Py_ssize_t rows, Py_ssize_t* row) noexcept:
        """The first checked column with a number to notice in what was taken, and where; or -1."""
        cdef Column* column
        cdef Py_ssize_t c, each, at
        cdef Number limit
        for c in range(self.count):
            column = &self.columns[c]
            if not column.checked or column.given == NULL:
                continue
            if column.kind == cnp.NPY_FLOAT32 or column.widens:
                each = column.nbytes // (8 if column.widens else 4)
                limit.f32 = <float>column.limit.f64
                at = first_above[uint32_t](<const uint32_t*>column.given, rows * each, limit.u32)
            else:
                each = column.nbytes // 8
                at = first_above[uint64_t](
                    <const uint64_t*>column.given, rows * each, column.limit.u64
                )
            if at >= 0:
                row[0] = at // each
                return c
        return -1

    cdef void write(self, Py_ssize_t i, Py_ssize_t row) noexcept nogil:
        """Write row ``i`` of what was taken to ``row``, or that there was nothing."""
        cdef Column* column
        cdef Py_ssize_t c, k
        cdef double* wide
        for c in range(self.count):
            column = &self.columns[c]
            if column.given == NULL:  # NaN, or -1
                memset(column.data + row * column.step, 0xFF, column.nbytes)
            elif column.widens:
                wide = <double*>(column.data + row * column.step)
                for k in range(column.nbytes // 8):
                    wide[k] = (<const float*>column.given)[i * (column.nbytes // 8) + k]
            else:
                memcpy(
                    column.data + row * column.step,
                    column.given + i * column.nbytes,
                    column.nbytes,
                )

    cdef void copy(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """Copy row ``source`` to row ``target``."""
        cdef Column* column
        cdef Py_ssize_t c
        for c in range(self.count):
            column = &self.columns[c]
            memcpy(
                column.data + target * column.step,
                column.data + source * column.step,
                column.nbytes,
            )

    cdef dict gather(self, const int64_t* slots, Py_ssize_t size):
        """New arrays with the rows ``slots``, by name."""
        cdef dict batch = {}
        cdef npy_intp shape[MOST_AXES]
        cdef Column* column
        cdef Py_ssize_t c, i
        cdef int k
        cdef char* out
        for c in range(self.count):
            column = &self.columns[c]
            shape[0] = size
            for k in range(column.ndim):
                shape[k + 1] = column.shape[k]
            rows = new_rows(column.dtype, column.ndim + 1, shape)
            out = <char*>cnp.PyArray_DATA(rows)
            with nogil:  # a copy of known length is one instruction
                if column.nbytes == 16:
                    for i in range(size):
                        memcpy(out + i * 16, column.data + slots[i] * column.step, 16)
                elif column.nbytes == 8:
                    for i in range(size):
                        memcpy(out + i * 8, column.data + slots[i] * column.step, 8)
                elif column.nbytes == 4:
                    for i in range(size):
                        memcpy(out + i * 4, column.data + slots[i] * column.step, 4)
                elif column.nbytes == 1:
                    for i in range(size):
                        out[i] = column.data[slots[i] * column.step]
                else:
                    for i in range(size):
                        memcpy(
                            out + i * column.nbytes,
                            column.data + slots[i] * column.step,
                            column.nbytes,
                        )
            batch[<object>column.name] = rows
        return batch

    def rows_at(self, slots):
        """New arrays with the rows ``slots``, by name."""
        return self.gather(i64(slots, len(slots)), len(slots))
