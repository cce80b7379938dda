/* Gains: the raw gains of a proportional draw and their sum tree, drawn from and set. */
#include "sumtree.h"

#include <math.h>
#include <numpy/random/bitgen.h>

typedef struct {
    PyObject_HEAD
    PyArrayObject *gain;
    PyArrayObject *numbers;
    SumTree tree;
    double largest_priority;
    npy_int64 *slots; /* room for as many as were ever set at a time */
    npy_intp room;
} Gains;

static void
Gains_dealloc(Gains *self)
{
    Py_XDECREF(self->gain);
    Py_XDECREF(self->numbers);
    PyMem_Free(self->slots);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Made whole or not at all: there are no Gains without arrays. */
static PyObject *
Gains_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gain", "tree", "largest_priority", NULL};
    PyObject *gain, *numbers;
    double largest_priority;
    SumTree tree;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOd", names, &gain, &numbers, &largest_priority)) {
        return NULL;
    }
    if (!is_vector(gain, NPY_FLOAT64) || !is_vector(numbers, NPY_FLOAT64) ||
        !PyArray_ISWRITEABLE((PyArrayObject *)gain) ||
        !PyArray_ISWRITEABLE((PyArrayObject *)numbers) ||
        PyArray_DIM((PyArrayObject *)gain, 0) < 1 ||
        PyArray_DIM((PyArrayObject *)numbers, 0) !=
            lay_out_tree(&tree, PyArray_DIM((PyArrayObject *)gain, 0))) {
        PyErr_SetString(PyExc_ValueError,
                        "gain and tree have to be a vector of float64 and its sum tree.");
        return NULL;
    }
    Gains *self = (Gains *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->gain = (PyArrayObject *)Py_NewRef(gain);
        self->numbers = (PyArrayObject *)Py_NewRef(numbers);
        self->tree = tree;
        self->tree.numbers = PyArray_DATA(self->numbers);
        self->largest_priority = largest_priority;
    }
    return (PyObject *)self;
}

static int
make_room(Gains *self, npy_intp count)
{
    if (count <= self->room) {
        return 0;
    }
    npy_int64 *larger = self->slots;
    PyMem_Resize(larger, npy_int64, (size_t)count); /* NULL also if that many bytes overflow */
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->slots = larger;
    self->room = count;
    return 0;
}

/* gain^α of each slot goes to its leaf, then all that is above; ``self->slots`` are used up. */
static void
renew_leaves(Gains *self, npy_intp count, double exponent)
{
    const double *gain = PyArray_DATA(self->gain);
    double *leaves = self->tree.numbers;
    double before = 0.0, mass = 0.0;
    for (npy_intp i = 0; i < count; i++) {
        npy_int64 slot = self->slots[i];
        if (i == 0 || gain[slot] != before) { /* new transitions are equal: one power for all */
            before = gain[slot];
            mass = exponent == 1.0 ? before : pow(before, exponent);
        }
        leaves[slot] = mass;
    }
    sum_above(&self->tree, self->slots, count);
}

static PyObject *
Gains_set(Gains *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "set takes slots, their gains and the exponent.");
        return NULL;
    }
    double exponent = PyFloat_AsDouble(args[2]);
    if (exponent == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    if (!is_vector(args[0], NPY_INT64) || !is_vector(args[1], NPY_FLOAT64)) {
        Py_RETURN_FALSE;
    }
    npy_intp count = PyArray_DIM((PyArrayObject *)args[0], 0);
    const npy_int64 *slots = PyArray_DATA((PyArrayObject *)args[0]);
    const double *given = PyArray_DATA((PyArrayObject *)args[1]);
    npy_intp capacity = PyArray_DIM(self->gain, 0);
    double *gain = PyArray_DATA(self->gain);
    if (PyArray_DIM((PyArrayObject *)args[1], 0) != count) {
        Py_RETURN_FALSE;
    }
    if (make_room(self, count) < 0) {
        return NULL;
    }
    for (npy_intp i = 0; i < count; i++) {
        if (slots[i] < 0 || slots[i] >= capacity) {
            PyErr_Format(PyExc_IndexError, "slot %lld is not one of %lld", (long long)slots[i],
                         (long long)capacity);
            return NULL;
        }
        self->slots[i] = slots[i];
    }
    for (npy_intp i = 0; i < count; i++) {
        gain[slots[i]] = given[i];
    }
    if (count > 0) {
        renew_leaves(self, count, exponent);
    }
    Py_RETURN_TRUE;
}

