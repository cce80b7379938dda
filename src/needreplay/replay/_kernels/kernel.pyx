"""What the compiled part of every sampler does: follow the slots that a buffer fills and empties.

A buffer calls the ``cdef`` methods, with no Python in between; ``place``, ``set_priorities`` and
``clear`` are the same for Python. ``UniformSampler`` needs no more than the window of occupied
slots: the oldest of them and their number, in ring order.
"""

from libc.math cimport fabs
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from numpy cimport uint64_t

cimport numpy as cnp

from needreplay.replay._kernels cimport equations
from needreplay.replay._kernels.arrays cimport as_f64, as_i64, f64, i64, new_array

cnp.import_array()

cdef enum:
    OLDEST, COUNT


cdef int powers_into(
    const double* priorities, double* powers, Py_ssize_t count, double alpha
) noexcept nogil:
    """priority^alpha, each; runs of equal priorities (new transitions) take one power."""
    cdef Py_ssize_t i
    for i in range(count):
        if i > 0 and priorities[i] == priorities[i - 1]:
            powers[i] = powers[i - 1]
        else:
            powers[i] = equations.power(priorities[i], alpha)
    return 0


cdef bint is_unknown(const char* row) noexcept nogil:
    """Whether ``row`` says that a transition has no state or no features."""
    return (<const int64_t*>row)[0] == -1


def powers_of(priorities, double alpha):
    """priority^alpha, each."""
    cdef Py_ssize_t count = len(priorities)
    powers = new_array(cnp.NPY_FLOAT64, count)
    powers_into(f64(priorities, count), f64(powers, count), count, alpha)
    return powers


def equation(str name, *x):
    """One of the equations that kernels use, for tests."""
    if name == "discounted":
        return equations.discounted(x[0], x[1], x[2])
    if name == "power":
        return equations.power(x[0], x[1])
    if name == "combine":
        return equations.combine(x[0], x[1], x[2])
    if name == "mixed_probability":
        return equations.mixed_probability(x[0], x[1], x[2])
    if name == "importance_weight":
        return equations.importance_weight(x[0], x[1], x[2])
    if name == "rank_priority":
        return equations.rank_priority(x[0], x[1])
    if name == "pser_priority":
        return equations.pser_priority(x[0], x[1], x[2])
    if name == "pser_decayed":
        return equations.pser_decayed(x[0], x[1], x[2])
    return equations.uniform_index(x[0], x[1])


def largest_of(numbers):
    """The largest of the absolute values; NaN if one is NaN."""
    cdef Py_ssize_t i, count = numbers.size
    cdef const double* number = f64(numbers, count)
    cdef double size, largest = 0.0
    for i in range(count):
        size = fabs(number[i])
        if not size <= largest:  # NaN, too
            largest = size
        if size != size:
            break
    return largest


cdef int current_into(
    const int64_t* ids, Py_ssize_t count, int64_t oldest, int64_t next_id, int64_t* chosen,
    Py_ssize_t* first, Py_ssize_t* overwritten,
) except -2:
    """Which ids count: those still stored, and the last of equal ones.

    Writes their indices, in order, to the end of ``chosen``, and where they start. Returns the
    index of the first id that never existed, or -1. Ids seen so far are in a small hash table.
    """
    cdef Py_ssize_t i, size = 2, place
    for i in range(count):
        if not 0 <= ids[i] < next_id:
            return i
    while size < 4 * count:
        size *= 2
    seen = <int64_t*>malloc(size * sizeof(int64_t))
    if seen == NULL:
        raise MemoryError()
    memset(seen, 0xFF, size * sizeof(int64_t))  # -1
    first[0], overwritten[0] = count, 0
    for i in range(count - 1, -1, -1):
        if ids[i] < oldest:
            overwritten[0] += 1
            continue
        place = (<uint64_t>ids[i] * <uint64_t>0x9E3779B1) & <uint64_t>(size - 1)
        while seen[place] != -1 and seen[place] != ids[i]:
            place = (place + 1) & (size - 1)
        if seen[place] == -1:
            seen[place] = ids[i]
            first[0] -= 1
            chosen[first[0]] = i
    free(seen)
    return -1


def current(ids, int64_t oldest, int64_t next_id):
    """The index of the first id that never existed, or -1; how many were overwritten; and the
    indices of those that count: still stored, and the last of equal ones."""
    cdef Py_ssize_t count = len(ids), first = 0, overwritten = 0
    chosen = new_array(cnp.NPY_INT64, count)
    wrong = current_into(
        i64(ids, count), count, oldest, next_id, i64(chosen, count), &first, &overwritten
    )
    return wrong, overwritten, chosen[first:]


