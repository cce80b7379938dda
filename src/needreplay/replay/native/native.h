/* The fast path in C: the calls of every training step, where nothing about them is unusual.
 *
 * It has no rule of its own. Every method does what Python and numba do without it, with the same
 * random numbers, and returns None without having changed anything for whatever it does not take,
 * so that Python converts it or refuses it with a reason.
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

/* columns.c: named arrays with the same number of rows, each row contiguous. */

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
    PyArray_Descr *descr; /* owned by ``array`` */
    char *data;
    npy_intp step;   /* bytes from one row to the next */
    npy_intp nbytes; /* of one row */
    int ndim;        /* of one row */
    const npy_intp *shape;
    const char *given; /* what ``take_values`` found for this column */
    int widens;        /* whether that is float32 for a column of float64 */
    Number number;     /* where it was not an array */
} Column;

typedef struct {
    Column *columns;
    Py_ssize_t count;
    npy_intp rows;
} Columns;

/* Bind to the arrays of a dict: 0, or -1 with an exception set. */
int bind_columns(Columns *self, PyObject *arrays);
void release_columns(Columns *self);

/* Whether ``values`` has a plain value for every column: their number of rows, 0 for no, or -1 with
 * an exception set. Either one row without a leading axis, or any number (``rows``, unless 0). */
npy_intp take_values(Columns *self, PyObject *values, npy_intp rows);

/* Write row ``i`` of what ``take_values`` found to row ``row``. */
void write_row(const Columns *self, npy_intp i, npy_intp row);

/* A dict of new arrays with the rows ``slots``; NULL with an exception set on failure. */
PyObject *gather(const Columns *self, const npy_int64 *slots, npy_intp size);
void prefetch_rows(const Columns *self, const npy_int64 *slots, npy_intp size);

/* steps.c: n-step windows of several environments. */

typedef struct {
    Columns columns; /* of one step of all environments: views of ``step``, rewards and flags */
    npy_intp n_envs, n_step, stride;
    char *step, *pending;
    double *rewards;
    npy_bool *flags;
    npy_int64 *state, *slots, *previous, *sources, *following, *places;
    Py_ssize_t next_from, next_to, reward_at, discount_at;
    double discount;
    int skips_resets;
} Steps;

/* Bind to what ``EpisodeWriter.native_steps`` returns: 0, or -1 with an exception set. */
int bind_steps(Steps *self, PyObject *given, npy_intp stride, npy_intp capacity);

/* One step of every environment, after ``take_values``; writes closed windows to the ring ``rows``
 * from ``first_id`` on and returns how many. */
npy_intp add_step(Steps *self, char *rows, npy_intp capacity, npy_int64 first_id);

#endif
