/* Columns: named arrays with the same leading axis, written row by row and gathered into batches. */
#include "native.h"

#include <math.h>
#include <string.h>

typedef union {
    double f64; float f32;
    npy_int64 i64; npy_int32 i32; npy_int16 i16; npy_int8 i8;
    npy_uint64 u64; npy_uint32 u32; npy_uint16 u16; npy_uint8 u8;
    npy_bool truth;
    char bytes[64];
} Number;

typedef struct {
    PyObject *name;
    PyArrayObject *array;
    PyArray_Descr *descr; /* of ``array``, which owns it */
    char *data;
    npy_intp step;   /* bytes from one row to the next */
    npy_intp nbytes; /* of one row */
    int ndim;        /* of one row */
    const npy_intp *shape;
    const char *given; /* what is to be written, while ``put`` is at work */
    int widens;        /* whether it is float32 for a column of float64 */
    Number number;     /* the same, where it was no array */
} Column;

typedef struct {
    PyObject_HEAD
    Column *columns;
    Py_ssize_t count;
    npy_intp rows;
} Columns;

static void
Columns_dealloc(Columns *self)
{
    for (Py_ssize_t c = 0; c < self->count; c++) {
        Py_DECREF(self->columns[c].name);
        Py_DECREF(self->columns[c].array);
    }
    PyMem_Free(self->columns);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Bind one column to ``array``: any step between rows, but each row in one piece. */
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

static PyObject *
Columns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"arrays", NULL};
    PyObject *arrays, *name, *array;
    Py_ssize_t place = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyDict_Type, &arrays)) {
        return NULL;
    }
    Columns *self = (Columns *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->columns = PyMem_Calloc((size_t)PyDict_GET_SIZE(arrays) + 1, sizeof(Column));
    if (self->columns == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    while (PyDict_Next(arrays, &place, &name, &array)) {
        Column *column = &self->columns[self->count];
        if (bind_column(column, name, array) < 0) {
            PyErr_Format(PyExc_ValueError,
                         "%R: a column is a writable array whose rows are each in one piece.", name);
            Py_DECREF(self);
            return NULL;
        }
        self->count++;
        self->rows = PyArray_DIM(self->columns[0].array, 0);
        if (PyArray_DIM(column->array, 0) != self->rows) {
            PyErr_SetString(PyExc_ValueError, "Columns have to have equally many rows.");
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

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

/* Whether every column was given a value that is plainly its own; notes where it is. */
static int
take_all(Columns *self, PyObject *values, int leading)
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

/* The ``i``-th of what was given goes to ``row``. */
static void
write_row(const Column *column, npy_intp i, npy_intp row)
{
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

int
put_row(PyObject *columns, PyObject *values, npy_intp row)
{
    Columns *self = (Columns *)columns;
    if (row < 0 || row >= self->rows) {
        PyErr_Format(PyExc_IndexError, "row %zd is not one of %zd", row, self->rows);
        return -1;
    }
    int fine = take_all(self, values, 0);
    for (Py_ssize_t c = 0; fine == 1 && c < self->count; c++) {
        write_row(&self->columns[c], 0, row);
    }
    return fine;
}

static PyObject *
Columns_put(Columns *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "put takes values and the row they go to.");
        return NULL;
    }
    Py_ssize_t row = PyLong_AsSsize_t(args[1]);
    if (row == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int fine = put_row((PyObject *)self, args[0], row);
    return fine < 0 ? NULL : PyBool_FromLong(fine);
}

static PyObject *
Columns_put_all(Columns *self, PyObject *values)
{
    int fine = take_all(self, values, 1);
    for (Py_ssize_t c = 0; fine == 1 && c < self->count; c++) {
        Column *column = &self->columns[c];
        if (column->step == column->nbytes && !column->widens) {
            memcpy(column->data, column->given, (size_t)(self->rows * column->nbytes));
            continue;
        }
        for (npy_intp i = 0; i < self->rows; i++) {
            write_row(column, i, i);
        }
    }
    return fine < 0 ? NULL : PyBool_FromLong(fine);
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

static PyObject *
Columns_hand_out(Columns *self, PyObject *const *args, Py_ssize_t nargs)
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
    if (ids == NULL || hand_out((PyObject *)self, ids, PyArray_DATA((PyArrayObject *)args[1]),
                                smallest, beta, next_id, &weights, &batch) < 0) {
        Py_XDECREF(ids);
        return NULL;
    }
    return Py_BuildValue("NNN", ids, weights, batch);
}

static PyMethodDef Columns_methods[] = {
    {"put", (PyCFunction)(void (*)(void))Columns_put, METH_FASTCALL, NULL},
    {"put_all", (PyCFunction)Columns_put_all, METH_O, NULL},
    {"hand_out", (PyCFunction)(void (*)(void))Columns_hand_out, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject ColumnsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "needreplay.memory.native._native.Columns",
    .tp_basicsize = sizeof(Columns),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = Columns_new,
    .tp_dealloc = (destructor)Columns_dealloc,
    .tp_methods = Columns_methods,
};
