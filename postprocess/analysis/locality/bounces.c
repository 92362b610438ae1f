/* Cache lines that move between threads: a state for each stored line, a row for each pair of source
 * lines. */
#include "bounces.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int bounces_init(void *self, const struct mt_run_options *o)
{
    struct mt_bounces *x = self;
    memset(x, 0, sizeof *x);
    x->options = *o;
    return mt_buffers_init(&x->buffers, o->allocs, o->nallocs);
}

static int bounces_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_bounces *x = self;
    x->launch = *launch;
    x->known |= launch->host > 1;
    x->nlines = 0;
    mt_pairmap_clear(&x->at);
    mt_pairmap_clear(&x->pairs);
    mt_buffers_launch(&x->buffers, launch->seq);
    return 0;
}

static void bounces_moves(void *self, const struct mt_run_launch *launch)
{
    struct mt_bounces *x = self;
    mt_buffers_move(&x->buffers, launch->seq);
}

/* Returns the row of a move, created if necessary; NULL without memory. */
static struct mt_bounce *bounces_row(struct mt_bounces *x, const struct mt_bounce *like)
{
    uint64_t *i = mt_pairmap_get(&x->pairs, (uint64_t)like->line[0] << 32 | like->line[1],
                                 like->alloc << 2 | like->type, x->count);
    if (!i)
        return NULL;
    if (*i == x->count) {
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return NULL;
        x->list[x->count++] = *like;
    }
    return &x->list[*i];
}

static int bounces_over(struct mt_bounces *x, const struct mt_bounce_line *l, const struct mt_access_run *r,
                        uint64_t address, uint64_t bytes)
{
    const struct mt_alloc_event *a = mt_buffers_find(&x->buffers, address);
    struct mt_bounce like = {.superstep = x->launch.superstep,
                             .kernel = x->launch.kernel,
                             .alloc = a ? mt_buffers_place(&x->buffers, a) : MT_BOUNCES_NO_ALLOC,
                             .line = {l->site, mt_site_line(x->launch.sites, r->site)},
                             .type = mt_run_type(r),
                             .thread = {l->thread, r->cta},
                             .address = address};
    struct mt_bounce *row = bounces_row(x, &like);
    if (!row)
        return -1;
    row->times++;
    row->same += (l->bytes & bytes) != 0;
    return 0;
}

/* Returns bits for the bytes [from, to] of a line, both included. */
static uint64_t bounces_bytes(const struct mt_bounces *x, uint64_t from, uint64_t to)
{
    const unsigned shift = x->options.line_bits > 6 ? x->options.line_bits - 6 : 0;
    return (UINT64_MAX << (from >> shift)) & (UINT64_MAX >> (63 - (to >> shift)));
}

/* Adds an access, or its part in one line. */
static int bounces_touch(struct mt_bounces *x, const struct mt_access_run *r, uint64_t address, uint64_t size)
{
    const uint64_t in = address & ((1ull << x->options.line_bits) - 1),
                   bytes = bounces_bytes(x, in, in + size - 1);
    const int stores = mt_run_type(r) != MT_LOAD;
    uint64_t *at = mt_pairmap_get(&x->at, address >> x->options.line_bits, 0, x->nlines);
    if (!at)
        return -1;
    if (*at == x->nlines) {
        if (mt_grow(&x->lines, &x->line_room, x->nlines + 1, sizeof *x->lines) != 0)
            return -1;
        x->lines[x->nlines++] = (struct mt_bounce_line){.thread = r->cta};
    }
    struct mt_bounce_line *l = &x->lines[*at];
    if (l->thread != r->cta) {
        if (l->dirty && bounces_over(x, l, r, address, bytes) != 0)
            return -1;
        l->dirty = 0;
        if (stores)
            l->bytes = 0;
    }
    if (stores) {
        l->thread = r->cta;
        l->bytes |= bytes;
        l->site = mt_site_line(x->launch.sites, r->site);
        l->dirty = 1;
    }
    return 0;
}

static int bounces_run(struct mt_bounces *x, const struct mt_access_run *r)
{
    const uint64_t line = 1ull << x->options.line_bits, size = mt_run_size(r);
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t address = mt_run_address(r, i), left = size, n;
        for (; left > 0; left -= n, address += n) {
            n = line - (address & (line - 1));
            n = n < left ? n : left;
            if (bounces_touch(x, r, address, n) != 0)
                return -1;
        }
    }
    return 0;
}

static int bounces_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_bounces *x = self;
    if (!x->launch.selected || x->launch.host < 2)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (mt_run_type(&runs[i]) <= MT_ATOMIC && bounces_run(x, &runs[i]) != 0)
            return -1;
    return 0;
}

static void bounces_free(void *self)
{
    struct mt_bounces *x = self;
    free(x->list);
    free(x->lines);
    mt_pairmap_free(&x->at);
    mt_pairmap_free(&x->pairs);
    mt_buffers_free(&x->buffers);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_bounces_analysis = {
    .init = bounces_init,
    .launch = bounces_launch,
    .moves = bounces_moves,
    .runs = bounces_runs,
    .free = bounces_free,
};
