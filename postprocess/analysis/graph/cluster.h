/* Which of many are alike: average linkage (UPGMA), as a tree and as an order in which alike ones are
 * neighbours. */
#ifndef MT_ANALYSIS_CLUSTER_H
#define MT_ANALYSIS_CLUSTER_H
#include <stddef.h>
#include <stdint.h>

/* Two groups become one. Groups 0 to n - 1 are one thing each, group n + i is what join i made. */
struct mt_cluster_join {
    uint32_t a, b;   /* a < b */
    double distance; /* the mean over all pairs of a thing of a and one of b */
    uint32_t things; /* in the new group */
};
/* `distance` is [n * n], symmetric and known everywhere. The n - 1 joins go to `out`, nearest first; of equal
 * distances the groups with the smaller numbers are first. 0, or -1 without memory. n >= 1. */
int mt_cluster_average(const double *distance, size_t n, struct mt_cluster_join *out);
/* The n things from the one side of the tree to the other, so that no line of a drawing crosses another; of
 * two groups the one that has the smallest thing comes first. */
void mt_cluster_order(const struct mt_cluster_join *joins, size_t n, uint32_t *order);
#endif
