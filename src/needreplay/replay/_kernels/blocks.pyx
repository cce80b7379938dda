"""Rows of several blocks, gathered into one, and the stacks that their frames make.

A block is a tuple (rows, frames, places) as ``Parts`` in ``replay/storage.py``: rows are bytes;
frames are bytes, each once; places say, of each row, which frames its stacks have.
"""

from cpython.tuple cimport PyTuple_GET_ITEM
from libc.string cimport memcpy
from numpy cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport i64, is_plain, u8

cnp.import_array()


cdef const uint8_t* bytes_of(object array, Py_ssize_t width) except NULL:
    """The first byte of an array of rows of ``width`` bytes."""
    if (
        not is_plain(array, cnp.NPY_UINT8)
        or cnp.PyArray_NDIM(array) != 2
        or cnp.PyArray_DIM(array, 1) != width
    ):
        raise TypeError(f"a kernel takes rows of {width} contiguous bytes here: {array!r}")
    return <const uint8_t*>cnp.PyArray_DATA(array)


cdef int check(Py_ssize_t place, Py_ssize_t count) except -1:
    if not 0 <= place < count:
        raise IndexError(f"{place} is not one of {count} rows or frames")
    return 0


def gather(list blocks, rows):
    """Row ``rows[i]`` of ``blocks[i]``, each: a tuple like a block, with each row's frames once."""
    cdef Py_ssize_t i, j, k, n = len(blocks), width, size, length, used = 0, count
    cdef const int64_t* row = i64(rows, n)
    cdef const int64_t* place
    cdef const uint8_t* source
    first_rows, first_frames, first_places = blocks[0]
    width = first_rows.shape[1]
    gathered = np.empty((n, width), dtype=np.uint8)
    cdef uint8_t* out = u8(gathered, n * width)
    for i in range(n):
        array = <object>PyTuple_GET_ITEM(blocks[i], 0)
        source = bytes_of(array, width)
        check(row[i], len(array))
        memcpy(out + i * width, source + row[i] * width, width)
    if first_frames is None:
        return gathered, None, None
    size, length = first_frames.shape[1], first_places.shape[1]
    chosen, places = np.empty(n * length, dtype=np.int64), np.empty((n, length), dtype=np.int64)
    cdef int64_t* frame = i64(chosen, n * length)
    cdef int64_t* to = i64(places, n * length)
    cdef int64_t* own
    counts = np.empty(n, dtype=np.int64)
    cdef int64_t* found = i64(counts, n)
    for i in range(n):
        array = <object>PyTuple_GET_ITEM(blocks[i], 2)
        place = i64(array, len(array) * length) + row[i] * length
        own, count = frame + used, 0
        for j in range(length):
            k = 0
            while k < count and own[k] != place[j]:
                k += 1
            if k == count:
                own[k] = place[j]
                count += 1
            to[i * length + j] = used + k
        found[i] = count
        used += count
    frames = np.empty((used, size), dtype=np.uint8)
    out, used = u8(frames, used * size), 0
    for i in range(n):
        array = <object>PyTuple_GET_ITEM(blocks[i], 1)
        source = bytes_of(array, size)
        for k in range(found[i]):
            check(frame[used], len(array))
            memcpy(out + used * size, source + frame[used] * size, size)
            used += 1
    return gathered, frames, places


def stack(list several, list at, columns, out):
    """Write the frames of each row of ``several`` blocks where ``at`` says.

    Args:
        several: blocks.
        at: of each block, the places of its rows in ``out``.
        columns: which columns of ``places`` make a stack.
        out: bytes (rows, columns, bytes of a frame).
    """
    cdef Py_ssize_t b, i, j, n, width, size = out.shape[2], length = len(columns)
    cdef uint8_t* target = u8(out, len(out) * length * size)
    cdef const int64_t* column = i64(columns, length)
    cdef const uint8_t* source
    cdef const int64_t* place
    cdef const int64_t* to
    for b in range(len(several)):
        _, frames, places = several[b]
        n, width = len(places), places.shape[1]
        source, place, to = bytes_of(frames, size), i64(places, n * width), i64(at[b], n)
        for i in range(n):
            check(to[i], len(out))
            for j in range(length):
                check(column[j], width)
                check(place[i * width + column[j]], len(frames))
                memcpy(
                    target + (to[i] * length + j) * size,
                    source + place[i * width + column[j]] * size,
                    size,
                )