cdef class Kernel:
    """Follows the window of occupied slots.

    Args:
        arrays: the sampler's, by name; a kernel keeps what it knows in these alone.
        capacity: how many slots there are.
        follows_window: whether ``window`` has to be up to date.
        samples_alone: whether ``draw`` is all there is to a batch.
    """

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window=True, bint samples_alone=False
    ):
        self.arrays, self.capacity = arrays, capacity
        self.window = i64(arrays["window"], 2)
        self.follows_window, self.samples_alone = follows_window, samples_alone

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """New transitions are in ``slots``; ``previous`` are those before them, or -1."""
        return 0

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        """Set raw priorities; empty slots become occupied.

        An add of more transitions than there is space for begins beyond the end of the window, and
        fills the gap when it comes around.
        """
        cdef Py_ssize_t i
        if self.follows_window and self.window[COUNT] < self.capacity:
            for i in range(count):
                self.window[COUNT] = max(
                    self.window[COUNT],
                    (slots[i] - self.window[OLDEST] + self.capacity) % self.capacity + 1,
                )
        return 0

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        if self.follows_window and count > 0:
            self.window[OLDEST] = (slots[count - 1] + 1) % self.capacity
            self.window[COUNT] -= count
        return 0

    cdef int arrive(
        self, const int64_t* slots, const int64_t* previous, const double* priorities,
        const char* rows, Py_ssize_t step, Py_ssize_t count,
    ) except -1:
        """New transitions with all that is known of them: states or features in ``rows``, or NULL.

        A row is ``step`` bytes. Where there is no state or are no features, all bits are set.
        """
        cdef Py_ssize_t i, begin = 0
        self.enter(slots, previous, count)
        self.assign(slots, priorities, count)
        for i in range(count + 1 if rows != NULL else 0):
            if i == count or is_unknown(rows + i * step):
                if i > begin:
                    self.describe(slots + begin, rows + begin * step, step, i - begin)
                begin = i + 1
        return 0

    cdef bint takes(self, const char* row) noexcept:
        """Whether this state or these features can be those of a slot."""
        return True

    cdef int describe(
        self, const int64_t* slots, const char* rows, Py_ssize_t step, Py_ssize_t count
    ) except -1:
        """Set the states or the features of ``slots``, in rows of ``step`` bytes."""
        return 0

    cdef bint draw(self, double* uniforms, int64_t* slots, Py_ssize_t count) noexcept nogil:
        """A slot for each uniform number, which becomes its probability; False: Python has to."""
        cdef Py_ssize_t i
        self.pick_into(uniforms, slots, count)
        for i in range(count):
            uniforms[i] = 1.0 / self.window[COUNT]
        return True

    cdef Py_ssize_t occupied(self) noexcept nogil:
        """How many slots are."""
        return self.window[COUNT]

    cdef void pick_into(
        self, const double* uniforms, int64_t* slots, Py_ssize_t count
    ) noexcept nogil:
        """One of the occupied slots for each uniform number, all equally likely."""
        cdef Py_ssize_t i, place, occupied = self.window[COUNT]
        cdef Py_ssize_t wrapped = max(0, self.window[OLDEST] + occupied - self.capacity)
        for i in range(count):
            place = equations.uniform_index(uniforms[i], occupied)
            slots[i] = place if place < wrapped else self.window[OLDEST] + place - wrapped

    def pick(self, uniforms):
        """One of the occupied slots for each uniform number, all equally likely."""
        cdef Py_ssize_t count = len(uniforms)
        slots = new_array(cnp.NPY_INT64, count)
        self.pick_into(f64(uniforms, count), i64(slots, count), count)
        return slots

    def place(self, slots, previous):
        """``enter`` for Python."""
        cdef Py_ssize_t count = len(slots)
        slots, previous = as_i64(slots), as_i64(previous)
        self.enter(i64(slots, count), i64(previous, count), count)

    def set_priorities(self, slots, priorities):
        """``assign`` for Python."""
        cdef Py_ssize_t count = len(slots)
        slots, priorities = as_i64(slots), as_f64(priorities)
        self.assign(i64(slots, count), f64(priorities, count), count)

    def clear(self, slots):
        """``leave`` for Python."""
        cdef Py_ssize_t count = len(slots)
        slots = as_i64(slots)
        self.leave(i64(slots, count), count)
