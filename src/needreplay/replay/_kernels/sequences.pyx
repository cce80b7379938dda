"""Sequences: where they begin and end as rows are stored, and the slots of their rows.

By environment, ``tracks`` has the place of its last row within the episode (or, across episodes,
within all that it ever did), how many sequences are open, the last one that was completed in this
episode, and the last row. ``open`` has the first row and its place of each open sequence, oldest
first.
"""

from libc.string cimport memmove
from numpy cimport int64_t

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport i64, new_array

cnp.import_array()

cdef enum:
    FIRST, ROWS, BEGIN, BEFORE, ENTRY  # of an entry
    PLACE = 0, HELD, NEWEST, ROW, TRACK
    LAST = 2, STATE = 6  # of the episodes of an ``EpisodeWriter``
    NONE = -1


cdef class Cutter:
    """Cuts what environments do into sequences, bound to the arrays of ``SequenceEntries``.

    Args:
        entries: the ring of sequences: first row, number of rows, the first of these that is
            trained, and the sequence before it in its episode or -1.
        ids: the oldest and the next sequence.
        tracks: see above.
        open: see above.
        episodes: the arrays of ``Windows``.
        after: by slot, the row that follows it in its sequence.
        settings: the length of a sequence, its burn-in, and how far apart sequences begin.
        across: whether they continue across the ends of episodes; ``after`` is then written here.
    """

    cdef object _kept
    cdef int64_t* entries
    cdef int64_t* ids
    cdef int64_t* tracks
    cdef int64_t* open
    cdef const int64_t* state
    cdef const int64_t* places
    cdef const int64_t* sources
    cdef int64_t* after
    cdef Py_ssize_t capacity, n_envs, n_step, most, length, burn_in, stride
    cdef int64_t oldest
    cdef bint across

    def __init__(self, entries, ids, tracks, open, dict episodes, after, settings, bint across):
        self._kept = entries, ids, tracks, open, episodes, after
        self.capacity, self.n_envs, self.most = len(after), len(tracks), open.shape[1]
        self.n_step = episodes["rewards"].shape[1] - 1
        self.entries, self.ids = i64(entries, self.capacity * ENTRY), i64(ids, 2)
        self.tracks = i64(tracks, self.n_envs * TRACK)
        self.open = i64(open, self.n_envs * self.most * 2)
        self.state = i64(episodes["episodes"], self.n_envs * STATE)
        self.places = i64(episodes["places"], self.capacity * 2)
        self.sources = i64(episodes["sources"], len(episodes["sources"]))
        self.after = i64(after, self.capacity)
        self.length, self.burn_in, self.stride = settings
        self.across = across

    def follow(self, int64_t next_row, Py_ssize_t count, int64_t oldest):
        """Rows up to, but not including, ``next_row`` were stored, the ``count`` newest just now.

        ``oldest`` is the oldest of all. Adds the sequences that this completed to the ring.
        """
        cdef int64_t row, slot, step
        cdef int64_t* track
        cdef Py_ssize_t i, e
        self.oldest = oldest
        for i in range(count):
            row = next_row - count + i
            e = self.sources[i] // self.n_step
            if row < oldest:  # as are all before it
                self.tracks[e * TRACK + HELD] = 0
                continue
            slot = row % self.capacity
            track, step = self.tracks + e * TRACK, self.places[2 * slot + 1]
            if self.across:
                track[PLACE] += 1
                self.after[slot] = NONE
                if track[ROW] >= oldest:
                    self.after[track[ROW] % self.capacity] = row
            else:
                if step == 0:
                    self.end(e)
                track[PLACE] = step
            track[ROW] = row
            if track[PLACE] % self.stride == 0:
                self.begin(e, row)
            if track[HELD] > 0 and self.rows_of(e) >= self.length:
                self.complete(e)
        if not self.across:
            for e in range(self.n_envs):
                if self.state[e * STATE + LAST] == NONE:
                    self.end(e)

    cdef Py_ssize_t rows_of(self, Py_ssize_t e) noexcept nogil:
        """How many rows the oldest open sequence of environment ``e`` has."""
        return self.tracks[e * TRACK + PLACE] - self.open[e * self.most * 2 + 1] + 1

    cdef void begin(self, Py_ssize_t e, int64_t row) noexcept nogil:
        """A sequence of environment ``e`` begins with ``row``."""
        cdef int64_t* track = self.tracks + e * TRACK
        cdef int64_t* new = self.open + (e * self.most + track[HELD]) * 2
        new[0], new[1] = row, track[PLACE]
        track[HELD] += 1

    cdef void end(self, Py_ssize_t e) noexcept nogil:
        """The episode of environment ``e`` has ended: so have its open sequences."""
        while self.tracks[e * TRACK + HELD] > 0:
            self.complete(e)
        self.tracks[e * TRACK + NEWEST] = NONE

    cdef void complete(self, Py_ssize_t e) noexcept nogil:
        """Close the oldest open sequence; store it if it has rows to train and all are stored."""
        cdef int64_t* track = self.tracks + e * TRACK
        cdef int64_t* open = self.open + e * self.most * 2
        cdef int64_t first = open[0], rows = self.rows_of(e), begin
        cdef int64_t* entry = self.entries + self.ids[1] % self.capacity * ENTRY
        track[HELD] -= 1
        memmove(open, open + 2, track[HELD] * 2 * sizeof(int64_t))
        if first < self.oldest:
            return
        # Where an episode begins the recurrent state is known.
        begin = 0 if self.places[2 * (first % self.capacity) + 1] == 0 else self.burn_in
        if rows <= begin:
            return
        entry[FIRST], entry[ROWS], entry[BEGIN], entry[BEFORE] = first, rows, begin, track[NEWEST]
        track[NEWEST] = self.ids[1]
        self.ids[1] += 1


