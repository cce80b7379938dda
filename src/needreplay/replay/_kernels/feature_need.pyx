"""Propose slots by a bound on their need, for features of any sign, and accept by the need itself.

The need of slot j is |q| |v_j| times the cosine of the angle between q and v_j, and the group of
slots that v_j is in has a bound on the cosine. Slots are proposed by priority_j^alpha (|v_j| bound)^b
and accepted with (cosine / bound)^b. A candidate costs one inner product.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport NAN, ceil
from libc.stdlib cimport free, malloc
from numpy cimport int64_t
from numpy.random cimport bitgen_t

import numpy as np

from needreplay._core.errors import NeedReplayError

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport as_i64, f64, i64, new_array, prefetch
from needreplay.replay._kernels.directions cimport Directions
from needreplay.replay._kernels.equations cimport combine, mixed_probability, power
from needreplay.replay._kernels.features cimport Features
from needreplay.replay._kernels.groups cimport NONE, Groups
from needreplay.replay._kernels.proportional cimport Proportional
from needreplay.replay._kernels.sumtree cimport SumTree

cnp.import_array()

cdef enum:
    AT_A_TIME = 32        # candidates found together, so that their memory accesses overlap
    OF_BATCH = 0, OF_ROWS  # acceptance rates: of one query for the batch, of one for each row

# How much a bound is raised, so that rounding cannot put a score above it: |v| and q · v are sums of
# d products in float64, each wrong by at most d · 1e-16 of |q| |v|.
cdef double C_SLACK = 1.0 + 1e-9
SLACK = C_SLACK
# Below this a sum of scores may have lost digits to underflow.
cdef double TINY = 1e-200


cdef class FeatureNeed(Proportional):
    """Beside the tree of priority^alpha: |v_j|^b in ``norms``, and their products in ``groups``."""

    cdef double* norms
    cdef int64_t* end
    cdef public double need_alpha
    cdef readonly double bound  # the last query's Σ priority_j^alpha (|v_j| bound)^b
    cdef int64_t* candidates    # how many were accepted and tried
    cdef double* recent_rates   # at which they are accepted: of each kind, never 0, and as it is
    cdef Directions directions
    cdef Groups groups
    cdef Features features
    cdef double* bounds         # bound^b of each group
    cdef SumTree pages          # bound^b of its group times the mass of each page

    def __init__(
        self, dict arrays, Py_ssize_t capacity, bint follows_window, double alpha,
        double need_alpha, SumTree gains, Directions directions,
    ):
        Proportional.__init__(self, arrays, capacity, follows_window, gains, alpha, False, False)
        self.norms, self.end = f64(arrays["norms"], capacity), i64(arrays["end"], 1)
        self.need_alpha = need_alpha
        self.candidates = i64(arrays["candidates"], 2)
        self.recent_rates = f64(arrays["recent_rates"], 4)
        self.directions, self.groups = directions, directions.groups
        self.features = directions.features
        self.pages = SumTree(self.groups.n_pages)
        self.bounds = <double*>malloc(self.groups.n_groups * sizeof(double))
        if self.bounds == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.bounds)

    cdef int weigh(self, const int64_t* slots, Py_ssize_t count) except -1:
        """The masses of ``slots`` in their groups are priority_j^alpha |v_j|^b."""
        cdef Py_ssize_t i
        for i in range(count):
            if self.groups.place[slots[i]] != NONE:
                self.groups.set(slots[i], self.tree.numbers[slots[i]] * self.norms[slots[i]])
        return 0

    cdef int enter(
        self, const int64_t* slots, const int64_t* previous, Py_ssize_t count
    ) except -1:
        """Their need is 0 until their features are set."""
        cdef Py_ssize_t i
        for i in range(count):
            self.features.forget(slots[i])
            self.groups.leave(slots[i])
            self.end[0] = max(self.end[0], slots[i] + 1)
        return 0

    cdef int assign(
        self, const int64_t* slots, const double* priorities, Py_ssize_t count
    ) except -1:
        Proportional.assign(self, slots, priorities, count)
        return self.weigh(slots, count)

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
            self.follow_vector(slots[i])
        return 0

    cdef int follow_vector(self, int64_t slot) except -1:
        """The vector of ``slot`` was set."""
        self.norms[slot] = power(self.features.norm(slot), self.need_alpha)
        self.end[0] = max(self.end[0], slot + 1)
        self.directions.sort(slot)
        return self.weigh(&slot, 1)

    def set_features(self, slots, rows):
        """Set the features of ``slots``, a row each, which are fine."""
        cdef Py_ssize_t i, count = len(slots)
        slots = as_i64(slots)
        cdef const int64_t* slot = i64(slots, count)
        self.features.set(slots, rows)
        for i in range(count):
            self.follow_vector(slot[i])

    def restore(self):
        """Derive what is not saved; the places and groups of slots have to be possible."""
        cdef int64_t slot
        if not self.groups.restore():
            raise NeedReplayError("A slot is in a group that does not exist, or in another's place.")
        self.directions.restore()
        for slot in range(self.capacity):
            self.norms[slot] = power(self.features.norm(slot), self.need_alpha)
            self.weigh(&slot, 1)

    # Sampling -----------------------------------------------------------------------------------

    def total_norm(self):
        """Σ priority_j^alpha |v_j|^b, the bound for any query of length 1."""
        self.groups.settle()
        return self.groups.tree.sum() * C_SLACK

    cdef int bound_by(self, const double* query) except -1:
        """Bound the scores for ``query``: of groups in ``bounds``, of pages in ``pages``."""
        cdef Py_ssize_t page
        cdef int64_t group
        self.groups.settle()
        self.directions.aim(query)
        for group in range(self.groups.n_groups):
            self.bounds[group] = NONE
        for page in range(self.groups.n_pages):
            group = self.groups.group[page]
            if group == NONE:
                self.pages.numbers[page] = 0.0
                continue
            if self.bounds[group] == NONE:
                self.bounds[group] = power(max(0.0, self.directions.bound(group)), self.need_alpha)
            self.pages.numbers[page] = self.groups.page_mass(page) * self.bounds[group]
        self.pages.sum_above(NULL, self.groups.n_pages)
        self.bound = self.pages.sum() * C_SLACK
        return 0

    def sample(
        self, query, Py_ssize_t size, bits, double mix, bint with_need, Py_ssize_t most_rejected
    ):
        """``size`` accepted slots, their scores, and the probabilities that weights correct for.

        Ends before where a pass over the buffer costs less than what is rejected: the last value is
        how many slots were found. ``bits`` is the capsule of a bit generator.

        ``mix`` is the uniform share. If weights do not correct for need, each slot is replaced with
        that probability, and scores are unknown. Else the sum of scores is estimated: with share =
        mix / (1 - mix) · estimate a candidate is uniform with probability share / (share + bound),
        and is then always accepted, so that P(j) ∝ score_j + share / N.
        """
        slots, scores = new_array(cnp.NPY_INT64, size), new_array(cnp.NPY_FLOAT64, size)
        cdef const double* q = f64(query, self.features.n_features)
        cdef int64_t* slot = i64(slots, size)
        cdef double* score = f64(scores, size)
        cdef double* probability
        cdef double share = 0.0, uniform
        cdef Py_ssize_t filled, i
        source = <bitgen_t*>PyCapsule_GetPointer(bits, "BitGenerator")
        self.bound_by(q)
        if with_need:
            share = mix / (1.0 - mix) * self.bound * self.recent_rates[1]
        with nogil:
            filled = self.fill(q, source, share, slot, score, size, most_rejected)
        if filled < size or with_need:
            return slots, scores, None, filled
        if mix > 0.0:
            for i in range(size):
                score[i] = NAN
                if source.next_double(source.state) < mix:
                    uniform = source.next_double(source.state)
                    self.pick_into(&uniform, slot + i, 1)
        corrected = new_array(cnp.NPY_FLOAT64, size)
        probability = f64(corrected, size)
        for i in range(size):
            probability[i] = self.tree.numbers[slot[i]] / self.tree.sum()
            if mix > 0.0:
                probability[i] = mixed_probability(probability[i], mix, self.occupied())
        return slots, scores, corrected, filled

    cdef Py_ssize_t fill(
        self, const double* query, bitgen_t* source, double share, int64_t* slots, double* scores,
        Py_ssize_t size, Py_ssize_t most_rejected,
    ) noexcept nogil:
        """Fill ``slots`` with accepted candidates, and ``scores``; returns how many there are."""
        cdef double need, place, rate
        cdef double shares[AT_A_TIME]
        cdef double bounds[AT_A_TIME]
        cdef int64_t candidates[AT_A_TIME]
        cdef int64_t uniform[AT_A_TIME]
        cdef Py_ssize_t filled = 0, tried = 0, accepted = 0, wanted = size, n, i
        while wanted > 0 and tried - accepted <= most_rejected and self.bound > TINY:
            rate = (self.recent_rates[0] * self.bound + share) / (self.bound + share)
            if wanted / rate > wanted + most_rejected:
                break
            n = min(AT_A_TIME, <Py_ssize_t>ceil(wanted / rate))
            for i in range(n):
                uniform[i], shares[i] = NONE, source.next_double(source.state)
                if share > 0.0:
                    place = shares[i] * (self.bound + share)
                    if place < share:
                        place /= share
                        self.pick_into(&place, &uniform[i], 1)
                    shares[i] = max(0.0, place - share) / self.bound
            self.propose(shares, bounds, n, candidates)
            for i in range(n):
                if wanted == 0:
                    break
                if uniform[i] != NONE:
                    candidates[i] = uniform[i]
                    need = power(max(0.0, self.features.need(uniform[i], query)), self.need_alpha)
                else:
                    tried += 1
                    place = source.next_double(source.state) * bounds[i]
                    need = self.accepted(candidates[i], query, place)
                    if need <= 0.0:
                        continue
                    accepted += 1
                slots[filled] = candidates[i]
                scores[filled] = self.tree.numbers[candidates[i]] * need
                if share > 0.0:
                    scores[filled] += share / self.occupied()
                filled, wanted = filled + 1, wanted - 1
        self.note(OF_BATCH, accepted, tried)
        return filled

    cdef void note(self, int kind, Py_ssize_t accepted, Py_ssize_t tried) noexcept nogil:
        """Count candidates, and follow the rate at which they are accepted."""
        cdef double* recent = self.recent_rates + 2 * kind
        self.candidates[0] += accepted
        self.candidates[1] += tried
        if tried > 0:
            recent[0] += 0.1 * (<double>max(accepted, 1) / tried - recent[0])
            recent[1] += 0.1 * (<double>accepted / tried - recent[1])

    cdef void propose(
        self, const double* shares, double* bounds, Py_ssize_t count, int64_t* candidates
    ) noexcept nogil:
        """A slot for each share of the bound, and bound^b of its group."""
        cdef double targets[AT_A_TIME]
        cdef Py_ssize_t i
        for i in range(count):
            targets[i] = shares[i] * self.pages.sum()
        self.pages.find(targets, candidates, count)
        for i in range(count):
            bounds[i] = self.bounds[self.groups.group[candidates[i]]]
            targets[i] /= bounds[i]
        self.groups.tree.descend(self.groups.level, targets, candidates, count)
        self.request(candidates, count)

    cdef void request(self, int64_t* candidates, Py_ssize_t count) noexcept nogil:
        """Places become slots, whose norms and vectors are requested together."""
        cdef Py_ssize_t i
        for i in range(count):
            prefetch(self.groups.slot_at + candidates[i])
        for i in range(count):
            candidates[i] = self.groups.slot_at[candidates[i]]
            prefetch(self.norms + candidates[i])
            self.features.request(candidates[i])

    cdef double accepted(self, int64_t slot, const double* query, double luck) noexcept nogil:
        """need^b if ``slot`` is accepted, which it is if |v|^b · luck is below it; otherwise 0."""
        cdef double need = self.features.need(slot, query)
        if need <= 0.0:
            return 0.0
        need = power(need, self.need_alpha)
        return need if luck * C_SLACK * self.norms[slot] < need else 0.0

    def try_rows(self, queries, shares, luck, Py_ssize_t most_rejected, rows, rejected, slots):
        """Candidates, one for each share, for ``rows`` in turn, each with a query of its own.

        A row gets the first of its candidates that is accepted: ``slots[row]``, which must be -1
        before. Proposals are by norms alone, which do not depend on the query, so those of all rows
        are found together. A row gives up after ``most_rejected``; ``rejected`` counts them. Writes
        the last three: the rows that still wait come first in ``rows``. Returns how many these are.
        """
        cdef Py_ssize_t d = self.features.n_features, n = len(shares), waiting = len(rows)
        cdef Py_ssize_t i, found, begin = 0, accepted = 0, tried = 0
        cdef const double* query = f64(queries, len(queries) * d)
        cdef const double* share = f64(shares, n)
        cdef const double* lucky = f64(luck, n)
        cdef int64_t* row = i64(rows, waiting)
        cdef int64_t* failed = i64(rejected, len(rejected))
        cdef int64_t* slot = i64(slots, len(slots))
        cdef double targets[AT_A_TIME]
        cdef int64_t candidates[AT_A_TIME]
        cdef int64_t one
        cdef SumTree tree = self.groups.settled()
        with nogil:
            while begin < n and waiting > 0:
                found = min(AT_A_TIME, n - begin)
                for i in range(found):
                    targets[i] = share[begin + i] * tree.sum()
                tree.find(targets, candidates, found)
                self.request(candidates, found)
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
        self.note(OF_ROWS, accepted, tried)
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
