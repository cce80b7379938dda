/* Columns: which values can be copied as they are, writing them, and gathering rows. */
#include "native.h"

#include <math.h>
#include <string.h>

#define PREFETCHED_ROWS 256
#define PREFETCHED_BYTES (8 * LINE)

/* Any distance between rows, but each row contiguous. */
static int
bind_column(Column *column, PyObject *name, PyObject *object)
{
    if (!PyUnicode_CheckExact(name) || !PyArray_CheckExact(object) ||
        PyArray_NDIM((PyArrayObject *)object) < 1 ||
        !PyArray_ISWRITEABLE((PyArrayObject *)object) ||
        PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)object))) {
        return -1;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    npy_intp nbytes = PyArray_ITEMSIZE(array);
    for (int k = PyArray_NDIM(array) - 1; k > 0; k--) {
        if (PyArray_DIM(array, k) != 1 && PyArray_STRIDE(array, k) != nbytes) {
            return -1;
        }
        nbytes *= PyArray_DIM(array, k);
    }
    column->name = Py_NewRef(name);
    column->array = (PyArrayObject *)Py_NewRef(object);
    column->descr = PyArray_DESCR(array);
    column->data = PyArray_DATA(array);
    column->step = PyArray_STRIDE(array, 0);
    column->nbytes = nbytes;
    column->ndim = PyArray_NDIM(array) - 1;
    column->shape = PyArray_DIMS(array) + 1;
    return 0;
}

int
bind_columns(Columns *self, PyObject *arrays)
{
    PyObject *name, *array;
    Py_ssize_t place = 0;
    self->columns = PyMem_Calloc((size_t)PyDict_GET_SIZE(arrays) + 1, sizeof(Column));
    if (self->columns == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(arrays, &place, &name, &array)) {
        Column *column = &self->columns[self->count];
        if (bind_column(column, name, array) < 0) {
            PyErr_Format(PyExc_ValueError,
                         "%R: a column is a writable array whose rows are each contiguous.", name);
            return -1;
        }
        self->count++;
        self->rows = PyArray_DIM(self->columns[0].array, 0);
        if (PyArray_DIM(column->array, 0) != self->rows) {
            PyErr_SetString(PyExc_ValueError, "Columns must have the same number of rows.");
            return -1;
        }
    }
    return 0;
}

void
release_columns(Columns *self)
{
    for (Py_ssize_t c = 0; c < self->count; c++) {
        Py_DECREF(self->columns[c].name);
        Py_DECREF(self->columns[c].array);
    }
    PyMem_Free(self->columns);
}

/* A Python int in a numeric column that can hold it exactly. */
static int
take_integer(Column *column, npy_int64 value)
{
    Number *number = &column->number;
    switch (column->descr->type_num) {
#define HOLD(TYPE, FIELD, NATIVE, SMALLEST, LARGEST)                                               \
    case TYPE:                                                                                     \
        if (value < (SMALLEST) || value > (LARGEST)) {                                             \
            return 0;                                                                              \
        }                                                                                          \
        number->FIELD = (NATIVE)value;                                                             \
        return 1;
        HOLD(NPY_INT8, i8, npy_int8, NPY_MIN_INT8, NPY_MAX_INT8)
        HOLD(NPY_INT16, i16, npy_int16, NPY_MIN_INT16, NPY_MAX_INT16)
        HOLD(NPY_INT32, i32, npy_int32, NPY_MIN_INT32, NPY_MAX_INT32)
        HOLD(NPY_INT64, i64, npy_int64, NPY_MIN_INT64, NPY_MAX_INT64)
        HOLD(NPY_UINT8, u8, npy_uint8, 0, NPY_MAX_UINT8)
        HOLD(NPY_UINT16, u16, npy_uint16, 0, NPY_MAX_UINT16)
        HOLD(NPY_UINT32, u32, npy_uint32, 0, NPY_MAX_UINT32)
        HOLD(NPY_UINT64, u64, npy_uint64, 0, NPY_MAX_INT64)
        HOLD(NPY_FLOAT64, f64, double, -((npy_int64)1 << 53), (npy_int64)1 << 53)
        HOLD(NPY_FLOAT32, f32, float, -(1 << 24), 1 << 24)
#undef HOLD
    default:
        return 0;
    }
}

/* A number, from Python or numpy, for a column without a shape. */
static int
take_number(Column *column, PyObject *value)
{
    int type = column->descr->type_num;
    if (column->ndim != 0 || !PyDataType_ISNOTSWAPPED(column->descr)) {
        return 0;
    }
    column->given = column->number.bytes;
    column->widens = 0;
    if (PyFloat_CheckExact(value) || PyArray_IsScalar(value, Double)) {
        double number = PyFloat_AS_DOUBLE(value);
        if (type == NPY_FLOAT64) {
            column->number.f64 = number;
            return 1;
        }
        column->number.f32 = (float)number;
        return type == NPY_FLOAT32 && (isfinite(column->number.f32) || !isfinite(number));
    }
    if (PyBool_Check(value)) {
        column->number.truth = value == Py_True;
        return type == NPY_BOOL;
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        npy_int64 number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && take_integer(column, number);
    }
    if (PyArray_IsScalar(value, Generic) && (PyTypeNum_ISNUMBER(type) || PyTypeNum_ISBOOL(type))) {
        PyArray_Descr *descr = PyArray_DescrFromScalar(value);
        int same = descr == column->descr;
        column->widens = type == NPY_FLOAT64 && descr->type_num == NPY_FLOAT32;
        Py_DECREF(descr);
        if (same || column->widens) {
            PyArray_ScalarAsCtype(value, column->number.bytes);
        }
        return same || column->widens;
    }
    return 0;
}

