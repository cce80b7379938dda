/* The wide sum tree of needreplay/replay/sumtree.py: the same array and the same sums. */
#ifndef NEEDREPLAY_SUMTREE_H
#define NEEDREPLAY_SUMTREE_H

#include "native.h"

#define FANOUT 8
#define MOST_LEVELS 24

typedef struct {
    double *numbers;                  /* leaves first, then each level of sums, then the total */
    npy_intp first[MOST_LEVELS + 1];  /* where each level begins; the last is the root's */
    int levels;
} SumTree;

/* Where the levels of a tree over ``capacity`` leaves begin; how many numbers it has. */
static inline npy_intp
lay_out_tree(SumTree *tree, npy_intp capacity)
{
    npy_intp start = 0, below = capacity;
    tree->levels = 0;
    for (;;) {
        npy_intp groups = (below + FANOUT - 1) / FANOUT;
        tree->first[tree->levels++] = start;
        start += groups * FANOUT;
        if (groups == 1) {
            break;
        }
        below = groups;
    }
    tree->first[tree->levels] = start;
    return start + FANOUT;
}

static inline double *
total_of(const SumTree *tree)
{
    return tree->numbers + tree->first[tree->levels] + FANOUT - 1;
}

/* Always in this order: equal children, equal sum. */
static inline double
node_sum(const double *node)
{
    return ((node[0] + node[1]) + (node[2] + node[3])) + ((node[4] + node[5]) + (node[6] + node[7]));
}

/* The leaves ``slots`` have changed: sum again all that is above them. ``slots`` are used up. */
static inline void
sum_above(const SumTree *tree, npy_int64 *slots, npy_intp count)
{
    for (int level = 0; level < tree->levels; level++) {
        const double *below = tree->numbers + tree->first[level];
        double *above = tree->numbers + tree->first[level + 1];
        npy_intp kept = 0;
        for (npy_intp i = 0; i < count; i++) {
            npy_int64 parent = slots[i] / FANOUT;
            if (kept == 0 || parent != slots[kept - 1]) {
                PREFETCH(below + parent * FANOUT);
                slots[kept++] = parent;
            }
        }
        count = kept;
        for (npy_intp i = 0; i < count; i++) {
            above[slots[i]] = node_sum(below + slots[i] * FANOUT);
        }
    }
    *total_of(tree) = tree->numbers[tree->first[tree->levels]];
}

/* The leaf in which each target in [0, total) falls; ``targets`` are used up.
 *
 * A target that rounding carries past the end of a node falls to its last child.
 */
static inline void
find_leaves(const SumTree *tree, double *targets, npy_int64 *slots, npy_intp count)
{
    for (npy_intp i = 0; i < count; i++) {
        slots[i] = 0;
    }
    for (int level = tree->levels - 1; level >= 0; level--) {
        const double *nodes = tree->numbers + tree->first[level];
        for (npy_intp i = 0; i < count; i++) {
            const double *node = nodes + slots[i] * FANOUT;
            double before[FANOUT], passed = 0.0;
            int child = 0;
            before[0] = 0.0;
            for (int k = 0; k < FANOUT - 1; k++) {
                passed += node[k];
                before[k + 1] = passed;
                child += targets[i] >= passed;
            }
            targets[i] -= before[child];
            while (child > 0 && node[child] == 0.0) {
                child--;
            }
            slots[i] = slots[i] * FANOUT + child;
            if (level > 0) {
                PREFETCH(tree->numbers + tree->first[level - 1] + slots[i] * FANOUT);
            }
        }
    }
}

#endif
