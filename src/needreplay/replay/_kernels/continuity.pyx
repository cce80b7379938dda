"""Whether steps follow each other as the flags and the autoreset of their episodes say.

The ``obs`` of a step is the ``next_obs`` of the step before, number by number, unless the
environment was reset in between. So resets show that were not declared, and declared ones that did
not happen. Where hardly any ``obs`` is the one before, as if normalized anew, nothing shows.
"""

from libc.string cimport memcmp

cimport numpy as cnp

from needreplay.replay._kernels.columns cimport Column
from needreplay.replay._kernels.steps cimport ENDED, FLAGS, STATE, TRUNCATED

import numpy as np

cnp.import_array()

cdef enum:
    ENOUGH = 8         # ends of episodes, or jumps within them
    SHARE = 3          # so many steps that follow for each that does not
    MOST_ADDS = 20000
    MOST_ENVS = 8

cdef uint64_t OFFSET = 14695981039346656037ULL, PRIME = 1099511628211ULL  # of FNV-1a


cdef class Continuity:
    """Compares each of the first ``MOST_ADDS`` steps of some environments with the one before.

    Args:
        windows: the steps.
        pairs: the names of the columns of ``obs``, each with that of its ``next_obs``.
        of_frames: whether these are numbers of frames, -1 where none was stored.
    """

    def __init__(self, Windows windows, list pairs, bint of_frames):
        self.windows, self.step, self.n_pairs = windows, windows.step, len(pairs)
        self.of_frames = of_frames
        if self.n_pairs > MOST_PAIRS:
            self.n_pairs, self.is_done = 0, True
        self.n_envs = min(windows.n_envs, MOST_ENVS)
        names = [name for name, _, _ in self.step._arrays]
        for k in range(self.n_pairs):
            self.obs[k], self.next_obs[k] = map(names.index, pairs[k])
        known, first = np.zeros((2, MOST_ENVS), np.uint8), np.zeros(MOST_ENVS, np.uint64)
        self._kept = known, first
        self.has_step = <uint8_t*>cnp.PyArray_DATA(known)
        self.has_first = self.has_step + MOST_ENVS
        self.first = <uint64_t*>cnp.PyArray_DATA(first)

    def forget(self, env=None):
        """The next step of ``env``, or of all, need not follow the one before."""
        for e in range(self.n_envs):
            self.has_step[e] = self.has_step[e] and env is not None and e != env

    cdef int look(self, Py_ssize_t begin, Py_ssize_t end) noexcept:
        """Compare what was taken, and is not written yet; returns what is noticed.

        Its first row is the step of environment ``begin``, and so on up to ``end``.

        That a step continues an episode that had ended counts only where no reset could have led
        there, and that it does not, in any case.
        """
        cdef Py_ssize_t e
        cdef int follows, found = FINE
        for e in range(begin, min(end, self.n_envs)):
            follows = self.follows(e, e - begin) if self.has_step[e] else -1
            if follows >= 0 and not self.windows.state[e * STATE + ENDED]:
                self.follow += follows
                self.jump += not follows
                if not follows and self.noticed_jumps():
                    self.env, found = e, JUMPS
            elif follows >= 0:
                self.continued += follows and (self.windows.skips_resets or self.tells(e, e - begin))
                self.was_reset += not follows
                if self.noticed_resets():
                    self.env, found = e, WRONG_RESETS
            if not self.has_first[e]:
                self.has_first[e], self.first[e] = True, self.digest(e - begin)
            self.has_step[e] = True
        self.adds += 1
        self.is_done = self.adds >= MOST_ADDS
        return found

    cdef bint noticed_jumps(self) noexcept:
        """Whether episodes are often interrupted, of steps that mostly follow each other."""
        cdef bint found = self.jump >= ENOUGH and self.follow >= SHARE * self.jump
        found, self.said_jumps = found and not self.said_jumps, found or self.said_jumps
        return found

    cdef bint noticed_resets(self) noexcept:
        """Whether every end of an episode was another than ``autoreset`` says."""
        cdef int64_t wrong = self.continued, right = self.was_reset
        cdef bint found
        if self.windows.skips_resets:
            wrong, right = right, wrong
            if self.follow < SHARE * self.jump or self.follow == 0:
                return False
        found = wrong >= ENOUGH and right == 0
        found, self.said_resets = found and not self.said_resets, found or self.said_resets
        return found

    cdef int follows(self, Py_ssize_t e, Py_ssize_t row) noexcept:
        """Whether ``obs`` in ``row`` is the last ``next_obs``; -1 where that was not stored."""
        cdef Py_ssize_t k, i
        cdef Column* obs
        cdef Column* before
        cdef const char* given
        cdef const char* last
        for k in range(self.n_pairs):
            obs, before = &self.step.columns[self.obs[k]], &self.step.columns[self.next_obs[k]]
            last = before.data + e * before.step
            if self.of_frames and (<const int64_t*>last)[0] == -1:
                return -1
            if obs.widens:
                given = obs.given + row * (obs.nbytes // 2)
                for i in range(obs.nbytes // 8):
                    if <double>(<const float*>given)[i] != (<const double*>last)[i]:
                        return False
            elif memcmp(obs.given + row * obs.nbytes, last, obs.nbytes) != 0:
                return False
        return True

    cdef bint tells(self, Py_ssize_t e, Py_ssize_t row) noexcept:
        """Whether no reset could have led to the last ``next_obs``, which is ``obs`` now.

        An episode that terminates where it began may begin there again. A time limit may end an
        episode there, too, but not after a move each time.
        """
        cdef Py_ssize_t k
        cdef Column* obs
        cdef Column* after
        if not self.windows.flags[e * FLAGS + TRUNCATED]:
            return self.digest(row) != self.first[e]
        for k in range(self.n_pairs):
            obs, after = &self.step.columns[self.obs[k]], &self.step.columns[self.next_obs[k]]
            if memcmp(obs.data + e * obs.step, after.data + e * after.step, obs.nbytes) != 0:
                return True
        return False

    cdef uint64_t digest(self, Py_ssize_t row) noexcept:
        """Of the ``obs`` that was taken in ``row``."""
        cdef uint64_t digest = OFFSET
        cdef Py_ssize_t k, i, nbytes
        cdef Column* obs
        for k in range(self.n_pairs):
            obs = &self.step.columns[self.obs[k]]
            nbytes = obs.nbytes // 2 if obs.widens else obs.nbytes
            for i in range(row * nbytes, (row + 1) * nbytes):
                digest = (digest ^ <uint8_t>obs.given[i]) * PRIME
        return digest
