/* FastPath: add, sample and update of a buffer, bound to its arrays when it is made. */
#define NEEDREPLAY_NATIVE_MODULE
#include "sumtree.h"

#include <math.h>
#include <numpy/random/bitgen.h>

typedef struct {
    PyObject_HEAD
    PyObject *arguments; /* keeps all arrays alive */
    Columns columns;     /* of the ring */
    char *rows;
    npy_intp capacity;
    npy_int64 *ids; /* the oldest and the next */
    npy_int64 *counts; /* batches, and updates that came too late */
    double *max_seen;
    Steps steps;    /* where it has environments */
    int adds;
    double *priorities; /* NULL: another sampler, which Python calls */
    SumTree tree;
    double min_priority, max_priority;
    npy_int64 *scratch; /* slots whose priority changes */
    npy_intp scratch_length;
} FastPath;

static void
FastPath_dealloc(FastPath *self)
{
    release_columns(&self->columns);
    release_columns(&self->steps.columns);
    Py_XDECREF(self->arguments);
    PyMem_Free(self->scratch);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int
is_vector(PyObject *object, int type)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    return PyArray_NDIM(array) == 1 && PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array);
}

static int
reserve(FastPath *self, npy_intp count)
{
    if (count <= self->scratch_length) {
        return 0;
    }
    npy_int64 *larger = self->scratch;
    PyMem_Resize(larger, npy_int64, (size_t)count); /* NULL also if that many bytes overflow */
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->scratch = larger;
    self->scratch_length = count;
    return 0;
}

static int
bind_sampler(FastPath *self, PyObject *priorities, PyObject *tree)
{
    if (!is_vector(priorities, NPY_FLOAT64) || !is_vector(tree, NPY_FLOAT64) ||
        !PyArray_ISWRITEABLE((PyArrayObject *)priorities) ||
        !PyArray_ISWRITEABLE((PyArrayObject *)tree) ||
        PyArray_DIM((PyArrayObject *)priorities, 0) != self->capacity ||
        PyArray_DIM((PyArrayObject *)tree, 0) != lay_out_tree(&self->tree, self->capacity)) {
        PyErr_SetString(PyExc_ValueError,
                        "priorities and tree must be float64: one per row, and their sum tree.");
        return -1;
    }
    self->priorities = PyArray_DATA((PyArrayObject *)priorities);
    self->tree.numbers = PyArray_DATA((PyArrayObject *)tree);
    return 0;
}

static PyObject *
FastPath_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *columns, *ids, *counts, *max_seen, *priorities, *tree, *steps;
    PyArrayObject *rows;
    double min_priority, max_priority;
    int adds;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "FastPath takes no keyword arguments.");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!OOOOOddOp", &PyDict_Type, &columns, &PyArray_Type, &rows, &ids,
                          &counts, &max_seen, &priorities, &tree, &min_priority, &max_priority,
                          &steps, &adds)) {
        return NULL;
    }
    FastPath *self = (FastPath *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->arguments = Py_NewRef(args);
    self->adds = adds;
    self->min_priority = min_priority;
    self->max_priority = max_priority;
    if (PyArray_NDIM(rows) != 2 || PyArray_TYPE(rows) != NPY_UINT8 || !PyArray_ISCARRAY(rows) ||
        PyArray_DIM(rows, 0) < 1 || !is_vector(ids, NPY_INT64) ||
        PyArray_DIM((PyArrayObject *)ids, 0) != 2 || !is_vector(counts, NPY_INT64) ||
        PyArray_DIM((PyArrayObject *)counts, 0) != 2 || !is_vector(max_seen, NPY_FLOAT64) ||
        PyArray_DIM((PyArrayObject *)max_seen, 0) != 1) {
        PyErr_SetString(PyExc_ValueError,
                        "rows must be bytes, ids and counts two int64, max_seen one float64.");
        goto failed;
    }
    self->rows = PyArray_DATA(rows);
    self->capacity = PyArray_DIM(rows, 0);
    self->ids = PyArray_DATA((PyArrayObject *)ids);
    self->counts = PyArray_DATA((PyArrayObject *)counts);
    self->max_seen = PyArray_DATA((PyArrayObject *)max_seen);
    if (bind_columns(&self->columns, columns) < 0 ||
        (steps != Py_None &&
         bind_steps(&self->steps, steps, PyArray_DIM(rows, 1), self->capacity) < 0) ||
        (priorities != Py_None && bind_sampler(self, priorities, tree) < 0) ||
        reserve(self, self->steps.n_envs * self->steps.n_step) < 0) {
        goto failed;
    }
    if (self->columns.rows != self->capacity) {
        PyErr_SetString(PyExc_ValueError, "Columns must have the same number of rows as the ring.");
        goto failed;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* priority^alpha of each slot in ``scratch``, which is used up, goes to its leaf and up the tree. */
static void
update_tree(FastPath *self, npy_intp count, double alpha)
{
    double *leaves = self->tree.numbers;
    double before = 0.0, power = 0.0;
    for (npy_intp i = 0; i < count; i++) {
        npy_int64 slot = self->scratch[i];
        if (i == 0 || self->priorities[slot] != before) { /* new transitions have equal ones */
            before = self->priorities[slot];
            power = alpha == 1.0 ? before : pow(before, alpha);
        }
        leaves[slot] = power;
    }
    if (count > 0) {
        sum_above(&self->tree, self->scratch, count);
    }
}

static PyObject *
FastPath_add(FastPath *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "add takes values and alpha.");
        return NULL;
    }
    double priority = *self->max_seen, alpha = PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (!self->adds) {
        Py_RETURN_NONE;
    }
    npy_intp n_envs = self->steps.n_envs, capacity = self->capacity;
    npy_int64 first_id = self->ids[1], slot = first_id % capacity;
    PREFETCH(self->tree.numbers + slot);
    npy_intp count =
        take_values(n_envs > 0 ? &self->steps.columns : &self->columns, args[0], n_envs);
    if (count < 0 || (count > 0 && reserve(self, count) < 0)) {
        return NULL;
    }
    if (count == 0) {
        Py_RETURN_NONE;
    }
    if (n_envs > 0) {
        count = add_step(&self->steps, self->rows, capacity, first_id);
    } else {
        for (npy_intp i = count > capacity ? count - capacity : 0; i < count; i++) {
            write_row(&self->columns, i, (first_id + i) % capacity);
        }
    }
    self->ids[1] = first_id + count;
    if (self->ids[1] - self->ids[0] > capacity) {
        self->ids[0] = self->ids[1] - capacity;
    }
    if (self->priorities != NULL) {
        npy_intp stored = count < capacity ? count : capacity;
        for (npy_intp i = 0; i < stored; i++) {
            npy_int64 new_slot = (first_id + count - stored + i) % capacity;
            self->scratch[i] = new_slot;
            self->priorities[new_slot] = priority;
        }
        update_tree(self, stored, alpha);
    }
    return PyLong_FromSsize_t(count);
}

