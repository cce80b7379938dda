"""Slots kept in order of their priority, in sorted blocks: insert, remove and find the k-th.

``blocks[order[k], :length[order[k]]]`` for k = 0, 1, ... are the slots in order. A block is a short
run of slots; finding a place is a binary search among blocks and within one, and an insertion moves
at most one block's numbers. The largest priority is first; of equal ones, the lower slot.
"""

from libc.string cimport memcpy, memmove
from numpy cimport int32_t, int64_t

import numpy as np

from needreplay._core.errors import NeedReplayError

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport f64, i64, new_array, pointer
from needreplay.replay._kernels.equations cimport rank_priority
from needreplay.replay._kernels.kernel cimport Kernel

cnp.import_array()

cdef enum:
    BLOCK = 512
    LOOK = 16                    # slots of a block that are compared together
    MANY = 16                    # more than one slot in so many blocks
    ABSENT = -1                  # the priority of a slot that is not in the order
    IN_USE = 0, SPARE, PRESENT   # of ``sizes``: blocks in use, spare blocks, slots


def empty_order(Py_ssize_t capacity):
    """The arrays of an order without any slot in it.

    Two neighboring blocks always hold more than half a block together, which bounds their number.
    """
    n_blocks = 4 * (capacity // BLOCK + 1) + 2
    return {
        "priorities": np.full(capacity, float(ABSENT)),
        "blocks": np.zeros((n_blocks, BLOCK), dtype=np.int32),
        "block_of": np.zeros(capacity, dtype=np.int32),
        "length": np.zeros(n_blocks, dtype=np.int64),
        "order": np.zeros(n_blocks, dtype=np.int64),
        "spare": np.arange(n_blocks, dtype=np.int64),
        "sizes": np.array([0, n_blocks, 0], dtype=np.int64),
    }


def cumulative_priorities(Py_ssize_t capacity, double alpha):
    """Σ_{k <= r} k^-alpha for r = 1, 2, ..., capacity."""
    sums = new_array(cnp.NPY_FLOAT64, capacity)
    cdef double* out = f64(sums, capacity)
    cdef double total = 0.0
    cdef Py_ssize_t rank
    with nogil:
        for rank in range(1, capacity + 1):
            total += rank_priority(rank, alpha)
            out[rank - 1] = total
    return sums


cdef int32_t* find(int32_t* block, int64_t slot) noexcept nogil:
    """Where ``slot``, which is there, is in a block."""
    cdef Py_ssize_t k
    cdef int32_t wanted = <int32_t>slot
    cdef bint found = False
    while True:
        for k in range(LOOK):  # without a branch for each, so that several are compared at once
            found |= block[k] == wanted
        if found:
            break
        block += LOOK
    while block[0] != wanted:
        block += 1
    return block


cdef class Order(Kernel):
    """Slots in the order of their priorities."""

    cdef double* priorities
    cdef int32_t* blocks
    cdef int32_t* held_by
    cdef int64_t* length
    cdef int64_t* order
    cdef int64_t* spare
    cdef int64_t* sizes

    def __init__(self, dict arrays, Py_ssize_t capacity, bint follows_window):
        Kernel.__init__(self, arrays, capacity, follows_window)
        n_blocks = len(arrays["length"])
        self.priorities = f64(arrays["priorities"], capacity)
        self.blocks = <int32_t*>pointer(arrays["blocks"], cnp.NPY_INT32, n_blocks * BLOCK)
        self.held_by = <int32_t*>pointer(arrays["block_of"], cnp.NPY_INT32, capacity)
        self.length, self.order = i64(arrays["length"], n_blocks), i64(arrays["order"], n_blocks)
        self.spare, self.sizes = i64(arrays["spare"], n_blocks), i64(arrays["sizes"], 3)

    def __len__(self):
        return self.sizes[PRESENT]

    cdef bint is_before(self, int64_t slot, double priority, int64_t other) noexcept nogil:
        """Whether ``slot`` comes before a slot ``other`` of that priority."""
        cdef double held = self.priorities[slot]
        return held > priority or (held == priority and slot < other)

    cdef Py_ssize_t place_of_block(self, double priority, int64_t slot) noexcept nogil:
        """The place of the first block whose last slot does not come before ``slot``."""
        cdef Py_ssize_t low = 0, high = self.sizes[IN_USE], middle, block
        while low < high:
            middle = (low + high) // 2
            block = self.order[middle]
            last = self.blocks[block * BLOCK + self.length[block] - 1]
            if self.is_before(last, priority, slot):
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t place_in(self, Py_ssize_t block, double priority, int64_t slot) noexcept nogil:
        """The place within ``block`` of the first slot that does not come before ``slot``."""
        cdef Py_ssize_t low = 0, high = self.length[block], middle
        while low < high:
            middle = (low + high) // 2
            if self.is_before(self.blocks[block * BLOCK + middle], priority, slot):
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t open_block(self, Py_ssize_t place) noexcept nogil:
        """Put a spare block at ``place`` of the order and return it."""
        self.sizes[SPARE] -= 1
        cdef Py_ssize_t block = self.spare[self.sizes[SPARE]]
        memmove(
            self.order + place + 1,
            self.order + place,
            (self.sizes[IN_USE] - place) * sizeof(int64_t),
        )
        self.order[place] = block
        self.length[block] = 0
        self.sizes[IN_USE] += 1
        return block

    cdef void close_block(self, Py_ssize_t place) noexcept nogil:
        """Take the block at ``place`` out of the order."""
        self.spare[self.sizes[SPARE]] = self.order[place]
        self.sizes[SPARE] += 1
        self.sizes[IN_USE] -= 1
        memmove(
            self.order + place,
            self.order + place + 1,
            (self.sizes[IN_USE] - place) * sizeof(int64_t),
        )

    cdef void move(
        self, Py_ssize_t to, Py_ssize_t block, Py_ssize_t begin, Py_ssize_t count
    ) noexcept nogil:
        """Append ``count`` slots of ``block``, from ``begin`` on, to the block ``to``."""
        cdef Py_ssize_t i
        moved = self.blocks + to * BLOCK + self.length[to]
        memcpy(moved, self.blocks + block * BLOCK + begin, count * sizeof(int32_t))
        for i in range(count):
            self.held_by[moved[i]] = <int32_t>to
        self.length[to] += count

    cdef void join(self, Py_ssize_t place) noexcept nogil:
        """If the blocks at ``place`` and after it fill half a block at most, make them one."""
        if place < 0 or place + 1 >= self.sizes[IN_USE]:
            return
        cdef Py_ssize_t left = self.order[place], right = self.order[place + 1]
        if self.length[left] + self.length[right] > BLOCK // 2:
            return
        self.move(left, right, 0, self.length[right])
        self.close_block(place + 1)

    cdef Py_ssize_t insert(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) noexcept nogil:
        """Put the first of the absent ``slots`` where its priority belongs; returns how many.

        Those that follow it go with it, as many as belong right after it and fit into its block.
        """
        cdef Py_ssize_t half = BLOCK // 2, block, right, within, i, run = 1
        cdef Py_ssize_t place = self.place_of_block(priorities[0], slots[0])
        if self.sizes[IN_USE] == 0:
            self.open_block(0)
        elif place == self.sizes[IN_USE]:
            place -= 1
        block = self.order[place]
        if self.length[block] == BLOCK:
            right = self.open_block(place + 1)
            self.move(right, block, half, half)
            self.length[block] = half
            if self.is_before(self.blocks[block * BLOCK + half - 1], priorities[0], slots[0]):
                block = right
        within = self.place_in(block, priorities[0], slots[0])
        entry = self.blocks + block * BLOCK + within
        while (
            run < count
            and self.length[block] + run < BLOCK
            and priorities[run] == priorities[0]
            and slots[run] > slots[run - 1]
            and (
                within == self.length[block]
                or not self.is_before(entry[0], priorities[run], slots[run])
            )
        ):
            run += 1
        memmove(entry + run, entry, (self.length[block] - within) * sizeof(int32_t))
        for i in range(run):
            entry[i] = <int32_t>slots[i]
            self.held_by[slots[i]] = <int32_t>block
            self.priorities[slots[i]] = priorities[i]
        self.length[block] += run
        self.sizes[PRESENT] += run
        return run

    cdef void remove(self, const int64_t* slots, Py_ssize_t count) noexcept nogil:
        """Take all of ``slots`` that are in the order out of it."""
        cdef Py_ssize_t i = 0, at_once = count if MANY * count > self.sizes[IN_USE] else 1
        while i < count:
            self.remove_some(slots + i, at_once)
            i += at_once

    cdef void remove_some(self, const int64_t* slots, Py_ssize_t count) noexcept nogil:
        """``remove``; afterwards the block of one slot is tidied up, and of several every block."""
        cdef Py_ssize_t i, block, length, place = -1
        cdef int64_t last
        cdef int32_t* entry
        for i in range(count):
            if self.priorities[slots[i]] == ABSENT:
                continue
            block = self.held_by[slots[i]]
            length = self.length[block]
            if count == 1 and length <= BLOCK // 2 + 1:  # it may be joined to a neighbor
                last = self.blocks[block * BLOCK + length - 1]
                place = self.place_of_block(self.priorities[last], last)
            entry = find(self.blocks + block * BLOCK, slots[i])
            length -= 1
            memmove(
                entry,
                entry + 1,
                (self.blocks + block * BLOCK + length - entry) * sizeof(int32_t),
            )
            self.length[block] = length
            self.priorities[slots[i]] = ABSENT
            self.sizes[PRESENT] -= 1
        if count > 1:
            self.tidy_up(0, self.sizes[IN_USE])
        elif place >= 0:
            self.tidy_up(max(0, place - 1), place + 1)

    cdef void tidy_up(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """Close empty blocks at the places from ``begin`` up to ``end``, and join others."""
        cdef Py_ssize_t place
        for place in range(end - 1, begin - 1, -1):
            if self.length[self.order[place]] == 0:
                self.close_block(place)
            else:
                self.join(place)

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        """All leave the order first; new transitions, whose priorities are equal, enter together."""
        cdef Py_ssize_t i = 0
        Kernel.assign(self, slots, priorities, count)
        self.remove(slots, count)
        while i < count:
            i += self.insert(slots + i, priorities + i, count - i)
        return 0

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        Kernel.leave(self, slots, count)
        self.remove(slots, count)
        return 0

    cdef object ends(self):
        """The place in the order after the last slot of each block, in order."""
        return np.cumsum(self.arrays["length"][self.arrays["order"][: self.sizes[IN_USE]]])

    def slots_at(self, places):
        """The slots at ``places`` (from 0) of the order."""
        arrays, ends = self.arrays, self.ends()
        which = np.searchsorted(ends, places, side="right")
        blocks = arrays["order"][which]
        within = places - (ends[which] - arrays["length"][blocks])
        return arrays["blocks"][blocks, within].astype(np.int64)

    def places_of(self, slots):
        """The places (from 0) of ``slots``, all present, in the order."""
        cdef Py_ssize_t i, k, block, count = len(slots)
        cdef double priority
        ends, places = self.ends(), new_array(cnp.NPY_INT64, count)
        cdef const int64_t* end = i64(ends, len(ends))
        cdef const int64_t* slot = i64(slots, count)
        cdef int64_t* place = i64(places, count)
        for i in range(count):
            priority = self.priorities[slot[i]]
            k = self.place_of_block(priority, slot[i])
            block = self.order[k]
            place[i] = end[k] - self.length[block] + self.place_in(block, priority, slot[i])
        return places

    def check_valid(self):
        """Raise unless every present slot is in the order once, at its place.

        No number is used as an index before it is known to be one: it may come from a file.
        """
        arrays = self.arrays
        priorities, length = arrays["priorities"], arrays["length"]
        in_use, spare, present = arrays["sizes"].tolist()
        if in_use < 0 or spare < 0 or in_use + spare != len(length):
            raise NeedReplayError("A block is lost, or both in use and spare.")
        blocks = np.concatenate([arrays["order"][:in_use], arrays["spare"][:spare]])
        if not np.array_equal(np.sort(blocks), np.arange(len(length))):
            raise NeedReplayError("A block is lost, or both in use and spare.")
        lengths = length[blocks[:in_use]]
        if np.any((lengths < 1) | (lengths > BLOCK)):
            raise NeedReplayError("A block holds no slot, or more than there is space for.")
        if np.any(lengths[1:] + lengths[:-1] <= BLOCK // 2):
            raise NeedReplayError("Two neighboring blocks should have been joined.")
        listed = arrays["blocks"][blocks[:in_use]][np.arange(BLOCK) < lengths[:, None]]
        slots = np.flatnonzero(priorities != ABSENT)
        by_priority = slots[np.lexsort((slots, -priorities[slots]))]
        if present != len(listed) or not np.array_equal(listed, by_priority):
            raise NeedReplayError("The slots are not in the order of their priorities.")
        if not np.array_equal(arrays["block_of"][listed], np.repeat(blocks[:in_use], lengths)):
            raise NeedReplayError("A slot is not in the block that it should be in.")
