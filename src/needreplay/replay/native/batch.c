/* A batch: rows of every column gathered, with ids and importance weights. */
#include "columns.h"

#include <math.h>
#include <string.h>

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

/* The rows ``slots`` of every column, by name; NULL with an exception set on failure. */
static PyObject *
gathered(Columns *self, const npy_int64 *slots, npy_intp size)
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

/* Ask the memory for the rows ahead of their copying; of long ones only their beginnings. */
static void
ask_ahead(const Columns *self, const npy_int64 *slots, npy_intp size)
{
    npy_intp most = size < 256 ? size : 256;
    for (npy_intp i = 0; i < most; i++) {
        for (Py_ssize_t c = 0; c < self->count; c++) {
            const Column *column = &self->columns[c];
            npy_intp length = column->nbytes < 8 * LINE ? column->nbytes : 8 * LINE;
            for (npy_intp at = 0; at < length; at += LINE) {
                PREFETCH(column->data + slots[i] * column->step + at);
            }
        }
    }
}

int
hand_out(PyObject *columns, PyArrayObject *ids, const double *probabilities, double smallest,
         double beta, npy_int64 next_id, PyObject **weights, PyObject **batch)
{
    Columns *self = (Columns *)columns;
    npy_intp size = PyArray_DIM(ids, 0);
    npy_int64 *slots = PyArray_DATA(ids);
    for (npy_intp i = 0; i < size; i++) {
        if (slots[i] < 0 || slots[i] >= self->rows || slots[i] >= next_id) {
            PyErr_Format(PyExc_IndexError, "slot %lld is not one of %lld", (long long)slots[i],
                         (long long)(next_id < self->rows ? next_id : self->rows));
            return -1;
        }
    }
    ask_ahead(self, slots, size);
    PyArrayObject *made = new_vector(size, NPY_FLOAT64);
    if (made == NULL) {
        return -1;
    }
    double *weight = PyArray_DATA(made);
    if (smallest == 0.0 && size > 0) {
        smallest = probabilities[0];
        for (npy_intp i = 1; i < size; i++) {
            smallest = probabilities[i] < smallest ? probabilities[i] : smallest;
        }
    }
    for (npy_intp i = 0; i < size; i++) {
        weight[i] = pow(smallest / probabilities[i], beta);
    }
    *batch = gathered(self, slots, size); /* meanwhile the memory has sent the rows */
    if (*batch == NULL) {
        Py_DECREF(made);
        return -1;
    }
    for (npy_intp i = 0; i < size; i++) {
        slots[i] = next_id - 1 - (next_id - 1 - slots[i]) % self->rows;
    }
    *weights = (PyObject *)made;
    return 0;
}

PyObject *
Columns_hand_out(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError,
                        "hand_out takes slots, probabilities, smallest, beta and next_id.");
        return NULL;
    }
    if (!is_vector(args[0], NPY_INT64) || !is_vector(args[1], NPY_FLOAT64) ||
        PyArray_DIM((PyArrayObject *)args[0], 0) != PyArray_DIM((PyArrayObject *)args[1], 0)) {
        Py_RETURN_NONE;
    }
    double smallest = PyFloat_AsDouble(args[2]), beta = PyFloat_AsDouble(args[3]);
    npy_int64 next_id = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyArrayObject *ids = (PyArrayObject *)PyArray_NewCopy((PyArrayObject *)args[0], NPY_CORDER);
    PyObject *weights, *batch;
    if (ids == NULL || hand_out(self, ids, PyArray_DATA((PyArrayObject *)args[1]),
                                smallest, beta, next_id, &weights, &batch) < 0) {
        Py_XDECREF(ids);
        return NULL;
    }
    return Py_BuildValue("NNN", ids, weights, batch);
}
