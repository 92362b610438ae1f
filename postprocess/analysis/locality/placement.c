/* What if the CTAs ran on several devices: bytes that would cross from one to another. */
#include "placement.h"
#include "memtrace/grow.h"
#include "placement_cut.h"
#include <stdlib.h>
#include <string.h>

/* Looks at this many nodes at most while refining; large graphs keep what is found by then. */
#define BUDGET 2000000000ull

int mt_placement_init(struct mt_placement *p, unsigned devices)
{
    memset(p, 0, sizeof *p);
    p->devices = devices;
    return 0;
}

int mt_placement_launch(struct mt_placement *p)
{
    if (mt_grow(&p->launches, &p->launch_room, p->nlaunches + 1, sizeof *p->launches) != 0)
        return -1;
    p->launches[p->nlaunches++] = (struct mt_placement_launch){.first = p->nnodes, .end = p->nnodes};
    return 0;
}

int mt_placement_cta(struct mt_placement *p, uint64_t order)
{
    if (p->nnodes == UINT32_MAX || mt_grow(&p->ctas, &p->node_room, p->nnodes + 1, sizeof *p->ctas) != 0)
        return -1;
    p->ctas[p->nnodes++] = order;
    p->launches[p->nlaunches - 1].end = p->nnodes;
    return 0;
}

int mt_placement_edge(struct mt_placement *p, uint32_t src, uint32_t dst, uint64_t bytes)
{
    if (mt_grow(&p->edges, &p->edge_room, p->nedges + 1, sizeof *p->edges) != 0)
        return -1;
    p->edges[p->nedges++] = (struct mt_placement_edge){src, dst, bytes};
    return 0;
}

static int list_neighbours(struct mt_placement *p)
{
    p->offset = calloc(p->nnodes + 2, sizeof *p->offset);
    p->neighbours = malloc((2 * p->nedges + 1) * sizeof *p->neighbours);
    if (!p->offset || !p->neighbours)
        return -1;
    /* offset[i + 2] counts those of node i, then offset[i + 1] is where the next of them goes. */
    for (size_t i = 0; i < p->nedges; i++)
        if (p->edges[i].src != p->edges[i].dst) {
            p->offset[p->edges[i].src + (size_t)2]++;
            p->offset[p->edges[i].dst + (size_t)2]++;
        }
    for (size_t i = 2; i < p->nnodes + 2; i++)
        p->offset[i] += p->offset[i - 1];
    for (size_t i = 0; i < p->nedges; i++) {
        const struct mt_placement_edge *e = &p->edges[i];
        if (e->src == e->dst)
            continue;
        p->neighbours[p->offset[e->src + (size_t)1]++] = (struct mt_neighbour){e->dst, e->bytes};
        p->neighbours[p->offset[e->dst + (size_t)1]++] = (struct mt_neighbour){e->src, e->bytes};
    }
    return 0;
}

static uint64_t placement_cut_it(const struct mt_placement *p, const uint16_t *device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->nedges; i++)
        if (device[p->edges[i].src] != device[p->edges[i].dst])
            bytes += p->edges[i].bytes;
    return bytes;
}

static void placement_simple(const struct mt_placement *p)
{
    for (size_t k = 0; k < p->nlaunches; k++) {
        const struct mt_placement_launch *l = &p->launches[k];
        size_t n = l->end - l->first;
        for (size_t i = 0; i < n; i++) {
            p->device[MT_PLACE_BLOCK][l->first + i] = (uint16_t)(i * p->devices / n);
            p->device[MT_PLACE_ROBIN][l->first + i] = (uint16_t)(i % p->devices);
        }
    }
}

