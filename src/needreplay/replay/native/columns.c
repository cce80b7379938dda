/* Columns: bound to the arrays of a memory, or of what is staged for it, and written row by row. */
#include "columns.h"

#include <string.h>

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
    int fine = take_values(self, values, 0);
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
    int fine = take_values(self, values, 1);
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

static PyMethodDef Columns_methods[] = {
    {"put", (PyCFunction)(void (*)(void))Columns_put, METH_FASTCALL, NULL},
    {"put_all", (PyCFunction)Columns_put_all, METH_O, NULL},
    {"hand_out", (PyCFunction)(void (*)(void))Columns_hand_out, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject ColumnsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "needreplay.replay.native._native.Columns",
    .tp_basicsize = sizeof(Columns),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = Columns_new,
    .tp_dealloc = (destructor)Columns_dealloc,
    .tp_methods = Columns_methods,
};
