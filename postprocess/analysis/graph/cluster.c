/* Average linkage (UPGMA, Sokal and Michener 1958). Each step looks through all pairs: time n^3, which is
 * less than what comparing n traces with each other costs. */
#include "cluster.h"
#include <stdlib.h>
#include <string.h>

struct groups {
    size_t n;         /* things */
    double *distance; /* [n * n], of the groups in these places */
    uint32_t *name;   /* of the group in a place, by which it is known outside */
    uint32_t *things; /* in it; 0: the place is empty */
};

/* The nearest two, as places; of equally near ones those with the smaller names. */
static void cluster_nearest(const struct groups *g, size_t *x, size_t *y)
{
    double least = -1;
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; g->things[i] && k < g->n; k++) {
            double d = g->distance[i * g->n + k];
            if (!g->things[k] || g->name[i] >= g->name[k])
                continue;
            if (least < 0 || d < least ||
                (d == least && (g->name[i] < g->name[*x] || (i == *x && g->name[k] < g->name[*y])))) {
                least = d;
                *x = i;
                *y = k;
            }
        }
}

/* The group in place y goes into that of x. */
static void cluster_join(struct groups *g, size_t x, size_t y)
{
    double wx = g->things[x], wy = g->things[y];
    for (size_t k = 0; k < g->n; k++) {
        double d = (wx * g->distance[x * g->n + k] + wy * g->distance[y * g->n + k]) / (wx + wy);
        g->distance[x * g->n + k] = g->distance[k * g->n + x] = d;
    }
    g->things[x] += g->things[y];
    g->things[y] = 0;
}

int mt_cluster_average(const double *distance, size_t n, struct mt_cluster_join *out)
{
    struct groups g = {n, malloc(n * n * sizeof *g.distance), malloc(n * sizeof *g.name),
                       malloc(n * sizeof *g.things)};
    int rc = g.distance && g.name && g.things ? 0 : -1;
    if (rc == 0)
        memcpy(g.distance, distance, n * n * sizeof *distance);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        g.name[i] = (uint32_t)i;
        g.things[i] = 1;
    }
    for (size_t i = 0; rc == 0 && i + 1 < n; i++) {
        size_t x = 0, y = 0;
        cluster_nearest(&g, &x, &y);
        out[i] =
            (struct mt_cluster_join){g.name[x], g.name[y], g.distance[x * n + y], g.things[x] + g.things[y]};
        cluster_join(&g, x, y);
        g.name[x] = (uint32_t)(n + i);
    }
    free(g.distance);
    free(g.name);
    free(g.things);
    return rc;
}

static uint32_t cluster_smallest(const struct mt_cluster_join *joins, size_t n, uint32_t group)
{
    if (group < n)
        return group;
    uint32_t a = cluster_smallest(joins, n, joins[group - n].a);
    uint32_t b = cluster_smallest(joins, n, joins[group - n].b);
    return a < b ? a : b;
}

static uint32_t *cluster_walk(const struct mt_cluster_join *joins, size_t n, uint32_t group, uint32_t *out)
{
    if (group < n) {
        *out = group;
        return out + 1;
    }
    uint32_t a = joins[group - n].a, b = joins[group - n].b;
    int turned = cluster_smallest(joins, n, b) < cluster_smallest(joins, n, a);
    out = cluster_walk(joins, n, turned ? b : a, out);
    return cluster_walk(joins, n, turned ? a : b, out);
}

void mt_cluster_order(const struct mt_cluster_join *joins, size_t n, uint32_t *order)
{
    cluster_walk(joins, n, (uint32_t)(n > 1 ? 2 * n - 2 : 0), order);
}
