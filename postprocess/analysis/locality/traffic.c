/* Traffic of each allocation by launch, and where in it. */
#include "traffic.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LEVELS = 60 }; /* then there is one cell per allocation */

static int traffic_init(void *self, const struct mt_run_options *o)
{
    struct mt_traffic *t = self;
    memset(t, 0, sizeof *t);
    t->heat.most = o->cells ? o->cells : MT_TRAFFIC_CELLS;
    t->launches.most = 4 * t->heat.most;
    t->heat.piece_every = 3;
    return mt_buffers_init(&t->buffers, o->allocs, o->nallocs);
}

static int traffic_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_traffic *t = self;
    t->launch = *launch;
    mt_buffers_launch(&t->buffers, launch->seq);
    return 0;
}

static void traffic_moves(void *self, const struct mt_run_launch *launch)
{
    struct mt_traffic *t = self;
    mt_buffers_move(&t->buffers, launch->seq);
}

/* ---- a grid ---- */

/* Returns a cell in units of the grid's steps, created if necessary; NULL without memory. */
static struct mt_traffic_cell *traffic_cell(struct mt_traffic_grid *g, uint64_t alloc, uint32_t superstep,
                                            uint32_t piece)
{
    size_t *memo = &g->memo[(alloc * 64 + piece + superstep * 7) % MT_TRAFFIC_MEMOS];
    struct mt_traffic_cell *known = *memo ? &g->cells[*memo - 1] : NULL;
    if (known && known->alloc == alloc && known->superstep == superstep && known->piece == piece)
        return known;
    uint64_t *i = mt_pairmap_get(&g->index, alloc, (uint64_t)superstep << 32 | piece, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&g->cells, &g->room, g->count + 1, sizeof *g->cells) != 0)
            return NULL;
        *i = g->count++;
        g->cells[*i] = (struct mt_traffic_cell){.alloc = alloc, .superstep = superstep, .piece = piece};
    }
    *memo = *i + 1;
    return &g->cells[*i];
}

static void traffic_sum(struct mt_traffic_cell *into, const struct mt_traffic_cell *from)
{
    into->load += from->load;
    into->store += from->store;
    for (int i = 0; i < 4; i++)
        into->accesses[i] += from->accesses[i];
}

/* Makes the grid coarser by one level. Returns 0, or -1 without memory. */
static int traffic_coarsen(struct mt_traffic_grid *g)
{
    const size_t n = g->count;
    const int pieces = g->piece_every && ++g->level % g->piece_every == 0;
    g->level += !g->piece_every;
    *(pieces ? &g->piece_bits : &g->step_bits) += 1;
    mt_pairmap_clear(&g->index);
    memset(g->memo, 0, sizeof g->memo);
    g->count = 0;
    for (size_t i = 0; i < n; i++) { /* a cell never moves to a higher index */
        const struct mt_traffic_cell c = g->cells[i];
        struct mt_traffic_cell *to = traffic_cell(g, c.alloc, c.superstep >> !pieces, c.piece >> pieces);
        if (!to)
            return -1;
        traffic_sum(to, &c);
    }
    return 0;
}

/* Adds a cell in steps of 1. Returns 0, or -1 without memory. */
static int traffic_add(struct mt_traffic_grid *g, const struct mt_traffic_cell *c)
{
    struct mt_traffic_cell *to =
        traffic_cell(g, c->alloc, c->superstep >> g->step_bits, c->piece >> g->piece_bits);
    if (!to)
        return -1;
    traffic_sum(to, c);
    while (g->count > g->most && g->level < MOST_LEVELS)
        if (traffic_coarsen(g) != 0)
            return -1;
    return 0;
}

/* ---- runs ---- */

static struct mt_traffic_cell traffic_count(const struct mt_traffic *t, const struct mt_access_run *r,
                                            uint64_t alloc, uint32_t n)
{
    const uint32_t type = mt_run_type(r) & 3;
    const uint64_t bytes = (uint64_t)mt_run_size(r) * n;
    struct mt_traffic_cell c = {.alloc = alloc, .superstep = (uint32_t)t->launch.superstep};
    c.accesses[type] = n;
    c.load = type == MT_LOAD || type == MT_ATOMIC ? bytes : 0;
    c.store = type == MT_STORE || type == MT_ATOMIC ? bytes : 0;
    return c;
}

/* Adds accesses [first, end), which begin in allocation `a`, by piece. */
static int traffic_heat(struct mt_traffic *t, const struct mt_access_run *r, uint32_t first, uint32_t end,
                        const struct mt_alloc_event *a)
{
    const unsigned bits = mt_traffic_piece_bits(a->bytes);
    for (uint32_t i = first, n; i < end; i += n) {
        const uint64_t piece = (mt_run_address(r, i) - a->base) >> bits, from = a->base + (piece << bits);
        n = mt_run_within(r, i, from,
                          from + ((1ull << bits) - 1) < from ? UINT64_MAX : from + ((1ull << bits) - 1));
        n = n < end - i ? n : end - i;
        struct mt_traffic_cell c = traffic_count(t, r, mt_buffers_place(&t->buffers, a), n);
        c.piece = (uint32_t)piece;
        if (traffic_add(&t->heat, &c) != 0)
            return -1;
    }
    return 0;
}