static PyObject *
Gains_take(Gains *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "take takes ids, gain, oldest_id, next_id and exponent.");
        return NULL;
    }
    int single = is_vector(args[1], NPY_FLOAT32);
    if (!is_vector(args[0], NPY_INT64) || !(single || is_vector(args[1], NPY_FLOAT64))) {
        Py_RETURN_NONE;
    }
    npy_intp count = PyArray_DIM((PyArrayObject *)args[0], 0);
    npy_int64 oldest_id = PyLong_AsLongLong(args[2]), next_id = PyLong_AsLongLong(args[3]);
    double exponent = PyFloat_AsDouble(args[4]);
    if (PyErr_Occurred() || make_room(self, count) < 0) {
        return NULL;
    }
    if (PyArray_DIM((PyArrayObject *)args[1], 0) != count) {
        Py_RETURN_NONE;
    }
    const npy_int64 *ids = PyArray_DATA((PyArrayObject *)args[0]);
    const void *given = PyArray_DATA((PyArrayObject *)args[1]);
    npy_intp capacity = PyArray_DIM(self->gain, 0);
    double *gain = PyArray_DATA(self->gain);
    if ((const double *)given >= gain && (const double *)given < gain + capacity) {
        Py_RETURN_NONE; /* its own gains, which would change while they are read */
    }
    for (npy_intp i = 0; i < count; i++) {
        double value = single ? ((const float *)given)[i] : ((const double *)given)[i];
        if (!(value >= 0.0 && value <= self->largest_priority) || ids[i] < 0 || ids[i] >= next_id) {
            Py_RETURN_NONE;
        }
        if (ids[i] >= oldest_id) {
            npy_int64 slot = ids[i] % capacity;
            PREFETCH(gain + slot);
            PREFETCH(self->tree.numbers + slot / FANOUT * FANOUT);
        }
    }
    npy_intp kept = 0;
    for (npy_intp i = 0; i < count; i++) { /* in order: of equal ids the last stays */
        if (ids[i] >= oldest_id) {
            npy_int64 slot = ids[i] % capacity;
            gain[slot] = 0.0 + (single ? ((const float *)given)[i] : ((const double *)given)[i]);
            self->slots[kept++] = slot;
        }
    }
    double largest = 0.0;
    for (npy_intp i = 0; i < kept; i++) {
        largest = gain[self->slots[i]] > largest ? gain[self->slots[i]] : largest;
    }
    if (kept > 0) {
        renew_leaves(self, kept, exponent);
    }
    return Py_BuildValue("nd", (Py_ssize_t)(count - kept), largest);
}

static int
is_columns(PyObject *object)
{
    if (!PyObject_TypeCheck(object, &ColumnsType)) {
        PyErr_SetString(PyExc_TypeError, "The first argument has to be Columns.");
        return 0;
    }
    return 1;
}

static PyObject *
Gains_add(Gains *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "add takes columns, values, slot, gain and exponent.");
        return NULL;
    }
    Py_ssize_t slot = PyLong_AsSsize_t(args[2]);
    double gain = PyFloat_AsDouble(args[3]), exponent = PyFloat_AsDouble(args[4]);
    if (PyErr_Occurred() || !is_columns(args[0])) {
        return NULL;
    }
    if (slot < 0 || slot >= PyArray_DIM(self->gain, 0)) {
        PyErr_Format(PyExc_IndexError, "slot %zd is not one of %zd", slot,
                     PyArray_DIM(self->gain, 0));
        return NULL;
    }
    PREFETCH(self->tree.numbers + slot);
    if (make_room(self, 1) < 0) {
        return NULL;
    }
    int fine = put_row(args[0], args[1], slot);
    if (fine == 1) {
        ((double *)PyArray_DATA(self->gain))[slot] = gain;
        self->slots[0] = slot;
        renew_leaves(self, 1, exponent);
    }
    return fine < 0 ? NULL : PyBool_FromLong(fine);
}

/* Draw a slot for each of ``slots``, with its probability, as ``random`` of a generator would. */
static void
draw_slots(const SumTree *tree, bitgen_t *source, int stratified, npy_intp size, npy_int64 *slots,
           double *probabilities)
{
    double total = *total_of(tree);
    for (npy_intp i = 0; i < size; i++) {
        double uniform = source->next_double(source->state);
        probabilities[i] =
            stratified ? ((double)i + uniform) / (double)size * total : uniform * total;
    }
    find_leaves(tree, probabilities, slots, size);
    for (npy_intp i = 0; i < size; i++) {
        probabilities[i] = tree->numbers[slots[i]] / total;
    }
}

static PyObject *
Gains_sample(Gains *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 6) {
        PyErr_SetString(PyExc_TypeError,
                        "sample takes columns, size, bits, stratified, beta and next_id.");
        return NULL;
    }
    Py_ssize_t size = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
    bitgen_t *source = PyErr_Occurred() ? NULL : PyCapsule_GetPointer(args[2], "BitGenerator");
    if (source == NULL || !is_columns(args[0])) {
        return NULL;
    }
    int stratified = PyObject_IsTrue(args[3]);
    double beta = PyFloat_AsDouble(args[4]);
    npy_int64 next_id = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (size < 1 || *total_of(&self->tree) == 0.0) {
        Py_RETURN_NONE;
    }
    PyArrayObject *ids = new_vector(size, NPY_INT64);
    PyArrayObject *probabilities = ids == NULL ? NULL : new_vector(size, NPY_FLOAT64);
    if (probabilities == NULL) {
        Py_XDECREF(ids);
        return NULL;
    }
    PyObject *weights, *batch;
    double *probability = PyArray_DATA(probabilities);
    draw_slots(&self->tree, source, stratified, size, PyArray_DATA(ids), probability);
    if (hand_out(args[0], ids, probability, 0.0, beta, next_id, &weights, &batch) < 0) {
        Py_DECREF(ids);
        Py_DECREF(probabilities);
        return NULL;
    }
    return Py_BuildValue("NNNN", ids, probabilities, weights, batch);
}

static PyMethodDef Gains_methods[] = {
    {"set", (PyCFunction)(void (*)(void))Gains_set, METH_FASTCALL, NULL},
    {"take", (PyCFunction)(void (*)(void))Gains_take, METH_FASTCALL, NULL},
    {"add", (PyCFunction)(void (*)(void))Gains_add, METH_FASTCALL, NULL},
    {"sample", (PyCFunction)(void (*)(void))Gains_sample, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject GainsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "needreplay.replay.native._native.Gains",
    .tp_basicsize = sizeof(Gains),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = Gains_new,
    .tp_dealloc = (destructor)Gains_dealloc,
    .tp_methods = Gains_methods,
};