static PyObject *
FastPath_update(FastPath *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "update takes ids, priorities and alpha.");
        return NULL;
    }
    int single = is_vector(args[1], NPY_FLOAT32);
    if (self->priorities == NULL || !is_vector(args[0], NPY_INT64) ||
        !(single || is_vector(args[1], NPY_FLOAT64))) {
        Py_RETURN_NONE;
    }
    npy_intp count = PyArray_DIM((PyArrayObject *)args[0], 0), capacity = self->capacity;
    double alpha = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred() || reserve(self, count) < 0) {
        return NULL;
    }
    const npy_int64 *ids = PyArray_DATA((PyArrayObject *)args[0]);
    const void *given = PyArray_DATA((PyArrayObject *)args[1]);
    if (PyArray_DIM((PyArrayObject *)args[1], 0) != count ||
        ((const double *)given >= self->priorities &&
         (const double *)given < self->priorities + capacity)) {
        Py_RETURN_NONE; /* the latter would change while they are read */
    }
#define GIVEN(I) (single ? ((const float *)given)[I] : ((const double *)given)[I])
    for (npy_intp i = 0; i < count; i++) {
        double value = GIVEN(i);
        if (!((value >= self->min_priority && value <= self->max_priority) || value == 0.0) ||
            ids[i] < 0 || ids[i] >= self->ids[1]) {
            Py_RETURN_NONE;
        }
        npy_int64 slot = ids[i] % capacity;
        PREFETCH(self->priorities + slot);
        PREFETCH(self->tree.numbers + slot / FANOUT * FANOUT);
    }
    npy_intp stored = 0;
    for (npy_intp i = 0; i < count; i++) { /* in order: of equal ids the last stays */
        if (ids[i] >= self->ids[0]) {
            self->scratch[stored] = ids[i] % capacity;
            self->priorities[self->scratch[stored++]] = 0.0 + GIVEN(i);
        }
    }
#undef GIVEN
    for (npy_intp i = 0; i < stored; i++) {
        *self->max_seen = fmax(*self->max_seen, self->priorities[self->scratch[i]]);
    }
    self->counts[1] += count - stored;
    update_tree(self, stored, alpha);
    Py_RETURN_TRUE;
}