static int traffic_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_traffic *t = self;
    for (size_t k = 0; t->launch.selected && k < n; k++)
        for (uint32_t i = 0, in; i < runs[k].count; i += in) {
            const struct mt_buffer_stretch *s = mt_buffers_stretch(&t->buffers, mt_run_address(&runs[k], i));
            const struct mt_alloc_event *a = s->in;
            in = mt_run_within(&runs[k], i, s->first, s->last);
            struct mt_traffic_cell c =
                traffic_count(t, &runs[k], a ? mt_buffers_place(&t->buffers, a) : MT_TRAFFIC_NO_ALLOC, in);
            if (traffic_add(&t->launches, &c) != 0 || (a && traffic_heat(t, &runs[k], i, i + in, a) != 0))
                return -1;
        }
    return 0;
}

static int traffic_merge_grid(struct mt_traffic_grid *into, const struct mt_traffic_grid *from)
{
    while (into->level < from->level)
        if (traffic_coarsen(into) != 0)
            return -1;
    for (size_t i = 0; i < from->count; i++) {
        struct mt_traffic_cell c = from->cells[i];
        c.superstep <<= from->step_bits;
        c.piece <<= from->piece_bits;
        if (traffic_add(into, &c) != 0)
            return -1;
    }
    return 0;
}

static int traffic_merge(void *self, void *other)
{
    struct mt_traffic *into = self, *from = other;
    return traffic_merge_grid(&into->launches, &from->launches) == 0 &&
                   traffic_merge_grid(&into->heat, &from->heat) == 0
               ? 0
               : -1;
}

/* Orders cells; accesses outside allocations come first. */
MT_ORDER_FUNCTION(traffic_order, struct mt_traffic_cell,
                  MT_ORDER_DIFFER(x, y, alloc + 1) MT_ORDER_DIFFER(x, y, superstep)
                      MT_ORDER_DIFFER(x, y, piece))

static int traffic_finish(void *self)
{
    struct mt_traffic *t = self;
    if (t->launches.count)
        qsort(t->launches.cells, t->launches.count, sizeof *t->launches.cells, traffic_order);
    if (t->heat.count)
        qsort(t->heat.cells, t->heat.count, sizeof *t->heat.cells, traffic_order);
    return 0;
}

/* ---- packing ---- */

static void traffic_pack_grid(struct mt_parcel *p, const struct mt_traffic_grid *g)
{
    mt_parcel_u64(p, g->level);
    mt_parcel_u64(p, g->count);
    mt_parcel_bytes(p, g->cells, g->count * sizeof *g->cells);
}

static void traffic_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_traffic *t = self;
    traffic_pack_grid(p, &t->launches);
    traffic_pack_grid(p, &t->heat);
}

static void traffic_unpack_grid(struct mt_unpack *u, struct mt_traffic_grid *g)
{
    uint64_t level = mt_unpack_u64(u);
    u->failed |= level > MOST_LEVELS;
    while (!u->failed && g->level < level)
        u->failed |= traffic_coarsen(g) != 0;
    for (size_t n = mt_unpack_count(u, sizeof *g->cells); n > 0 && !u->failed; n--) {
        struct mt_traffic_cell c;
        mt_unpack_bytes(u, &c, sizeof c);
        struct mt_traffic_cell *to = traffic_cell(g, c.alloc, c.superstep, c.piece);
        if (to)
            traffic_sum(to, &c);
        u->failed |= !to;
    }
}

static void traffic_unpack(struct mt_unpack *u, void *self)
{
    struct mt_traffic *t = self;
    traffic_unpack_grid(u, &t->launches);
    traffic_unpack_grid(u, &t->heat);
}

static void traffic_free(void *self)
{
    struct mt_traffic *t = self;
    free(t->launches.cells);
    free(t->heat.cells);
    mt_pairmap_free(&t->launches.index);
    mt_pairmap_free(&t->heat.index);
    mt_buffers_free(&t->buffers);
    memset(t, 0, sizeof *t);
}

const struct mt_analysis mt_traffic_analysis = {
    .init = traffic_init,
    .launch = traffic_launch,
    .moves = traffic_moves,
    .runs = traffic_runs,
    .merge = traffic_merge,
    .finish = traffic_finish,
    .pack = traffic_pack,
    .unpack = traffic_unpack,
    .free = traffic_free,
};
