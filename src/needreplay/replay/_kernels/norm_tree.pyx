"""The norm tree: propose slots by a bound on their need, for features of any sign.

No slot's need exceeds |q| |v_j| (Cauchy and Schwarz). A plain sum tree of priority_j^alpha |v_j|^b
proposes slots, and a slot is accepted with cos^b of the angle between q and v_j. A candidate costs
one inner product, and a change costs a sum tree's update.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport ceil, sqrt
from libc.stdlib cimport free, malloc
from numpy cimport int64_t
from numpy.random cimport bitgen_t

import numpy as np

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport as_i64, f64, i64, new_array, prefetch
from needreplay.replay._kernels.equations cimport combine, power
from needreplay.replay._kernels.features cimport Features
from needreplay.replay._kernels.proportional cimport Proportional
from needreplay.replay._kernels.sumtree cimport SumTree

cnp.import_array()

cdef enum:
    AT_A_TIME = 32  # candidates found together, so that their memory accesses overlap
    NONE = -1       # the slot of a row that has none yet

# How much a bound is raised, so that rounding cannot put a score above it: |v| and q · v are sums of
# d products in float64, each wrong by at most d · 1e-16 of |q| |v|.
cdef double C_SLACK = 1.0 + 1e-9
SLACK = C_SLACK
# How many standard deviations more candidates a round tries than it is expected to need.
cdef double SPARE = 2.0


cdef class NormTree(Proportional):
    """Beside the tree of priority^alpha: |v_j|^b in ``norms``, their products in ``bounds``."""

    cdef double* norms
    cdef int64_t* end
    cdef public double need_alpha
    cdef int64_t* candidates    # how many were accepted and tried
    cdef double* recent_rate    # at which they are accepted: never 0, and as it is
    cdef SumTree bounds
    cdef Features features

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, double alpha,
        double need_alpha, SumTree gains, SumTree bounds, Features features,
    ):
        Proportional.__init__(self, arrays, capacity, follows_window, gains, alpha, False, False)
        self.norms, self.end = f64(arrays["norms"], capacity), i64(arrays["end"], 1)
        self.need_alpha = need_alpha
        self.candidates = i64(arrays["candidates"], 2)
        self.recent_rate = f64(arrays["recent_rate"], 2)
        self.bounds, self.features = bounds, features

    cdef int bound(self, const int64_t* slots, Py_ssize_t count) except -1:
        """The bounds of ``slots`` are priority_j^alpha |v_j|^b."""
        cdef Py_ssize_t i
        for i in range(count):
            self.bounds.numbers[slots[i]] = self.tree.numbers[slots[i]] * self.norms[slots[i]]
        return self.bounds.sum_above(slots, count)

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """Their need is 0 until their features are set."""
        cdef Py_ssize_t i
        cdef double nothing = power(0.0, self.need_alpha)
        for i in range(count):
            self.features.forget(slots[i])
            self.norms[slots[i]] = nothing
            self.end[0] = max(self.end[0], slots[i] + 1)
        return self.bound(slots, count)

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        Proportional.assign(self, slots, priorities, count)
        return self.bound(slots, count)

    cdef int leave(self, const int64_t* slots, Py_ssize_t count) except -1:
        Proportional.leave(self, slots, count)
        return self.enter(slots, NULL, count)

    cdef bint takes(self, const char* row) noexcept:
        return self.features.convert(<const double*>row)

    cdef int describe(
        self, const int64_t* slots, const char* rows, Py_ssize_t step, Py_ssize_t count
    ) except -1:
        cdef Py_ssize_t i
        for i in range(count):
            self.features.convert(<const double*>(rows + i * step))
            self.features.store(slots[i])
            self.norms[slots[i]] = power(self.features.norm(slots[i]), self.need_alpha)
            self.end[0] = max(self.end[0], slots[i] + 1)
        return self.bound(slots, count)

    def set_features(self, slots, rows):
        """Set the features of ``slots``, a row each, which are fine."""
        cdef Py_ssize_t i, count = len(slots)
        slots = as_i64(slots)
        cdef const int64_t* slot = i64(slots, count)
        self.features.set(slots, rows)
        for i in range(count):
            self.norms[slot[i]] = power(self.features.norm(slot[i]), self.need_alpha)
            self.end[0] = max(self.end[0], slot[i] + 1)
        self.bound(slot, count)

    def norms_of_vectors(self):
        """|v_j|^b of every slot."""
        return np.array(
            [power(self.features.norm(j), self.need_alpha) for j in range(self.capacity)]
        )

    def fill(self, query, slots, scores, bits, double share, Py_ssize_t most_rejected):
        """Fill ``slots`` with accepted candidates, and ``scores`` with their scores.

        In rounds, until a pass over the buffer costs less than what is rejected: returns how many
        slots are filled. A candidate is uniform with probability share / (share + bound), and is
        then always accepted, so that P(j) ∝ score_j + share / N. ``bits`` is the capsule of a bit
        generator; a round takes the numbers of ``rng.random((2, n))``.
        """
        cdef Py_ssize_t size = len(slots), filled = 0, rejected = 0, accepted, tried, wanted, n, i
        cdef const double* q = f64(query, self.features.n_features)
        cdef int64_t* slot = i64(slots, size)
        cdef double* score = f64(scores, size)
        cdef double rate, bound = self.bounds.sum() * C_SLACK
        cdef double* random
        source = <bitgen_t*>PyCapsule_GetPointer(bits, "BitGenerator")
        while filled < size and rejected <= most_rejected:
            wanted, rate = size - filled, self.recent_rate[0]
            if share > 0.0:
                rate = (rate * bound + share) / (bound + share)
            if wanted / rate > wanted + most_rejected:
                break
            n = min(<Py_ssize_t>ceil(self.enough(wanted, rate)), wanted + most_rejected)
            random = <double*>malloc(2 * n * sizeof(double))
            if random == NULL:
                raise MemoryError()
            for i in range(2 * n):
                random[i] = source.next_double(source.state)
            accepted = tried = 0
            with nogil:
                filled += self.try_round(
                    q, random, n, share, slot + filled, score + filled, wanted, &accepted, &tried
                )
            free(random)
            rejected += tried - accepted
            self.note(accepted, tried)
        return filled

    cdef double enough(self, Py_ssize_t wanted, double rate) noexcept nogil:
        """How many candidates nearly always suffice: a few standard deviations more than needed."""
        return (wanted + SPARE * sqrt(wanted)) / rate

    cdef void note(self, Py_ssize_t accepted, Py_ssize_t tried) noexcept nogil:
        """Count candidates, and follow the rate at which they are accepted."""
        self.candidates[0] += accepted
        self.candidates[1] += tried
        if tried > 0:
            self.recent_rate[0] += 0.1 * (<double>max(accepted, 1) / tried - self.recent_rate[0])
            self.recent_rate[1] += 0.1 * (<double>accepted / tried - self.recent_rate[1])

    cdef Py_ssize_t try_round(
        self, const double* query, const double* random, Py_ssize_t n, double share,
        int64_t* slots, double* scores, Py_ssize_t wanted, Py_ssize_t* accepted, Py_ssize_t* tried,
    ) noexcept nogil:
        """Try ``n`` candidates, or until ``wanted`` are accepted; returns how many were.

        The last two count those of the tree.
        """
        cdef double bound = self.bounds.sum() * C_SLACK, need, place
        cdef double shares[AT_A_TIME]
        cdef int64_t candidates[AT_A_TIME]
        cdef int64_t uniform[AT_A_TIME]
        cdef Py_ssize_t begin = 0, found, i, filled = 0
        while begin < n and filled < wanted:
            found = min(AT_A_TIME, n - begin)
            for i in range(found):
                uniform[i], shares[i] = NONE, random[begin + i]
                if share > 0.0:
                    place = random[begin + i] * (bound + share)
                    if place < share:
                        place /= share
                        self.pick_into(&place, &uniform[i], 1)
                    shares[i] = max(0.0, place - share) / bound
            self.propose(shares, found, candidates)
            for i in range(found):
                if uniform[i] != NONE:
                    candidates[i] = uniform[i]
                    need = power(max(0.0, self.features.need(uniform[i], query)), self.need_alpha)
                else:
                    tried[0] += 1
                    need = self.accepted(candidates[i], query, random[n + begin + i])
                    if need <= 0.0:
                        continue
                    accepted[0] += 1
                slots[filled] = candidates[i]
                scores[filled] = self.tree.numbers[candidates[i]] * need
                if share > 0.0:
                    scores[filled] += share / self.occupied()
                filled += 1
                if filled == wanted:
                    break
            begin += found
        return filled

    cdef Py_ssize_t propose(
        self, const double* shares, Py_ssize_t count, int64_t* candidates
    ) noexcept nogil:
        """A slot for each share of the bounds, whose norms and vectors are requested together."""
        cdef double targets[AT_A_TIME]
        cdef Py_ssize_t i
        for i in range(count):
            targets[i] = shares[i] * self.bounds.sum()
        self.bounds.find(targets, candidates, count)
        for i in range(count):
            prefetch(self.norms + candidates[i])
            self.features.request(candidates[i])
        return count

    cdef double accepted(self, int64_t slot, const double* query, double luck) noexcept nogil:
        """need^b if ``slot`` is accepted: with probability need^b / norm; otherwise 0."""
        cdef double need = self.features.need(slot, query)
        if need <= 0.0:
            return 0.0
        need = power(need, self.need_alpha)
        return need if luck * C_SLACK * self.norms[slot] < need else 0.0

    def try_rows(self, queries, shares, luck, Py_ssize_t most_rejected, rows, rejected, slots):
        """Candidates, one for each share, for ``rows`` in turn, each with a query of its own.

        A row gets the first of its candidates that is accepted: ``slots[row]``, which must be -1
        before. Proposals do not depend on the query, so those of all rows are found together. A row
        gives up after ``most_rejected``; ``rejected`` counts them. Writes the last three: the rows
        that still wait come first in ``rows``. Returns how many these are.
        """
        cdef Py_ssize_t d = self.features.n_features, n = len(shares), waiting = len(rows)
        cdef Py_ssize_t i, found, begin = 0, accepted = 0, tried = 0
        cdef const double* query = f64(queries, len(queries) * d)
        cdef const double* share = f64(shares, n)
        cdef const double* lucky = f64(luck, n)
        cdef int64_t* row = i64(rows, waiting)
        cdef int64_t* failed = i64(rejected, len(rejected))
        cdef int64_t* slot = i64(slots, len(slots))
        cdef int64_t candidates[AT_A_TIME]
        cdef int64_t one
        with nogil:
            while begin < n and waiting > 0:
                found = self.propose(share + begin, min(AT_A_TIME, n - begin), candidates)
                for i in range(found):
                    one = row[i % waiting]
                    if slot[one] == NONE:
                        tried += 1
                        if self.accepted(candidates[i], query + one * d, lucky[begin + i]) > 0.0:
                            slot[one] = candidates[i]
                            accepted += 1
                        else:
                            failed[one] += 1
                begin += found
                for i in range(min(found, waiting) - 1, -1, -1):
                    if slot[row[i]] != NONE or failed[row[i]] > most_rejected:
                        waiting -= 1
                        row[i] = row[waiting]
        self.note(accepted, tried)
        return waiting

    def score_all(self, query, slots, cumulative):
        """The slots with need, and cumulative scores: priority_j^alpha (need_j / largest need)^b.

        Writes the last two. Returns how many there are, and the largest need.
        """
        cdef Py_ssize_t i, slot, n = 0, end = self.end[0]
        cdef const double* q = f64(query, self.features.n_features)
        cdef int64_t* some = i64(slots, self.capacity)
        cdef double* sums = f64(cumulative, self.capacity)
        cdef const double* gains = self.tree.numbers
        cdef double need, largest = 0.0, total = 0.0
        with nogil:
            for slot in range(end):
                if gains[slot] > 0.0:
                    need = self.features.need(slot, q)
                    if need > 0.0:
                        some[n], sums[n] = slot, need
                        n += 1
                        largest = max(largest, need)
            for i in range(n):
                total += combine(gains[some[i]], sums[i] / largest, self.need_alpha)
                sums[i] = total
        return n, largest