/* From three beginnings; the best end, of equal ones the first. */
static int placement_mincut(struct mt_placement *p)
{
    uint16_t *best = p->device[MT_PLACE_MINCUT], *trial = malloc((p->nnodes + 1) * sizeof *trial);
    uint64_t least = UINT64_MAX;
    int rc = trial ? 0 : -1;
    for (int start = 0; start < 3 && rc == 0 && least > 0; start++) {
        if (start < 2)
            memcpy(trial, p->device[start ? MT_PLACE_ROBIN : MT_PLACE_BLOCK], p->nnodes * sizeof *trial);
        else
            rc = mt_placement_greedy(p, trial);
        p->budget = BUDGET / 3;
        if (rc == 0)
            rc = mt_placement_refine(p, trial);
        uint64_t bytes = placement_cut_it(p, trial);
        if (rc == 0 && bytes < least) {
            least = bytes;
            memcpy(best, trial, p->nnodes * sizeof *trial);
        }
    }
    free(trial);
    return rc;
}

/* The launch of a node; *at is where the search begins, and that launch in the end. */
static struct mt_placement_launch *placement_launch_of(struct mt_placement *p, size_t *at, uint32_t node)
{
    while (node >= p->launches[*at].end || node < p->launches[*at].first)
        *at = (*at + 1) % p->nlaunches;
    return &p->launches[*at];
}

static void placement_report(struct mt_placement *p)
{
    size_t launch = 0;
    for (size_t i = 0; i < p->nedges; i++) {
        const struct mt_placement_edge *e = &p->edges[i];
        struct mt_placement_launch *l = placement_launch_of(p, &launch, e->dst);
        p->load += e->bytes;
        l->load += e->bytes;
        for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
            unsigned from = p->device[policy][e->src], to = p->device[policy][e->dst];
            p->traffic[policy][from * p->devices + to] += e->bytes;
            if (from != to) {
                l->cross[policy] += e->bytes;
                p->cross[policy] += e->bytes;
            }
        }
    }
}

int mt_placement_solve(struct mt_placement *p)
{
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        p->device[policy] = calloc(p->nnodes + 1, sizeof *p->device[policy]);
        p->traffic[policy] = calloc((size_t)p->devices * p->devices, sizeof *p->traffic[policy]);
        if (!p->device[policy] || !p->traffic[policy])
            return -1;
    }
    placement_simple(p);
    if (list_neighbours(p) != 0 || placement_mincut(p) != 0)
        return -1;
    placement_report(p);
    return 0;
}

/* `seen`: devices that read bytes of a set from another one, a bit each, `words` of them for each set. */
static void placement_distinct(struct mt_placement *p, int policy, const struct mt_read_set *sets, size_t n,
                               const uint32_t *node, uint64_t *seen, size_t words)
{
    const uint16_t *device = p->device[policy];
    size_t launch = 0;
    for (size_t i = 1; i < n; i++) {
        unsigned from = device[node[sets[i].src]], to = device[node[sets[i].dst]];
        uint64_t *mine = seen + i * words, bit = 1ull << to % 64;
        memcpy(mine, seen + sets[i].before * words, words * sizeof *seen);
        if (from == to || mine[to / 64] & bit)
            continue;
        mine[to / 64] |= bit;
        p->distinct[policy] += sets[i].bytes;
        p->distinct_traffic[policy][from * p->devices + to] += sets[i].bytes;
        placement_launch_of(p, &launch, node[sets[i].dst])->distinct[policy] += sets[i].bytes;
    }
}

int mt_placement_distinct(struct mt_placement *p, const struct mt_read_set *sets, size_t n,
                          const uint32_t *node)
{
    size_t words = (p->devices + 63) / 64;
    uint64_t *seen = calloc(n + 1, words * sizeof *seen);
    int rc = seen ? 0 : -1;
    for (int policy = 0; policy < MT_PLACE_POLICIES && rc == 0; policy++) {
        p->distinct_traffic[policy] = calloc((size_t)p->devices * p->devices, sizeof *p->traffic[policy]);
        rc = p->distinct_traffic[policy] ? 0 : -1;
        if (rc == 0)
            placement_distinct(p, policy, sets, n, node, seen, words);
    }
    free(seen);
    p->distinct_known = rc == 0;
    return rc;
}

void mt_placement_free(struct mt_placement *p)
{
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        free(p->device[policy]);
        free(p->traffic[policy]);
        free(p->distinct_traffic[policy]);
    }
    free(p->launches);
    free(p->ctas);
    free(p->edges);
    free(p->offset);
    free(p->neighbours);
    memset(p, 0, sizeof *p);
}
