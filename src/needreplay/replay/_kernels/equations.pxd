"""The equations of ``needreplay.equations`` that kernels need, for one number each."""

from libc.math cimport pow


cdef inline double discounted(double reward, double discount, double later) noexcept nogil:
    return reward + discount * later


cdef inline double power(double value, double exponent) noexcept nogil:
    cdef double result = value
    cdef int k, whole = <int>exponent if exponent <= 8.0 else 0
    if whole != exponent or whole < 1:
        return pow(value, exponent)
    for k in range(1, whole):  # takes less than half the time
        result *= value
    return result


cdef inline double combine(double gain, double need, double need_alpha) noexcept nogil:
    """gain · need^need_alpha, where ``gain`` is priority^alpha already."""
    return gain * power(need, need_alpha)


cdef inline double mixed_probability(double probability, double mix, Py_ssize_t n) noexcept nogil:
    return (1.0 - mix) * probability + mix / n


cdef inline double importance_weight(
    double probability, double smallest, double beta
) noexcept nogil:
    return pow(smallest / probability, beta)


cdef inline double rank_priority(double rank, double alpha) noexcept nogil:
    return pow(rank, -alpha)


cdef inline double pser_priority(double priority, double old, double retained) noexcept nogil:
    return max(priority, retained * old)


cdef inline double pser_decayed(double priority, double decay, int steps) noexcept nogil:
    return priority * pow(decay, steps)


cdef inline Py_ssize_t uniform_index(double u, Py_ssize_t n) noexcept nogil:
    return min(<Py_ssize_t>(u * n), n - 1)
