/* What the parts of the extension share.
 *
 * The extension is the way of the calls that happen at each training step (add, sample, update)
 * when there is nothing unusual about them. It holds no rule of its own: every method does what a
 * kernel in Python does, bit for bit, and declines (answers None or False, having changed nothing)
 * whatever is not plainly fine, so that Python casts it, or refuses it in prose.
 */
#ifndef NEEDREPLAY_NATIVE_H
#define NEEDREPLAY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL needreplay_native_numpy
#ifndef NEEDREPLAY_NATIVE_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

#define LINE 64 /* bytes of a cache line */

/* Whether ``object`` is a plain vector of ``type``, one entry after the other, in native order. */
static inline int
is_vector(PyObject *object, int type)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    return PyArray_NDIM(array) == 1 && PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array);
}

/* A new vector of ``length`` numbers, not yet written; NULL with an exception set on failure. */
static inline PyArrayObject *
new_vector(npy_intp length, int type)
{
    return (PyArrayObject *)PyArray_SimpleNew(1, &length, type);
}

extern PyTypeObject GainsType;
extern PyTypeObject ColumnsType;

/* ``values`` go to ``row`` of ``columns``: 1, or 0 (declined, nothing written), or -1 (raised). */
int put_row(PyObject *columns, PyObject *values, npy_intp row);

/* Weights and columns of the slots in ``ids``, which become ids; 0, or -1 with an exception set. */
int hand_out(PyObject *columns, PyArrayObject *ids, const double *probabilities, double smallest,
             double beta, npy_int64 next_id, PyObject **weights, PyObject **batch);

#endif
