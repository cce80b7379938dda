"""The calls of every training step in one piece: ``add``, ``sample`` and ``update_priorities``.

Between two updates of a network the caches of the processor are full of the network, so what replay
costs is how much code and memory it has to fetch again. A call returns None, and has changed
nothing, for values that are not plain: Python then converts them and calls again, or says what is
wrong. No signal handler runs within a call, so it is done whole or not at all.
"""

from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdlib cimport free, realloc
from numpy cimport int64_t, npy_intp
from numpy.random cimport bitgen_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport (
    LINE, as_f64, f64, i64, is_plain, new_array, prefetch, u8,
)
from needreplay.replay._kernels.columns cimport Table
from needreplay.replay._kernels.continuity cimport JUMPS, WRONG_RESETS, Continuity
from needreplay.replay._kernels.equations cimport importance_weight
from needreplay.replay._kernels.kernel cimport Kernel, current_into
from needreplay.replay._kernels.steps cimport Windows

from needreplay.replay.validation import MAX_PRIORITY, MIN_PRIORITY

cnp.import_array()

cdef enum:
    OLDEST = 0, NEXT       # of ``ids``
    BATCHES = 0, DROPPED   # of ``counts``
    PREFETCHED = 256, PREFETCHED_BYTES = 16 * LINE  # rows, and of long ones only the start

cdef double SMALLEST = MIN_PRIORITY, LARGEST = MAX_PRIORITY


