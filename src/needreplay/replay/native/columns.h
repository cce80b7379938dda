/* Named arrays with the same leading axis (rows), of which each row is in one piece. */
#ifndef NEEDREPLAY_COLUMNS_H
#define NEEDREPLAY_COLUMNS_H

#include "native.h"

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

/* Whether every column was given a value that is plainly its own, noted in ``given``: 1, 0 or -1.
 * ``leading``: for all rows at once, with a leading axis. */
int take_values(Columns *self, PyObject *values, int leading);

/* Columns.hand_out, for the type's table of methods. */
PyObject *Columns_hand_out(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

#endif