/* A contiguous array of the column's own dtype: one row, or ``rows`` with a leading axis.
 *
 * Rewards are summed in float64 and often passed in float32, so these are taken too. Records are
 * not, because numpy does not copy what is between their fields; nor is the column's own memory.
 */
static int
take_array(Column *column, PyArrayObject *array, int leading, npy_intp rows, npy_intp own_rows)
{
    const char *given = PyArray_DATA(array);
    if (column->descr->type_num == NPY_VOID ||
        (given >= column->data && given < column->data + own_rows * column->step)) {
        return 0;
    }
    column->widens = column->ndim == 0 && column->descr->type_num == NPY_FLOAT64 &&
                     PyArray_TYPE(array) == NPY_FLOAT32 && PyArray_ISNOTSWAPPED(array) &&
                     PyDataType_ISNOTSWAPPED(column->descr);
    if ((PyArray_DESCR(array) != column->descr && !column->widens) ||
        PyArray_NDIM(array) != column->ndim + leading || !PyArray_IS_C_CONTIGUOUS(array) ||
        (leading && PyArray_DIM(array, 0) != rows)) {
        return 0;
    }
    for (int k = 0; k < column->ndim; k++) {
        if (PyArray_DIM(array, k + leading) != column->shape[k]) {
            return 0;
        }
    }
    column->given = given;
    return 1;
}

npy_intp
take_values(Columns *self, PyObject *values, npy_intp rows)
{
    PyObject *name, *ignored;
    Py_ssize_t place = 0;
    int leading = 0;
    if (!PyDict_CheckExact(values) || PyDict_GET_SIZE(values) != self->count) {
        return 0;
    }
    while (PyDict_Next(values, &place, &name, &ignored)) {
        if (!PyUnicode_CheckExact(name)) { /* its comparison could run any code */
            return 0;
        }
    }
    for (Py_ssize_t c = 0; c < self->count; c++) {
        Column *column = &self->columns[c];
        PyObject *value = PyDict_GetItemWithError(values, column->name);
        if (value == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        int is_array = PyArray_CheckExact(value);
        if (c == 0) { /* the first column decides */
            leading = is_array && PyArray_NDIM((PyArrayObject *)value) == column->ndim + 1;
            npy_intp given = leading ? PyArray_DIM((PyArrayObject *)value, 0) : 1;
            if (given < 1 || (rows != 0 && given != rows)) {
                return 0;
            }
            rows = given;
        }
        if (!(is_array ? take_array(column, (PyArrayObject *)value, leading, rows, self->rows)
                       : !leading && take_number(column, value))) {
            return 0;
        }
    }
    return rows;
}

void
write_row(const Columns *self, npy_intp i, npy_intp row)
{
    for (Py_ssize_t c = 0; c < self->count; c++) {
        const Column *column = &self->columns[c];
        char *target = column->data + row * column->step;
        if (column->widens) {
            float narrow;
            memcpy(&narrow, column->given + i * (npy_intp)sizeof(narrow), sizeof(narrow));
            double wide = narrow;
            memcpy(target, &wide, sizeof(wide));
        } else {
            memcpy(target, column->given + i * column->nbytes, (size_t)column->nbytes);
        }
    }
}

/* A new array for ``size`` rows of a column, not yet written. */
static PyObject *
new_rows(const Column *column, npy_intp size)
{
    npy_intp shape[NPY_MAXDIMS];
    shape[0] = size;
    for (int k = 0; k < column->ndim; k++) {
        shape[k + 1] = column->shape[k];
    }
    Py_INCREF(column->descr); /* the new array takes it */
    return PyArray_NewFromDescr(&PyArray_Type, column->descr, column->ndim + 1, shape, NULL, NULL, 0,
                                NULL);
}

PyObject *
gather(const Columns *self, const npy_int64 *slots, npy_intp size)
{
    PyObject *batch = PyDict_New();
    if (batch == NULL) {
        return NULL;
    }
    for (Py_ssize_t c = 0; c < self->count; c++) {
        const Column *column = &self->columns[c];
        PyObject *rows = new_rows(column, size);
        if (rows == NULL || PyDict_SetItem(batch, column->name, rows) < 0) {
            Py_XDECREF(rows);
            Py_DECREF(batch);
            return NULL;
        }
        char *out = PyArray_DATA((PyArrayObject *)rows);
        size_t nbytes = (size_t)column->nbytes;
        switch (nbytes) { /* a copy of known length is one instruction */
#define COPY(LENGTH)                                                                               \
    for (npy_intp i = 0; i < size; i++) {                                                          \
        memcpy(out + (size_t)i * nbytes, column->data + slots[i] * column->step, LENGTH);          \
    }                                                                                              \
    break;
        case 1: COPY(1)
        case 4: COPY(4)
        case 8: COPY(8)
        default: COPY(nbytes)
#undef COPY
        }
        Py_DECREF(rows);
    }
    return batch;
}

/* Of long rows only their start. */
void
prefetch_rows(const Columns *self, const npy_int64 *slots, npy_intp size)
{
    for (npy_intp i = 0; i < size && i < PREFETCHED_ROWS; i++) {
        for (Py_ssize_t c = 0; c < self->count; c++) {
            const Column *column = &self->columns[c];
            for (npy_intp at = 0; at < column->nbytes && at < PREFETCHED_BYTES; at += LINE) {
                PREFETCH(column->data + slots[i] * column->step + at);
            }
        }
    }
}