cdef class Core:
    """A ring of rows with its sampler, bound to the arrays of a ``ReplayBuffer``.

    Args:
        columns: every column by slot: views of ``rows``; or none, and batches have none.
        rows: the ring.
        ids: the oldest and the next.
        counts: batches, and updates that came too late.
        max_seen: the largest priority so far.
        windows: the episodes, if there are any.
        info: what ``add`` takes for the sampler. Of windows see ``Windows``; otherwise some rows to
            work in.
        kernel: the sampler's, if the library knows what it does.
        watch: what is told of mistakes; see ``needreplay.replay.watch``.
    """

    cdef Table columns, info
    cdef Windows windows
    cdef Kernel kernel
    cdef object watch
    cdef Continuity continuity
    cdef int64_t* until_look
    cdef char* rows
    cdef Py_ssize_t capacity, stride
    cdef int64_t* ids
    cdef int64_t* counts
    cdef double* max_seen
    cdef object _kept
    cdef int64_t* slots      # scratch: three times ``reserved`` numbers
    cdef int64_t* previous
    cdef double* numbers
    cdef Py_ssize_t reserved

    def __init__(self, dict columns, rows, ids, counts, max_seen, windows, dict info, kernel, watch):
        self._kept = rows, ids, counts, max_seen, info
        self.columns = Table(columns)
        self.windows, self.kernel, self.watch = windows, kernel, watch
        self.continuity, self.until_look = watch.continuity, i64(watch.until_look, 1)
        (self.columns if windows is None else self.windows.step).check(watch.observed)
        if windows is not None:
            self.windows.step.check(("reward",), True, self.windows.reward_limit)
        self.info = None if not info else Table(info) if windows is None else self.windows.info
        self.capacity = len(rows)
        if self.columns.count > 0 and self.columns.rows != self.capacity:
            raise TypeError(f"columns have {self.columns.rows} rows, the ring {self.capacity}.")
        self.rows, self.stride = <char*>u8(rows, rows.size), rows.shape[1]
        self.ids, self.counts, self.max_seen = i64(ids, 2), i64(counts, 2), f64(max_seen, 1)
        if self.windows is not None:
            self.reserve(self.windows.most)

    def __dealloc__(self):
        free(self.slots)
        free(self.previous)
        free(self.numbers)

    cdef int reserve(self, Py_ssize_t count) except -1:
        if count <= self.reserved:
            return 0
        slots = <int64_t*>realloc(self.slots, count * sizeof(int64_t))
        self.slots = slots if slots != NULL else self.slots
        previous = <int64_t*>realloc(self.previous, count * sizeof(int64_t))
        self.previous = previous if previous != NULL else self.previous
        numbers = <double*>realloc(self.numbers, count * sizeof(double))
        self.numbers = numbers if numbers != NULL else self.numbers
        if slots == NULL or previous == NULL or numbers == NULL:
            raise MemoryError()
        self.reserved = count
        return 0

    # Adding -------------------------------------------------------------------------------------

    def add(
        self, dict values, bint converted=False, Py_ssize_t env=-1, bint many=False,
    ):
        """Store ``values``, tell the sampler, and return the ids stored.

        Args:
            values: by column; of episodes one step of all environments, or of ``env`` if it is not
                -1. One environment may have any number of steps.
            converted: values are arrays of the columns' own dtypes, which Python has made.
            many: there may be several steps of all environments, one after the other.
        """
        cdef Py_ssize_t i, count, found = 0, row, passed = PyDict_Size(values), place = 0
        cdef PyObject* name
        cdef Table table = self.columns if self.windows is None else self.windows.step
        cdef bint told = False
        while PyDict_Next(values, &place, &name, NULL):
            if not PyUnicode_CheckExact(<object>name):  # its comparison could run any code
                return None
        row = 1 if self.windows is None or env >= 0 else self.windows.n_envs
        count = table.take(values, 0 if row == 1 or many else row, converted)
        if count == 0 or count % row != 0:
            return None
        if self.info is not None:
            found = self.info.take_some(values, count, table.leads(values), converted)
            told = found > 0
        if table.count + found != passed or (self.windows is None and self.reserve(count) < 0):
            return None
        if told and self.kernel is not None:
            for i in range(count):
                if not self.kernel.takes(self.scratch_row(i)):
                    return None
        if not self.look(table, count, max(0, env), row):
            return None
        if self.windows is not None:
            return self.add_steps(count // row, env)
        else:
            for i in range(max(0, count - self.capacity), count):
                self.columns.write(i, (self.ids[NEXT] + i) % self.capacity)
        self.advance(count, told)
        return range(self.ids[NEXT] - count, self.ids[NEXT])

    cdef int look(
        self, Table table, Py_ssize_t count, Py_ssize_t env, Py_ssize_t envs
    ) except -1:
        """Tell what is noticed in the steps that were taken; 0 if a reward is beyond its limit.

        They are of ``envs`` environments from ``env`` on. Of many steps, only the first has to
        follow the one before.
        """
        cdef Py_ssize_t row
        cdef int found = table.not_finite(count, &row)
        if found >= 0:
            name = table.name_of(found)
            if self.windows is not None and name == "reward":
                return 0
            table.check(self.watch.observed, False)  # said once
            self.watch.not_finite(name, row if self.windows is None else env + row % envs)
        if self.windows is not None and not self.continuity.is_done:
            found = self.continuity.look(env, env + envs)
            if found == WRONG_RESETS:
                self.watch.wrong_resets(self.continuity.env)
            elif found == JUMPS:
                self.watch.jumps(self.continuity.env)
        return 1

    cdef add_steps(self, Py_ssize_t steps, Py_ssize_t env):
        """Steps that were taken, of ``env`` or of all; the sampler follows after each block of them.
        """
        cdef Windows windows = self.windows
        cdef Py_ssize_t begin = max(0, env), end = env + 1 if env >= 0 else windows.n_envs
        cdef Py_ssize_t block = windows.block(end - begin), done = 0, stored, step
        cdef int64_t first = self.ids[NEXT]
        while done < steps:
            stored = 0
            for step in range(done, min(done + block, steps)):
                stored = windows.add(
                    self.rows, self.ids[NEXT], stored, step * (end - begin), begin, end
                )
            self.advance(stored, False)
            done += block
        return range(first, self.ids[NEXT])

    def cut(self):
        """Write the open windows of the environments that are not skipped; returns how many."""
        count = self.windows.close(self.rows, self.ids[NEXT], 0, 0, self.windows.n_envs, True)
        self.advance(count, False)
        return count

    cdef int advance(self, Py_ssize_t count, bint told) except -1:
        """``count`` more ids have been written: what they overwrote is gone, the sampler follows.

        ``told``: the states or features of some of them are in what ``info`` has taken. Those of
        windows are in its rows.
        """
        cdef int64_t first = self.ids[NEXT], before
        cdef Py_ssize_t i, stored = min(count, self.capacity), skipped = count - stored, begin
        cdef Py_ssize_t step = 0, at_once = stored, some
        cdef const char* rows = NULL
        self.ids[NEXT] += count
        self.ids[OLDEST] = max(self.ids[OLDEST], self.ids[NEXT] - self.capacity)
        if self.kernel is None or count == 0:
            return 0
        for i in range(stored):
            self.slots[i] = (first + skipped + i) % self.capacity
            before = -1 if self.windows is None else self.windows.previous[skipped + i]
            self.previous[i] = before % self.capacity if before >= self.ids[OLDEST] else -1
            self.numbers[i] = self.max_seen[0]
        if self.info is not None and self.windows is not None:
            step = self.info.columns[0].step
            rows = self.info.columns[0].data
            rows += (self.windows.n_envs * self.windows.n_step + skipped) * step
        elif told:
            step, at_once = self.info.columns[0].step, self.info.rows
            rows = self.info.columns[0].data
        for begin in range(0, stored, at_once):
            some = min(at_once, stored - begin)
            for i in range(some if told else 0):
                self.info.write(skipped + begin + i, i)
            self.kernel.arrive(
                self.slots + begin, self.previous + begin, self.numbers + begin, rows, step, some
            )
        return 0

    cdef const char* scratch_row(self, Py_ssize_t i):
        """Row ``i`` of the state or features that were taken, in the last row of their table."""
        self.info.write(i, self.info.rows - 1)
        return self.info.columns[0].data + (self.info.rows - 1) * self.info.columns[0].step

    # Sampling -----------------------------------------------------------------------------------

    def sample(self, Py_ssize_t size, bits, double beta):
        """Ids, probabilities, weights and columns, from a sampler that needs no more than numbers.

        ``bits`` is the capsule of a bit generator; its numbers are those of ``rng.random(size)``.
        """
        if self.kernel is None or not self.kernel.samples_alone:
            return None
        slots, probabilities = new_array(cnp.NPY_INT64, size), new_array(cnp.NPY_FLOAT64, size)
        cdef int64_t* slot = i64(slots, size)
        cdef double* number = f64(probabilities, size)
        cdef Py_ssize_t i
        cdef bint drawn = self.kernel.draw(number, slot, 0)  # before a random number is used up
        if not drawn:
            return None
        source = <bitgen_t*>PyCapsule_GetPointer(bits, "BitGenerator")
        for i in range(size):
            number[i] = source.next_double(source.state)
        with nogil:
            self.kernel.draw(number, slot, size)
        weights, columns = self.finish(slots, probabilities, beta)
        self.counts[BATCHES] += 1
        return slots, probabilities, weights, columns

    def gather(self, slots, probabilities, double beta):
        """Ids, weights and columns of ``slots``; counts the batch."""
        ids = np.array(slots, dtype=np.int64)
        weights, columns = self.finish(ids, as_f64(probabilities), beta)
        self.counts[BATCHES] += 1
        return ids, weights, columns

    cdef tuple finish(self, slots, probabilities, double beta):
        """Importance weights and columns of ``slots``, which become ids."""
        cdef Py_ssize_t i, size = len(slots)
        cdef int64_t* slot = i64(slots, size)
        cdef const double* probability = f64(probabilities, size)
        cdef int64_t capacity = self.capacity, last = self.ids[NEXT] - 1
        cdef int64_t lap = last - last % capacity  # the newest id that was at slot 0
        weights = new_array(cnp.NPY_FLOAT64, size)
        cdef double* weight = f64(weights, size)
        cdef double smallest = probability[0] if size else 0.0
        self.until_look[0] -= 1
        if self.until_look[0] == 0:
            self.watch.look()
        for i in range(size):
            if not 0 <= slot[i] < min(last + 1, capacity):
                raise IndexError(f"slot {slot[i]} is not one of the buffer")
            smallest = min(smallest, probability[i])
        for i in range(size):
            if i < PREFETCHED:
                self.bring(slot[i])
            weight[i] = importance_weight(probability[i], smallest, beta)
        columns = self.columns.gather(slot, size)
        for i in range(size):
            slot[i] += lap if lap + slot[i] <= last else lap - capacity
        return weights, columns

    cdef void bring(self, int64_t slot) noexcept nogil:
        """Begin to load a row into the cache: while it comes there is time for other work."""
        cdef Py_ssize_t at = 0, last = min(self.stride, <Py_ssize_t>PREFETCHED_BYTES) - 1
        while at < last:
            prefetch(self.rows + slot * self.stride + at)
            at += LINE
        prefetch(self.rows + slot * self.stride + last)

    def read(self, ids):
        """The columns of the transitions ``ids``."""
        return self.columns.rows_at(ids % self.capacity)

    # Updating -----------------------------------------------------------------------------------

    def update(self, ids, priorities):
        """Set priorities; count what was overwritten; note the largest. None: Python has to."""
        cdef bint narrow = is_plain(priorities, cnp.NPY_FLOAT32)
        if (
            self.kernel is None
            or not is_plain(ids, cnp.NPY_INT64)
            or not (narrow or is_plain(priorities, cnp.NPY_FLOAT64))
            or cnp.PyArray_NDIM(ids) != 1
            or cnp.PyArray_NDIM(priorities) != 1
            or cnp.PyArray_SIZE(priorities) != cnp.PyArray_SIZE(ids)
        ):
            return None
        cdef Py_ssize_t i, at, count = cnp.PyArray_SIZE(ids), first = 0, overwritten = 0, stored
        cdef const int64_t* id_of = <const int64_t*>cnp.PyArray_DATA(ids)
        cdef const void* given = cnp.PyArray_DATA(priorities)
        cdef double value
        cdef int64_t capacity = self.capacity, lap = self.ids[NEXT] - self.ids[NEXT] % capacity
        self.reserve(count)
        for i in range(count):
            value = (<const float*>given)[i] if narrow else (<const double*>given)[i]
            if not (SMALLEST <= value <= LARGEST or value == 0.0):
                return None
        if current_into(
            id_of, count, self.ids[OLDEST], self.ids[NEXT], self.previous, &first, &overwritten
        ) >= 0:
            return None
        stored = count - first
        for i in range(stored):
            at = self.previous[first + i]
            value = (<const float*>given)[at] if narrow else (<const double*>given)[at]
            self.slots[i] = id_of[at] - lap if id_of[at] >= lap else id_of[at] - lap + capacity
            self.numbers[i] = value + 0.0  # no negative zero
        self.kernel.assign(self.slots, self.numbers, stored)
        for i in range(stored):
            self.max_seen[0] = max(self.max_seen[0], self.numbers[i])
        self.counts[DROPPED] += overwritten
        return True