/* Importance weights and columns of the slots in ``ids``, which become ids: 0, or -1. */
static int
finish(FastPath *self, PyArrayObject *ids, const double *probabilities, double beta,
       PyObject **weights, PyObject **batch)
{
    npy_intp size = PyArray_DIM(ids, 0), capacity = self->capacity;
    npy_int64 *slots = PyArray_DATA(ids), next_id = self->ids[1];
    npy_int64 occupied = next_id < capacity ? next_id : capacity;
    for (npy_intp i = 0; i < size; i++) {
        if (slots[i] < 0 || slots[i] >= occupied) {
            PyErr_Format(PyExc_IndexError, "slot %lld is not one of %lld", (long long)slots[i],
                         (long long)occupied);
            return -1;
        }
    }
    prefetch_rows(&self->columns, slots, size);
    *weights = PyArray_SimpleNew(1, &size, NPY_FLOAT64);
    if (*weights == NULL) {
        return -1;
    }
    double *weight = PyArray_DATA((PyArrayObject *)*weights);
    double smallest = size > 0 ? probabilities[0] : 0.0;
    for (npy_intp i = 1; i < size; i++) {
        smallest = probabilities[i] < smallest ? probabilities[i] : smallest;
    }
    for (npy_intp i = 0; i < size; i++) {
        weight[i] = pow(smallest / probabilities[i], beta);
    }
    *batch = gather(&self->columns, slots, size);
    if (*batch == NULL) {
        Py_DECREF(*weights);
        return -1;
    }
    for (npy_intp i = 0; i < size; i++) {
        slots[i] = next_id - 1 - (next_id - 1 - slots[i]) % capacity;
    }
    return 0;
}

static PyObject *
FastPath_gather(FastPath *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "gather takes slots, probabilities and beta.");
        return NULL;
    }
    double beta = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (!is_vector(args[0], NPY_INT64) || !is_vector(args[1], NPY_FLOAT64) ||
        PyArray_DIM((PyArrayObject *)args[0], 0) != PyArray_DIM((PyArrayObject *)args[1], 0)) {
        Py_RETURN_NONE;
    }
    const double *probabilities = PyArray_DATA((PyArrayObject *)args[1]);
    PyArrayObject *ids = (PyArrayObject *)PyArray_NewCopy((PyArrayObject *)args[0], NPY_CORDER);
    PyObject *weights, *batch;
    if (ids == NULL || finish(self, ids, probabilities, beta, &weights, &batch) < 0) {
        Py_XDECREF(ids);
        return NULL;
    }
    return Py_BuildValue("NNN", ids, weights, batch);
}

static PyObject *
FastPath_sample(FastPath *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "sample takes size, random bits, stratified and beta.");
        return NULL;
    }
    Py_ssize_t size = PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
    bitgen_t *source = PyErr_Occurred() ? NULL : PyCapsule_GetPointer(args[1], "BitGenerator");
    int stratified = source == NULL ? -1 : PyObject_IsTrue(args[2]);
    double beta = stratified < 0 ? 0.0 : PyFloat_AsDouble(args[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (size < 1 || self->priorities == NULL || *total_of(&self->tree) == 0.0) {
        Py_RETURN_NONE;
    }
    PyArrayObject *ids = (PyArrayObject *)PyArray_SimpleNew(1, &size, NPY_INT64);
    PyArrayObject *made = ids == NULL ? NULL : (PyArrayObject *)PyArray_SimpleNew(1, &size, NPY_FLOAT64);
    if (made == NULL) {
        Py_XDECREF(ids);
        return NULL;
    }
    double *probability = PyArray_DATA(made), total = *total_of(&self->tree);
    npy_int64 *slots = PyArray_DATA(ids);
    for (npy_intp i = 0; i < size; i++) { /* the numbers of ``rng.random(size)`` */
        double uniform = source->next_double(source->state);
        probability[i] = stratified ? ((double)i + uniform) / (double)size * total : uniform * total;
    }
    find_leaves(&self->tree, probability, slots, size);
    for (npy_intp i = 0; i < size; i++) {
        probability[i] = self->tree.numbers[slots[i]] / total;
    }
    PyObject *weights, *batch;
    if (finish(self, ids, probability, beta, &weights, &batch) < 0) {
        Py_DECREF(ids);
        Py_DECREF(made);
        return NULL;
    }
    self->counts[0]++;
    return Py_BuildValue("NNNN", ids, made, weights, batch);
}

static PyMethodDef FastPath_methods[] = {
    {"add", (PyCFunction)(void (*)(void))FastPath_add, METH_FASTCALL, NULL},
    {"update", (PyCFunction)(void (*)(void))FastPath_update, METH_FASTCALL, NULL},
    {"sample", (PyCFunction)(void (*)(void))FastPath_sample, METH_FASTCALL, NULL},
    {"gather", (PyCFunction)(void (*)(void))FastPath_gather, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject FastPathType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "needreplay.replay.native._native.FastPath",
    .tp_basicsize = sizeof(FastPath),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = FastPath_new,
    .tp_dealloc = (destructor)FastPath_dealloc,
    .tp_methods = FastPath_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "needreplay.replay.native._native",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    import_array();
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &FastPathType) < 0 ||
        PyModule_AddStringConstant(made, "source", NEEDREPLAY_SOURCE) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
