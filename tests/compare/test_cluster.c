/* Average linkage: against SciPy's, and against its definition, the mean over all pairs of two groups. */
#include "../../postprocess/analysis/graph/cluster.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 24 };
static int failed;

static void cluster_holds(const char *what, int holds)
{
    if (!holds)
        printf("not so: %s\n", what);
    failed |= !holds;
}

/* scipy.cluster.hierarchy.linkage(squareform(far), "average"), SciPy 1.17.1 */
static void cluster_of_scipy(void)
{
    enum { N = 8 };
    static const double far[N * N] = {0,  80, 33, 46, 84, 32, 48, 74, 80, 0,  95, 89, 68, 84, 61, 32,
                                      33, 95, 0,  95, 4,  7,  32, 2,  46, 89, 95, 0,  60, 21, 49, 94,
                                      84, 68, 4,  60, 0,  15, 70, 28, 32, 84, 7,  21, 15, 0,  14, 53,
                                      48, 61, 32, 49, 70, 14, 0,  36, 74, 32, 2,  94, 28, 53, 36, 0};
    static const struct mt_cluster_join want[N - 1] = {{2, 7, 2, 2},           {5, 6, 14, 2},
                                                       {4, 8, 16, 3},          {3, 9, 35, 3},
                                                       {0, 11, 42, 4},         {10, 12, 54.41666667, 7},
                                                       {1, 13, 72.71428571, 8}};
    /* 14 is 1 and 13; 13 is 10 (4, and 2 with 7) and 12 (0, and 3 with 5 and 6); the smaller number is first
     */
    static const uint32_t order[N] = {0, 3, 5, 6, 2, 7, 4, 1};
    struct mt_cluster_join got[N];
    uint32_t walked[N];
    cluster_holds("memory", mt_cluster_average(far, N, got) == 0);
    for (int i = 0; i < N - 1; i++)
        cluster_holds("as SciPy", got[i].a == want[i].a && got[i].b == want[i].b &&
                                      got[i].things == want[i].things &&
                                      fabs(got[i].distance - want[i].distance) < 1e-7);
    mt_cluster_order(got, N, walked);
    cluster_holds("the order by hand", memcmp(walked, order, sizeof order) == 0);
}

static double cluster_mean(const double *far, size_t n, const char *a, const char *b)
{
    double sum = 0, pairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (a[i] && b[k]) {
                sum += far[i * n + k];
                pairs++;
            }
    return sum / pairs;
}

/* Each join is of the nearest two groups that there are. */
static void cluster_by_definition(const double *far, size_t n, const struct mt_cluster_join *joins)
{
    static char in[2 * MOST][MOST], there[2 * MOST];
    memset(in, 0, sizeof in);
    memset(there, 0, sizeof there);
    for (size_t i = 0; i < n; i++)
        in[i][i] = there[i] = 1;
    for (size_t j = 0; j + 1 < n; j++) {
        uint32_t a = joins[j].a, b = joins[j].b;
        uint32_t things = 0;
        cluster_holds("two groups that are there", a < b && b < n + j && there[a] && there[b]);
        for (size_t x = 0; x < n + j; x++)
            for (size_t y = x + 1; y < n + j; y++)
                cluster_holds("no two are nearer",
                              !there[x] || !there[y] ||
                                  cluster_mean(far, n, in[x], in[y]) > joins[j].distance - 1e-9);
        cluster_holds("the mean", fabs(cluster_mean(far, n, in[a], in[b]) - joins[j].distance) < 1e-9);
        there[a] = there[b] = 0;
        there[n + j] = 1;
        for (size_t i = 0; i < n; i++)
            things += (uint32_t)(in[n + j][i] = in[a][i] | in[b][i]);
        cluster_holds("how many", things == joins[j].things);
    }
}

/* Each thing once; those of a group side by side. */
static void cluster_in_order(size_t n, const struct mt_cluster_join *joins, const uint32_t *order)
{
    size_t first[2 * MOST], last[2 * MOST];
    char seen[MOST] = {0};
    for (size_t i = 0; i < n; i++) {
        cluster_holds("each once", order[i] < n && !seen[order[i]]++);
        first[order[i]] = last[order[i]] = i;
    }
    for (size_t j = 0; j + 1 < n; j++) {
        uint32_t a = joins[j].a, b = joins[j].b;
        first[n + j] = first[a] < first[b] ? first[a] : first[b];
        last[n + j] = last[a] > last[b] ? last[a] : last[b];
        cluster_holds("side by side", last[n + j] - first[n + j] + 1 == joins[j].things);
    }
}

int main(void)
{
    unsigned seed = 3;
    cluster_of_scipy();
    for (int round = 0; round < 300; round++) {
        double far[MOST * MOST];
        struct mt_cluster_join joins[MOST];
        uint32_t order[MOST];
        size_t n = 1 + (size_t)rand_r(&seed) % MOST;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k <= i; k++)
                far[i * n + k] = far[k * n + i] = i == k ? 0 : rand_r(&seed) % (round % 2 ? 4 : 1000);
        cluster_holds("memory", mt_cluster_average(far, n, joins) == 0);
        cluster_by_definition(far, n, joins);
        mt_cluster_order(joins, n, order);
        cluster_in_order(n, joins, order);
    }
    puts(failed ? "FAILED" : "average linkage is right");
    return failed;
}
