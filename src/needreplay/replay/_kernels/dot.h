/* Inner products of float32 rows with a float64 vector, summed in float64.
 *
 * Sixteen sums side by side, always added up in the same order: the compiler can use the processor's
 * vectors, as wide as it has them, and every processor gets the same bits.
 */
#ifndef NEEDREPLAY_DOT_H
#define NEEDREPLAY_DOT_H

#include <stddef.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#define LANES 16

static inline double
sum_of_lanes(const double *sums)
{
    double half[LANES / 2], total = 0.0;
    for (int lane = 0; lane < LANES / 2; lane++) {
        half[lane] = sums[lane] + sums[lane + LANES / 2];
    }
    for (int lane = 0; lane < LANES / 4; lane++) {
        total += half[lane] + half[lane + LANES / 4];
    }
    return total;
}

static inline double
inner_product(const float *row, const double *query, ptrdiff_t length)
{
    double sums[LANES] = {0.0};
    ptrdiff_t k = 0;
    for (; k + LANES <= length; k += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            sums[lane] += (double)row[k + lane] * query[k + lane];
        }
    }
    for (int lane = 0; k + lane < length; lane++) {
        sums[lane] += (double)row[k + lane] * query[k + lane];
    }
    return sum_of_lanes(sums);
}

FOR_EACH_PROCESSOR static double
dot_product(const float *row, const double *query, ptrdiff_t length)
{
    return inner_product(row, query, length);
}

FOR_EACH_PROCESSOR static void
dot_products(const float *rows, ptrdiff_t count, const double *query, ptrdiff_t length, double *products)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        products[i] = inner_product(rows + i * length, query, length);
    }
}

FOR_EACH_PROCESSOR static double
sum_of_squares(const float *row, ptrdiff_t length)
{
    double sums[LANES] = {0.0};
    ptrdiff_t k = 0;
    for (; k + LANES <= length; k += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            sums[lane] += (double)row[k + lane] * (double)row[k + lane];
        }
    }
    for (int lane = 0; k + lane < length; lane++) {
        sums[lane] += (double)row[k + lane] * (double)row[k + lane];
    }
    return sum_of_lanes(sums);
}

#endif
