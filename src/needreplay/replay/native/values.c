/* Which values are plainly a column's own, so that writing them is copying bytes. */
#include "columns.h"

#include <math.h>

/* Whole numbers, as Python has them, in an integer column that can hold them. */
static int
take_whole(Column *column, npy_int64 value)
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
#undef HOLD
    default:
        return 0;
    }
}

/* A number, as Python or numpy has it, for a column without a shape. */
static int
take_number(Column *column, PyObject *value)
{
    if (column->ndim != 0 || !PyDataType_ISNOTSWAPPED(column->descr)) {
        return 0;
    }
    column->given = column->number.bytes;
    column->widens = 0;
    if (PyFloat_CheckExact(value) || PyArray_IsScalar(value, Double)) {
        double number = PyFloat_AS_DOUBLE(value);
        if (column->descr->type_num == NPY_FLOAT64) {
            column->number.f64 = number;
            return 1;
        }
        column->number.f32 = (float)number;
        return column->descr->type_num == NPY_FLOAT32 &&
               (isfinite(column->number.f32) || !isfinite(number));
    }
    if (PyBool_Check(value)) {
        column->number.truth = value == Py_True;
        return column->descr->type_num == NPY_BOOL;
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        npy_int64 number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && take_whole(column, number);
    }
    int type = column->descr->type_num;
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

/* An array of the column's own dtype, in one piece: one row, or with a leading axis of ``rows``.
 *
 * Rewards are summed in float64, and are often given in float32: these are taken as well. Records
 * are not, because numpy leaves out what is between their fields; nor is the column's own memory.
 */
static int
take_array(Column *column, PyArrayObject *array, int leading, npy_intp rows)
{
    const char *given = PyArray_DATA(array);
    if (column->descr->type_num == NPY_VOID ||
        (given >= column->data && given < column->data + rows * column->step)) {
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

int
take_values(Columns *self, PyObject *values, int leading)
{
    PyObject *name, *ignored;
    Py_ssize_t place = 0;
    if (!PyDict_CheckExact(values) || PyDict_GET_SIZE(values) != self->count) {
        return 0;
    }
    while (PyDict_Next(values, &place, &name, &ignored)) {
        if (!PyUnicode_CheckExact(name)) { /* its comparison could be anybody's code */
            return 0;
        }
    }
    for (Py_ssize_t c = 0; c < self->count; c++) {
        Column *column = &self->columns[c];
        PyObject *value = PyDict_GetItemWithError(values, column->name);
        if (value == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        int fine = PyArray_CheckExact(value)
                       ? take_array(column, (PyArrayObject *)value, leading, self->rows)
                       : !leading && take_number(column, value);
        if (!fine) {
            return 0;
        }
    }
    return 1;
}
