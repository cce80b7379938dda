"""Image frames, each stored once: stacks are taken apart, and rebuilt from their newest frame.

By place in a ring, ``back`` has the distance of each frame to its predecessor, 0 for the first of a
chain. ``numbers`` is the number of the next frame, then the newest of each environment. Stacks are
arrays (environments, frames, bytes of a frame).
"""

from libc.string cimport memcmp, memcpy
from numpy cimport int32_t, int64_t, uint8_t

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport (
    LINE, i64, new_array, pointer, prefetch, truth, u8,
)

cnp.import_array()

cdef enum:
    MOST_PREFETCHED = 256 * LINE  # bytes


cdef class Frames:
    """A ring of frames, bound to the arrays of a ``FrameStore``."""

    cdef uint8_t* frames
    cdef int32_t* back
    cdef int64_t* numbers
    cdef Py_ssize_t count, nbytes, n_envs
    cdef object _kept

    def __init__(self, frames, back, numbers):
        self._kept = frames, back, numbers
        self.count, self.nbytes = frames.shape
        self.n_envs = len(numbers) - 1
        self.frames = u8(frames, self.count * self.nbytes)
        self.back = <int32_t*>pointer(back, cnp.NPY_INT32, self.count)
        self.numbers = i64(numbers, self.n_envs + 1)

    cdef bint equal(self, const uint8_t* left, const uint8_t* right) noexcept nogil:
        return memcmp(left, right, self.nbytes) == 0

    def first_not_shifted(self, obs, next_obs, skipped):
        """The first environment whose next stack is not its stack shifted by one frame, or -1."""
        cdef Py_ssize_t e, length = obs.shape[1], size = length * self.nbytes
        cdef const uint8_t* stacks = u8(obs, self.n_envs * size)
        cdef const uint8_t* following = u8(next_obs, self.n_envs * size)
        cdef const uint8_t* skip = truth(skipped, self.n_envs)
        for e in range(self.n_envs):
            if not skip[e] and memcmp(
                stacks + e * size + self.nbytes, following + e * size, size - self.nbytes
            ):
                return e
        return -1

    cdef Py_ssize_t place_of(self, int64_t number) noexcept nogil:
        """A file may hold distances that lead below 0: these are places, too."""
        cdef Py_ssize_t place = number % self.count
        return place if place >= 0 else place + self.count

    cdef bint continues(
        self, int64_t number, const uint8_t* stack, Py_ssize_t length
    ) noexcept nogil:
        """Whether ``stack`` is the one whose newest frame is ``number``."""
        cdef Py_ssize_t k, place
        for k in range(length - 1, -1, -1):
            place = self.place_of(number)
            if not self.equal(self.frames + place * self.nbytes, stack + k * self.nbytes):
                return False
            number -= self.back[place]
        return True

    cdef int64_t write(self, const uint8_t* frame, int64_t distance) noexcept nogil:
        """Store one frame, ``distance`` after its predecessor; returns its number."""
        cdef int64_t number = self.numbers[0]
        memcpy(self.frames + number % self.count * self.nbytes, frame, self.nbytes)
        self.back[number % self.count] = <int32_t>distance
        self.numbers[0] += 1
        return number

    def store(self, obs, next_obs, skipped, obs_frame, next_frame):
        """Store the new frames of one step; writes the numbers of the newest of each stack.

        Where a step is skipped nothing is stored: the number is -1, or of ``obs`` that of the stack
        before if that is the same. A chain leaves out the repeated frames that a stack starts with: rebuilding repeats its
        first frame.
        """
        cdef Py_ssize_t e, k, first, length = obs.shape[1], size = length * self.nbytes
        cdef const uint8_t* stack = u8(obs, self.n_envs * size)
        cdef const uint8_t* following = u8(next_obs, self.n_envs * size)
        cdef const uint8_t* skip = truth(skipped, self.n_envs)
        cdef int64_t* newest_of_obs = i64(obs_frame, self.n_envs)
        cdef int64_t* newest_of_next = i64(next_frame, self.n_envs)
        cdef int64_t newest
        with nogil:
            for e in range(self.n_envs):
                newest = self.numbers[1 + e]
                if skip[e]:
                    newest_of_next[e] = -1
                    if newest < 0 or not self.continues(newest, stack, length):
                        newest = -1
                    newest_of_obs[e] = newest
                else:
                    if newest < 0 or not self.continues(newest, stack, length):
                        first = 0
                        while first + 1 < length and self.equal(
                            stack + first * self.nbytes, stack + (first + 1) * self.nbytes
                        ):
                            first += 1
                        for k in range(first, length):
                            newest = self.write(stack + k * self.nbytes, 0 if k == first else 1)
                    newest_of_obs[e] = newest
                    newest_of_next[e] = self.write(
                        following + (length - 1) * self.nbytes, self.numbers[0] - newest
                    )
                    self.numbers[1 + e] = newest_of_next[e]
                stack += size
                following += size

    def follow_each_other(self, obs_frame, next_frame):
        """Whether the newest frame of each next stack comes right after that of its stack."""
        cdef Py_ssize_t i, n = len(obs_frame)
        cdef const int64_t* before = i64(obs_frame, n)
        cdef const int64_t* after = i64(next_frame, n)
        for i in range(n):
            if after[i] - self.back[after[i] % self.count] != before[i]:
                return False
        return True

    def take(self, newest, out):
        """Rebuild stacks from their newest frames; writes ``out`` (stacks, frames, bytes).

        Frames lie in memory from old to new, and are copied in that order, each while the next one
        is on its way: a copy from new to old takes 1.5 times as long.
        """
        cdef Py_ssize_t i, k, n = len(newest), length = out.shape[1], count = n * length
        cdef const int64_t* number = i64(newest, n)
        cdef uint8_t* copies = u8(out, count * self.nbytes)
        places = new_array(cnp.NPY_INT64, count)
        cdef int64_t* place = i64(places, count)
        cdef int64_t at
        with nogil:
            for i in range(n):
                at = number[i]
                for k in range((i + 1) * length - 1, i * length - 1, -1):
                    place[k] = self.place_of(at)
                    at -= self.back[place[k]]
            for k in range(count):
                if k + 1 < count:
                    self.bring(place[k + 1])
                memcpy(
                    copies + k * self.nbytes, self.frames + place[k] * self.nbytes, self.nbytes
                )

    cdef void bring(self, Py_ssize_t place) noexcept nogil:
        """Begin to load the frame at ``place`` into the cache."""
        cdef Py_ssize_t at = 0
        while at < self.nbytes and at < MOST_PREFETCHED:
            prefetch(self.frames + place * self.nbytes + at)
            at += LINE
