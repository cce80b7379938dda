"""n-step windows of several environments, written to the rows of the ring when they close.

By environment, ``state`` has its oldest open step, how many are open, its last id, whether it has
ended, and the episode and the step in it of its last transition; ``flags`` whether it terminated,
was truncated, and is to be skipped. ``pending`` and ``rewards`` hold up to n steps whose window is
open; the last of ``rewards`` is that of the current step.
"""

from libc.string cimport memcpy

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport f64, i64, truth, u8
from needreplay.replay._kernels.equations cimport discounted

cnp.import_array()

cdef class Windows:
    """Open windows, bound to the arrays of an ``EpisodeWriter``.

    Args:
        step: the columns of one step of each environment, views of ``arrays``.
        info: what belongs to a step and is for the sampler: a row for each pending step, and then
            one for each window that was written since the sampler was told.
        arrays: the writer's.
        layout: where the columns of a window's last step begin and end in a row, and where its
            reward and its discount are, in bytes.
        stride: bytes of a row.
        discount: γ.
        skips_resets: whether the step after the end of an episode is a reset step.
    """

    def __init__(
        self, Table step, Table info, dict arrays, layout, Py_ssize_t stride, double discount,
        bint skips_resets,
    ):
        self.step, self.info, self.arrays = step, info, arrays
        self.next_from, self.next_to, self.reward_at, self.discount_at = layout
        self.discount, self.skips_resets, self.stride = discount, skips_resets, stride
        self.n_envs, self.n_step = arrays["rewards"].shape[0], arrays["rewards"].shape[1] - 1
        # A power of two below what a float32 holds of n rewards.
        self.reward_limit = 2.0 ** (127 - (<object>(self.n_step - 1)).bit_length())
        self.capacity = len(arrays["following"])
        n_envs, pairs = self.n_envs, self.n_envs * self.n_step
        self.current = <char*>u8(arrays["step"], n_envs * stride)
        self.pending = <char*>u8(arrays["pending"], pairs * stride)
        self.rewards = f64(arrays["rewards"], n_envs * (self.n_step + 1))
        self.flags = truth(arrays["flags"], n_envs * FLAGS)
        self.state = i64(arrays["episodes"], n_envs * STATE)
        self.most = len(arrays["slots"])
        self.slots = i64(arrays["slots"], self.most)
        self.previous = i64(arrays["previous"], self.most)
        self.sources = i64(arrays["sources"], self.most)
        self.following = i64(arrays["following"], self.capacity)
        self.places = i64(arrays["places"], 2 * self.capacity)

    cpdef Py_ssize_t block(self, Py_ssize_t envs):
        """How many steps of ``envs`` environments may come before the sampler follows.

        Then the rows of all windows that they close are still there.
        """
        cdef Py_ssize_t held = self.n_envs * self.n_step
        return max(1, min(self.most - held, self.capacity - held) // envs)

    cdef Py_ssize_t add(
        self, char* rows, int64_t first_id, Py_ssize_t stored, Py_ssize_t taken,
        Py_ssize_t begin, Py_ssize_t end,
    ) noexcept nogil:
        """One step of environments ``begin`` up to ``end``, from row ``taken`` on of what was taken.

        ``stored`` windows were closed by steps before, ``first_id`` is the id of the first of these;
        returns how many are closed now.
        """
        cdef Py_ssize_t e, place
        cdef int64_t* state
        for e in range(begin, end):
            state = self.state + e * STATE
            self.step.write(taken + e - begin, e)
            self.flags[e * FLAGS + SKIPPED] = self.skips_resets and state[ENDED]
            if self.flags[e * FLAGS + SKIPPED]:
                continue
            place = (state[HEAD] + state[HELD]) % self.n_step
            memcpy(
                self.pending + (e * self.n_step + place) * self.stride,
                self.current + e * self.stride,
                self.next_from,
            )
            self.rewards[e * (self.n_step + 1) + place] = (
                self.rewards[e * (self.n_step + 1) + self.n_step]
            )
            if self.info is not None:
                self.info.write(taken + e - begin, e * self.n_step + place)
            state[HELD] += 1
        return self.close(rows, first_id, stored, begin, end, False)

    cdef Py_ssize_t close(
        self, char* rows, int64_t first_id, Py_ssize_t stored, Py_ssize_t begin, Py_ssize_t end,
        bint cuts,
    ) noexcept nogil:
        """Write the windows that are complete, or whose episode ended; see ``add``.

        For each, ``slots`` gets its slot, ``previous`` the id before it in its episode, ``sources``
        its row of ``pending``. By slot, ``following`` has the id after it in its episode, and
        ``places`` the number of its episode, in the order in which episodes begin, and its step in
        it. With ``cuts`` there is no new step: episodes that are not skipped end with the last one.
        """
        cdef Py_ssize_t e
        cdef int64_t slot, new, before
        cdef int64_t* state
        cdef uint8_t* flags
        cdef bint ended
        for e in range(begin, end):
            state, flags = self.state + e * STATE, self.flags + e * FLAGS
            ended = flags[TERMINATED] or flags[TRUNCATED]
            if flags[SKIPPED]:
                if not cuts:
                    state[ENDED] = 0
                continue
            while state[HELD] == self.n_step or (ended and state[HELD] > 0):
                new, before = first_id + stored, state[LAST]
                slot = new % self.capacity
                self.write_window(e, state[HEAD], state[HELD], rows + slot * self.stride)
                self.following[slot] = -1
                if before >= 0 and new - before < self.capacity:
                    self.following[before % self.capacity] = new
                if before < 0:
                    state[EPISODE] = self.newest_episode() + 1
                    state[TIME] = -1
                state[TIME] += 1
                self.places[2 * slot], self.places[2 * slot + 1] = state[EPISODE], state[TIME]
                self.slots[stored], self.previous[stored] = slot, before
                self.sources[stored] = e * self.n_step + state[HEAD]
                if self.info is not None:
                    self.info.copy(self.sources[stored], self.n_envs * self.n_step + stored)
                state[LAST] = new
                state[HEAD] = (state[HEAD] + 1) % self.n_step
                state[HELD] -= 1
                stored += 1
            state[ENDED] = ended and not cuts
            if ended:
                state[LAST] = -1
        return stored

    cdef void write_window(
        self, Py_ssize_t e, Py_ssize_t head, Py_ssize_t held, char* row
    ) noexcept nogil:
        """Write the window of environment ``e`` from its step ``head`` on to ``row``.

        Its reward is Σ_{k < held} γ^k r_{head + k}, its discount γ^held, or 0 if it terminated.
        """
        cdef const double* rewards = self.rewards + e * (self.n_step + 1)
        cdef double total = 0.0, power = 1.0
        cdef float reward, discount
        cdef Py_ssize_t k
        for k in range(head + held - 1, head - 1, -1):
            total = discounted(rewards[k % self.n_step], self.discount, total)
            power *= self.discount
        reward = <float>total
        discount = 0.0 if self.flags[e * FLAGS + TERMINATED] else <float>power
        memcpy(row, self.pending + (e * self.n_step + head) * self.stride, self.next_from)
        memcpy(
            row + self.next_from,
            self.current + e * self.stride + self.next_from,
            self.next_to - self.next_from,
        )
        memcpy(row + self.reward_at, &reward, sizeof(float))
        memcpy(row + self.discount_at, &discount, sizeof(float))

    cdef int64_t newest_episode(self) noexcept nogil:
        """The number of the episode that began last."""
        cdef int64_t newest = -1
        cdef Py_ssize_t e
        for e in range(self.n_envs):
            newest = max(newest, self.state[e * STATE + EPISODE])
        return newest


def follow(following, ids, steps):
    """The id ``steps[i]`` after ``ids[i]`` in its episode, or -1, for each i."""
    cdef Py_ssize_t i, capacity = len(following), count = len(ids)
    later = ids.copy()
    cdef const int64_t* after = i64(following, capacity)
    cdef const int64_t* ahead = i64(steps, count)
    cdef int64_t* out = i64(later, count)
    cdef int64_t step, found
    with nogil:
        for i in range(count):
            for step in range(ahead[i]):
                found = after[out[i] % capacity]
                out[i] = found if found > out[i] else -1
                if out[i] == -1:
                    break
    return later
