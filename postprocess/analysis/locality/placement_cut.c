/* The min-cut heuristic of placement.c. */
#include "placement_cut.h"
#include <stdlib.h>
#include <string.h>

enum { PASSES = 8, FRUITLESS = 64 };

static size_t placement_cut_share(const struct mt_placement *p, const struct mt_placement_launch *l)
{
    return (l->end - l->first + p->devices - 1) / p->devices;
}

/* ---- greedy ---- */

struct candidate {
    uint64_t bytes; /* to nodes of earlier launches */
    size_t node;
};

static int most_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* The device that holds most of the node's neighbours in [0, end of the launch) that are placed, and has
 * room. `bytes` is scratch by device. Of equal ones the one of the block placement, else the first. */
static unsigned best_device(const struct mt_placement *p, const uint16_t *device, const char *placed,
                            size_t node, const size_t *taken, size_t most, uint64_t *bytes)
{
    unsigned best = p->device[MT_PLACE_BLOCK][node];
    memset(bytes, 0, p->devices * sizeof *bytes);
    for (size_t i = p->offset[node]; i < p->offset[node + 1]; i++)
        if (placed[p->neighbours[i].node])
            bytes[device[p->neighbours[i].node]] += p->neighbours[i].bytes;
    int found = taken[best] < most;
    for (unsigned d = 0; d < p->devices; d++)
        if (taken[d] < most && (!found || bytes[d] > bytes[best])) {
            best = d;
            found = 1;
        }
    return best;
}

int mt_placement_greedy(const struct mt_placement *p, uint16_t *device)
{
    char *placed = calloc(p->nnodes + 1, 1);
    size_t *taken = calloc(p->devices, sizeof *taken);
    uint64_t *bytes = calloc(p->devices, sizeof *bytes);
    struct candidate *order = malloc((p->nnodes + 1) * sizeof *order);
    int rc = placed && taken && bytes && order ? 0 : -1;
    for (size_t k = 0; rc == 0 && k < p->nlaunches; k++) {
        const struct mt_placement_launch *l = &p->launches[k];
        size_t n = l->end - l->first;
        memset(taken, 0, p->devices * sizeof *taken);
        for (size_t i = 0; i < n; i++) {
            order[i] = (struct candidate){0, l->first + i};
            for (size_t e = p->offset[l->first + i]; e < p->offset[l->first + i + 1]; e++)
                order[i].bytes += placed[p->neighbours[e].node] ? p->neighbours[e].bytes : 0;
        }
        qsort(order, n, sizeof *order, most_first);
        for (size_t i = 0; i < n; i++) {
            unsigned d =
                best_device(p, device, placed, order[i].node, taken, placement_cut_share(p, l), bytes);
            device[order[i].node] = (uint16_t)d;
            placed[order[i].node] = 1;
            taken[d]++;
        }
    }
    free(placed);
    free(taken);
    free(bytes);
    free(order);
    return rc;
}

/* ---- refinement ---- */

/* One launch: of each of its nodes the bytes to and from each device, and what was tried. */
struct cut {
    struct mt_placement *p;
    const struct mt_placement_launch *l;
    uint16_t *device;
    int64_t *bytes; /* [node - first][device] */
    char *locked;
    size_t *count; /* nodes by device */
    struct step {
        size_t node;
        unsigned from;
    } *steps;
    size_t nsteps;
};

static int64_t placement_cut_gain(const struct cut *c, size_t node, unsigned from, unsigned to)
{
    const int64_t *b = &c->bytes[(node - c->l->first) * c->p->devices];
    return b[to] - b[from];
}

static void placement_cut_move(struct cut *c, size_t node, unsigned to)
{
    const struct mt_placement *p = c->p;
    unsigned from = c->device[node];
    for (size_t i = p->offset[node]; i < p->offset[node + 1]; i++) {
        size_t other = p->neighbours[i].node;
        if (other < c->l->first || other >= c->l->end)
            continue;
        int64_t *b = &c->bytes[(other - c->l->first) * p->devices];
        b[from] -= (int64_t)p->neighbours[i].bytes;
        b[to] += (int64_t)p->neighbours[i].bytes;
    }
    c->device[node] = (uint16_t)to;
    c->count[from]--;
    c->count[to]++;
}

static void placement_cut_attempt(struct cut *c, size_t node, unsigned to)
{
    c->steps[c->nsteps++] = (struct step){node, c->device[node]};
    c->locked[node - c->l->first] = 1;
    placement_cut_move(c, node, to);
}

