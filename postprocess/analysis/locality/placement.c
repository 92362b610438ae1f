/* Placement of CTAs on several devices: bytes that would cross between them. */
#define _GNU_SOURCE

#include "placement.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"
#include "analysis/base/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- min-cut heuristic ---- */

enum { PASSES = 8, FRUITLESS = 64 };

static size_t placement_cut_share(const struct mt_placement *p, const struct mt_placement_launch *l)
{
    return (l->end - l->first + p->devices - 1) / p->devices;
}

/* ---- greedy placement ---- */

struct candidate {
    uint64_t bytes; /* bytes on edges to nodes of earlier launches */
    size_t node;
};

MT_ORDER_FUNCTION(placement_most_first, struct candidate,
                  MT_ORDER_DIFFER(y, x, bytes) MT_ORDER_DIFFER(x, y, node))

/* Returns the device with room that has most of the node's placed neighbours in [0, end of the launch). On
 * ties the device of the block placement, else the first. `bytes` is scratch by device. */
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

/* Places all nodes again, launch by launch, each on the device with most of its placed neighbours. */
static int placement_greedy(const struct mt_placement *p, uint16_t *device)
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
        qsort(order, n, sizeof *order, placement_most_first);
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

/* State of a launch: bytes between each of its nodes and each device, and the steps tried. */
struct cut {
    struct mt_placement *p;
    const struct mt_placement_launch *l;
    uint16_t *device;
    int64_t *bytes; /* indexed by [node - first][device] */
    char *locked;
    size_t *count; /* number of nodes by device */
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

/* Returns the unlocked node on `from` with the highest gain on `to`; SIZE_MAX: none. */
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

/* Tries a step between two devices: an exchange, or a move to a device with room. Returns 1 with the bytes
 * saved in *saved (negative: cost), or 0 if nothing is left to try. */
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
    gb = placement_cut_gain(c, y, b, a); /* gain of y without its edge to x */
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

/* Exchanges and moves nodes while that saves bytes (Kernighan-Lin, two devices of one launch at a time). */
static int placement_refine(struct mt_placement *p, uint16_t *device)
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

/* Maximum number of nodes examined during refinement; large graphs keep the result so far. */
#define BUDGET 2000000000ull

static int placement_begin(struct mt_placement *p, unsigned devices)
{
    memset(p, 0, sizeof *p);
    p->devices = devices;
    return 0;
}

/* Begins the next launch; its CTAs follow. */
static int placement_next(struct mt_placement *p)
{
    if (mt_grow(&p->launches, &p->launch_room, p->nlaunches + 1, sizeof *p->launches) != 0)
        return -1;
    p->launches[p->nlaunches++] = (struct mt_placement_launch){.first = p->nnodes, .end = p->nnodes};
    return 0;
}

/* Adds a CTA of the last launch, by ascending z-major number. Its node is p->nnodes before the call. */
static int placement_add(struct mt_placement *p, uint64_t order)
{
    if (p->nnodes == UINT32_MAX || mt_grow(&p->ctas, &p->node_room, p->nnodes + 1, sizeof *p->ctas) != 0)
        return -1;
    p->ctas[p->nnodes++] = order;
    p->launches[p->nlaunches - 1].end = p->nnodes;
    return 0;
}

/* Adds an edge, after all launches. */
static int placement_add_edge(struct mt_placement *p, uint32_t src, uint32_t dst, uint64_t bytes)
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
    /* offset[i + 2] first counts the neighbours of node i; then offset[i + 1] is where the next one goes. */
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

/* Runs the heuristic from three starts and keeps the best result, on ties the first. */
static int placement_mincut(struct mt_placement *p)
{
    uint16_t *best = p->device[MT_PLACE_MINCUT], *trial = malloc((p->nnodes + 1) * sizeof *trial);
    uint64_t least = UINT64_MAX;
    int rc = trial ? 0 : -1;
    for (int start = 0; start < 3 && rc == 0 && least > 0; start++) {
        if (start < 2)
            memcpy(trial, p->device[start ? MT_PLACE_ROBIN : MT_PLACE_BLOCK], p->nnodes * sizeof *trial);
        else
            rc = placement_greedy(p, trial);
        p->budget = BUDGET / 3;
        if (rc == 0)
            rc = placement_refine(p, trial);
        uint64_t bytes = placement_cut_it(p, trial);
        if (rc == 0 && bytes < least) {
            least = bytes;
            memcpy(best, trial, p->nnodes * sizeof *trial);
        }
    }
    free(trial);
    return rc;
}

/* Returns the launch of a node; *at is the start of the search, and the launch found. */
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

static int placement_solve(struct mt_placement *p)
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

/* Counts distinct bytes. `seen`: devices that read a set's bytes from another device, a bit each, `words`
 * words for each set. */
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

/* Counts distinct bytes, after placement_solve, from the readers of bytes (sets 1 .. n - 1), whose numbers
 * are indices into `node`. */
static int placement_count_distinct(struct mt_placement *p, const struct mt_read_set *sets, size_t n,
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

/* ---- placement of the CTAs of a run ---- */

static int placement_by_cta(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    uint64_t x = mt_cta_order(c->actors[*(const uint32_t *)a].cta),
             y = mt_cta_order(c->actors[*(const uint32_t *)b].cta);
    return x < y ? -1 : x > y;
}

/* Adds the CTAs of one launch; node[] by actor. `order` has room for all of them. */
static int placement_add_launch(struct mt_placement *p, const struct mt_comm *c,
                                const struct mt_comm_launch *l, uint32_t *node, uint32_t *order)
{
    size_t n = 0;
    int rc = placement_next(p);
    for (uint32_t i = l->first; i < l->end; i++)
        if (c->actors[i].instance == i)
            order[n++] = i;
    qsort_r(order, n, sizeof *order, placement_by_cta, (void *)c);
    for (size_t i = 0; i < n && rc == 0; i++) {
        node[order[i]] = (uint32_t)p->nnodes;
        rc = placement_add(p, mt_cta_order(c->actors[order[i]].cta));
    }
    return rc;
}

/* Returns the device of an actor's launch, or -1 if it is unknown or there is only one. */
static int64_t placement_ran(const struct mt_comm *c, uint32_t actor, const int64_t *ran, size_t nran)
{
    return c->actors[actor].launch < nran ? ran[c->actors[actor].launch] : -1;
}

/* Frees what only the heuristic needs. */
static void placement_forget(struct mt_placement *p)
{
    free(p->edges);
    free(p->offset);
    free(p->neighbours);
    p->edges = NULL;
    p->offset = NULL;
    p->neighbours = NULL;
    p->nedges = p->edge_room = 0;
}

int mt_placement_make(struct mt_placement *p, const struct mt_comm *c, unsigned devices, const int64_t *ran,
                      size_t nran)
{
    uint32_t *node = calloc(c->nactors + 1, sizeof *node), *order = malloc((c->nactors + 1) * sizeof *order);
    int rc = node && order && placement_begin(p, devices) == 0 ? 0 : -1;
    for (size_t i = 0; i < c->nlaunches && rc == 0; i++)
        rc = placement_add_launch(p, c, &c->launches[i], node, order);
    for (size_t i = 0; i < c->ntransfers && rc == 0; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        if ((t->src | t->dst) & MT_ENTRY_HOST)
            continue;
        rc = placement_add_edge(p, node[t->src], node[t->dst], t->size);
        if (placement_ran(c, t->src, ran, nran) != placement_ran(c, t->dst, ran, nran))
            p->ran += t->size;
    }
    p->ran_known = nran != 0;
    rc = rc ? rc : placement_solve(p);
    if (rc == 0 && c->options.readers && !c->readers.lost)
        rc = placement_count_distinct(p, c->readers.sets, c->readers.n, node);
    free(node);
    free(order);
    placement_forget(p);
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
    placement_forget(p);
    memset(p, 0, sizeof *p);
}