def slots_of(after, first, rows, Py_ssize_t length):
    """The slots of sequences, ``length`` each: beyond its ``rows``, that of the last is repeated.

    All sequences advance together, so that the memory can serve many of them at once.
    """
    cdef Py_ssize_t i, t, size = len(first), capacity = len(after)
    cdef const int64_t* following = i64(after, capacity)
    cdef const int64_t* begin = i64(first, size)
    cdef const int64_t* count = i64(rows, size)
    cdef int64_t slot, row, found
    slots, at = new_array(cnp.NPY_INT64, size * length), first.copy()
    cdef int64_t* out = i64(slots, size * length)
    cdef int64_t* current = i64(at, size)
    with nogil:
        for i in range(size):
            out[i * length] = begin[i] % capacity
        for t in range(1, length):
            for i in range(size):
                slot, row = out[i * length + t - 1], current[i]
                if t < count[i]:
                    found = following[slot]
                    if row < found < row + capacity:
                        slot += found - row
                        slot -= capacity if slot >= capacity else 0
                        current[i] = found
                out[i * length + t] = slot
    return slots


def settle(expires, int64_t oldest, int64_t first, int64_t end):
    """Make ``expires`` grow with the entries ``oldest`` up to ``end``; those from ``first`` are new.

    Entries leave a sampler in the order in which they came. So one leaves as soon as it, or any
    that came later, has lost its first row.
    """
    cdef int64_t k, least, capacity = len(expires)
    cdef int64_t* at = i64(expires, capacity)
    if end <= oldest:
        return
    least = at[(end - 1) % capacity]
    for k in range(end - 2, oldest - 1, -1):
        if at[k % capacity] <= least:
            if k < first:
                break
            least = at[k % capacity]
        at[k % capacity] = least


def count_expired(expires, int64_t oldest, int64_t end, int64_t row):
    """How many entries from ``oldest`` on, up to ``end``, have lost a row older than ``row``."""
    cdef int64_t k = oldest, capacity = len(expires)
    cdef const int64_t* at = i64(expires, capacity)
    while k < end and at[k % capacity] < row:
        k += 1
    return k - oldest