/* The unlocked node on `from` that gains most on `to`; SIZE_MAX: none. */
static size_t best_node(struct cut *c, unsigned from, unsigned to, int64_t *most)
{
    size_t best = SIZE_MAX;
    for (size_t i = c->l->first; i < c->l->end; i++) {
        if (c->device[i] != from || c->locked[i - c->l->first])
            continue;
        int64_t g = placement_cut_gain(c, i, from, to);
        if (best == SIZE_MAX || g > *most) {
            best = i;
            *most = g;
        }
    }
    uint64_t looked = c->l->end - c->l->first;
    c->p->budget -= c->p->budget < looked ? c->p->budget : looked;
    return best;
}

/* One tentative step between two devices: an exchange, or a move to one that has room. Returns the bytes it
 * saves in *saved (negative: costs), 0 if nothing is left to try. */
static int try_step(struct cut *c, unsigned a, unsigned b, int64_t *saved)
{
    int64_t ga = 0, gb = 0;
    size_t most = placement_cut_share(c->p, c->l), x = best_node(c, a, b, &ga), y = best_node(c, b, a, &gb);
    int forth = x != SIZE_MAX && c->count[b] < most, back = y != SIZE_MAX && c->count[a] < most;
    if (forth && (!back || ga >= gb) && (ga > 0 || y == SIZE_MAX)) {
        placement_cut_attempt(c, x, b);
        *saved = ga;
        return 1;
    }
    if (back && (gb > 0 || x == SIZE_MAX)) {
        placement_cut_attempt(c, y, a);
        *saved = gb;
        return 1;
    }
    if (x == SIZE_MAX || y == SIZE_MAX)
        return 0;
    placement_cut_attempt(c, x, b);
    gb = placement_cut_gain(c, y, b, a); /* without x */
    placement_cut_attempt(c, y, a);
    *saved = ga + gb;
    return 1;
}

/* Returns the bytes saved between two devices. */
static int64_t refine_pair(struct cut *c, unsigned a, unsigned b)
{
    int64_t sum = 0, best = 0, saved;
    size_t keep = 0;
    c->nsteps = 0;
    memset(c->locked, 0, c->l->end - c->l->first);
    for (int fruitless = 0; fruitless < FRUITLESS && c->p->budget && try_step(c, a, b, &saved); fruitless++) {
        sum += saved;
        if (sum > best) {
            best = sum;
            keep = c->nsteps;
            fruitless = -1;
        }
    }
    while (c->nsteps > keep) {
        const struct step *s = &c->steps[--c->nsteps];
        placement_cut_move(c, s->node, s->from);
    }
    return best;
}

static int64_t refine_launch(struct cut *c)
{
    const struct mt_placement *p = c->p;
    size_t n = c->l->end - c->l->first;
    int64_t saved = 0;
    memset(c->bytes, 0, n * p->devices * sizeof *c->bytes);
    memset(c->count, 0, p->devices * sizeof *c->count);
    for (size_t i = 0; i < n; i++) {
        c->count[c->device[c->l->first + i]]++;
        for (size_t e = p->offset[c->l->first + i]; e < p->offset[c->l->first + i + 1]; e++)
            c->bytes[i * p->devices + c->device[p->neighbours[e].node]] += (int64_t)p->neighbours[e].bytes;
    }
    for (unsigned a = 0; a < p->devices; a++)
        for (unsigned b = a + 1; b < p->devices; b++)
            saved += refine_pair(c, a, b);
    return saved;
}

int mt_placement_refine(struct mt_placement *p, uint16_t *device)
{
    size_t most = 0;
    for (size_t k = 0; k < p->nlaunches; k++)
        if (p->launches[k].end - p->launches[k].first > most)
            most = p->launches[k].end - p->launches[k].first;
    struct cut c = {.p = p,
                    .device = device,
                    .bytes = malloc((most * p->devices + 1) * sizeof *c.bytes),
                    .locked = malloc(most + 1),
                    .count = malloc(p->devices * sizeof *c.count),
                    .steps = malloc((2 * most + 2) * sizeof *c.steps)};
    int rc = c.bytes && c.locked && c.count && c.steps ? 0 : -1;
    int64_t saved = 1;
    for (int pass = 0; rc == 0 && pass < PASSES && saved > 0 && p->budget; pass++) {
        saved = 0;
        for (size_t k = 0; k < p->nlaunches; k++) {
            c.l = &p->launches[k];
            saved += refine_launch(&c);
        }
    }
    free(c.bytes);
    free(c.locked);
    free(c.count);
    free(c.steps);
    return rc;
}
