/* Coalescing of a warp's accesses: sectors and lines per request, and strides of lanes. */
#include "coalescing.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>

enum { WARP = 32 };

struct range {
    uint64_t first, last; /* first and last byte of the range */
};

static int coalescing_init(void *self, const struct mt_run_options *o)
{
    struct mt_coalescing *c = self;
    memset(c, 0, sizeof *c);
    return 0;
}

static int coalescing_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_coalescing *c = self;
    c->launch = *launch;
    return 0;
}

MT_ORDER_1(by_first, struct range, first)

/* Sorts ranges. If they are not too far apart, each one's position is the number of ranges before it: no
 * branch depends on the data, and four are compared at once. */
static void ranges_sort(struct range *ranges, size_t n)
{
    int32_t at[2 * WARP], rank[2 * WARP] = {0};
    struct range in[2 * WARP];
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        least = ranges[i].first < least ? ranges[i].first : least;
        most = ranges[i].first > most ? ranges[i].first : most;
    }
    if (most - least > INT32_MAX) {
        qsort(ranges, n, sizeof *ranges, by_first);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        at[i] = (int32_t)(ranges[i].first - least);
        in[i] = ranges[i];
    }
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < j; i++)
            rank[i] += at[j] < at[i];
        for (size_t i = j + 1; i < n; i++)
            rank[i] += at[j] <= at[i];
    }
    for (size_t i = 0; i < n; i++)
        ranges[rank[i]] = in[i];
}

/* Lists the bytes of the lanes, ascending, adjacent lanes as one range; an access that wraps around the
 * address space is two ranges. */
static size_t ranges_of(const struct mt_access_run *r, struct range *out)
{
    const uint64_t size = mt_run_size(r);
    struct mt_piece piece;
    size_t n = 0;
    int sorted = 1;
    for (uint32_t at = 0, from = 0; at < WARP && mt_run_piece(r, &at, &piece); from = at) {
        uint64_t a = piece.address, last = a + size * ((at < WARP ? at : WARP) - from) - 1;
        if (last < a) {
            out[n++] = (struct range){0, last};
            out[n++] = (struct range){a, UINT64_MAX};
            sorted = 0;
            continue;
        }
        sorted &= n == 0 || out[n - 1].first <= a;
        out[n++] = (struct range){a, last};
    }
    if (!sorted)
        ranges_sort(out, n);
    return n;
}

/* Counts the units of 1 << bits bytes that the ranges touch. */
static uint64_t coalescing_units(const struct range *ranges, size_t n, unsigned bits)
{
    uint64_t count = 0, next = 0; /* next: first unit not counted yet */
    int ended = 0;
    for (size_t i = 0; i < n && !ended; i++) {
        uint64_t first = ranges[i].first >> bits, last = ranges[i].last >> bits;
        if (first < next)
            first = next;
        if (last < first)
            continue;
        count += last - first + 1;
        next = last + 1;
        ended = next == 0;
    }
    return count;
}

static struct mt_coalescing_cell *coalescing_cell_of(struct mt_coalescing_set *s, const char *kernel,
                                                     uint32_t line, uint32_t place, uint32_t type)
{
    size_t *memo = &s->cell_memo[((line ^ place * 5) << 2 ^ type) % MT_COALESCING_MEMOS];
    struct mt_coalescing_cell *known = *memo ? &s->cells[*memo - 1] : NULL;
    if (known && known->kernel == kernel && known->line == line && known->place == place &&
        known->type == type)
        return known;
    uint64_t *i = mt_pairmap_get(&s->index, (uint64_t)(uintptr_t)kernel,
                                 (uint64_t)place << 36 | (uint64_t)line << 4 | type, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&s->cells, &s->room, s->count + 1, sizeof *s->cells) != 0)
            return NULL;
        *i = s->count++;
        s->cells[*i] =
            (struct mt_coalescing_cell){.kernel = kernel, .line = line, .place = place, .type = type};
    }
    *memo = *i + 1;
    return &s->cells[*i];
}

static int add_stride(struct mt_coalescing_set *s, size_t cell, int64_t stride, uint64_t requests)
{
    size_t *memo = &s->stride_memo[(cell * 5 ^ (uint64_t)stride) % MT_COALESCING_MEMOS];
    struct mt_coalescing_stride *known = *memo ? &s->strides[*memo - 1] : NULL;
    if (known && known->cell == cell && known->stride == stride) {
        known->requests += requests;
        return 0;
    }
    uint64_t *i = mt_pairmap_get(&s->stride_index, cell, (uint64_t)stride, UINT64_MAX);
    if (!i)
        return -1;
    if (*i == UINT64_MAX) {
        if (mt_grow(&s->strides, &s->stride_room, s->nstrides + 1, sizeof *s->strides) != 0)
            return -1;
        *i = s->nstrides++;
        s->strides[*i] = (struct mt_coalescing_stride){.cell = cell, .stride = stride};
    }
    *memo = *i + 1;
    s->strides[*i].requests += requests;
    return 0;
}

/* Adds all of `from`; with `by_line` it joins cells that differ only in place. Returns 0, or -1 without
 * memory. */
static int coalescing_add(struct mt_coalescing_set *into, const struct mt_coalescing_set *from, int by_line)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct mt_coalescing_cell *f = &from->cells[i];
        struct mt_coalescing_cell *c =
            coalescing_cell_of(into, f->kernel, f->line, by_line ? 0 : f->place, f->type);
        if (!c)
            return -1;
        c->requests += f->requests;
        c->accesses += f->accesses;
        c->bytes += f->bytes;
        c->distinct += f->distinct;
        c->sectors += f->sectors;
        c->lines += f->lines;
        c->single += f->single;
        c->irregular += f->irregular;
    }
    for (size_t i = 0; i < from->nstrides; i++) {
        const struct mt_coalescing_stride *s = &from->strides[i];
        const struct mt_coalescing_cell *f = &from->cells[s->cell];
        struct mt_coalescing_cell *c =
            coalescing_cell_of(into, f->kernel, f->line, by_line ? 0 : f->place, f->type);
        if (!c || add_stride(into, (size_t)(c - into->cells), s->stride, s->requests) != 0)
            return -1;
    }
    return 0;
}

static void coalescing_forget(struct mt_coalescing_set *s)
{
    mt_pairmap_free(&s->index);
    mt_pairmap_free(&s->stride_index);
}

/* Returns 1 with the stride if the lanes are evenly spaced, in any form of the run. */
static int coalescing_regular(const struct mt_access_run *r, int64_t *stride)
{
    *stride = (int64_t)(mt_run_address(r, 1) - mt_run_address(r, 0));
    for (uint32_t i = 2; r->addresses && i < r->count; i++)
        if ((int64_t)(r->addresses[i] - r->addresses[i - 1]) != *stride)
            return 0;
    return 1;
}

static struct mt_coalescing_shape coalescing_shape(const struct mt_access_run *r)
{
    struct range ranges[2 * WARP];
    size_t n = ranges_of(r, ranges);
    return (struct mt_coalescing_shape){.stride = r->stride,
                                        .size = mt_run_size(r),
                                        .count = r->count,
                                        .in_line = (uint32_t)r->base & ((1u << MT_LINE_BITS) - 1),
                                        .distinct = coalescing_units(ranges, n, 0),
                                        .sectors = (uint32_t)coalescing_units(ranges, n, MT_SECTOR_BITS),
                                        .lines = (uint32_t)coalescing_units(ranges, n, MT_LINE_BITS)};
}

/* Returns 1 if the run does not come near the ends of the address space. */
static int coalescing_within(const struct mt_access_run *r)
{
    const int64_t far = 1ll << 40;
    return r->stride > -far && r->stride < far && r->base > 1ull << 45 && r->base < 1ull << 62;
}

/* Returns the shape of a request, usually from the cache, else in `own`. */
static const struct mt_coalescing_shape *
coalescing_known(struct mt_coalescing *c, const struct mt_access_run *r, struct mt_coalescing_shape *own)
{
    const uint32_t in_line = (uint32_t)r->base & ((1u << MT_LINE_BITS) - 1), size = mt_run_size(r);
    if (r->addresses || !coalescing_within(r)) {
        *own = coalescing_shape(r);
        return own;
    }
    const uint64_t h = mt_hash_number((uint64_t)r->stride << 16 ^ in_line << 9 ^ size << 5 ^ r->count);
    struct mt_coalescing_shape *s = &c->shapes[h >> 56];
    if (s->count != r->count || s->stride != r->stride || s->in_line != in_line || s->size != size)
        *s = coalescing_shape(r);
    return s;
}

static int coalescing_request(struct mt_coalescing *c, const struct mt_access_run *r)
{
    struct mt_coalescing_shape own;
    const struct mt_coalescing_shape *s = coalescing_known(c, r, &own);
    struct mt_coalescing_cell *cell =
        coalescing_cell_of(&c->sites, c->launch.kernel, mt_site_line(c->launch.sites, r->site),
                           mt_site_location_of(c->launch.sites, r->site), mt_run_type(r));
    if (!cell)
        return -1;
    cell->requests++;
    cell->accesses += r->count;
    cell->bytes += (uint64_t)mt_run_size(r) * r->count;
    cell->distinct += s->distinct;
    cell->sectors += s->sectors;
    cell->lines += s->lines;
    int64_t stride;
    if (r->count == 1)
        cell->single++;
    else if (!coalescing_regular(r, &stride))
        cell->irregular++;
    else
        return add_stride(&c->sites, (size_t)(cell - c->sites.cells), stride, 1);
    return 0;
}

static int coalescing_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_coalescing *c = self;
    if (!c->launch.selected)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        int ungrouped = c->launch.single;
        if (r->mask == MT_RUN_NO_MASK || ungrouped) {
            c->unmasked += r->count;
            c->ungrouped += ungrouped ? r->count : 0;
            continue;
        }
        c->masked += r->count;
        if (coalescing_request(c, r) != 0)
            return -1;
    }
    return 0;
}

/* Adds the strides of a total: "4 1000" for each, one a line. */
static int tally_strides(struct mt_coalescing_set *s, size_t cell, const char *text)
{
    while (*text) {
        char *end;
        int64_t stride = strtoll(text, &end, 10);
        uint64_t requests = strtoull(end, &end, 10);
        if (requests && add_stride(s, cell, stride, requests) != 0)
            return -1;
        end = strchr(text, '\n');
        text = end ? end + 1 : "";
    }
    return 0;
}

int mt_coalescing_tally(struct mt_coalescing *c, const char *kernel, uint32_t line, uint32_t place,
                        const struct mt_tally_event *t)
{
    struct mt_coalescing_cell *cell = coalescing_cell_of(&c->sites, kernel, line, place, mt_tally_type(t));
    if (!cell)
        return -1;
    c->masked += t->accesses;
    cell->requests += t->requests;
    cell->accesses += t->accesses;
    cell->bytes += t->bytes;
    cell->distinct += t->distinct;
    cell->sectors += t->sectors;
    cell->lines += t->lines;
    cell->single += t->single;
    cell->irregular += t->irregular + t->other;
    return tally_strides(&c->sites, (size_t)(cell - c->sites.cells), t->strides);
}

static int coalescing_merge(void *self, void *other)
{
    struct mt_coalescing *into = self, *from = other;
    into->masked += from->masked;
    into->unmasked += from->unmasked;
    into->ungrouped += from->ungrouped;
    return coalescing_add(&into->sites, &from->sites, 0);
}

static int coalescing_finish(void *self)
{
    struct mt_coalescing *c = self;
    struct mt_coalescing_set lines = {0};
    int rc = coalescing_add(&lines, &c->sites, 1);
    coalescing_forget(&lines);
    c->cells = lines.cells;
    c->count = lines.count;
    c->strides = lines.strides;
    c->nstrides = lines.nstrides;
    return rc;
}

static void coalescing_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_coalescing *c = self;
    mt_parcel_u64(p, c->masked);
    mt_parcel_u64(p, c->unmasked);
    mt_parcel_u64(p, c->ungrouped);
    mt_parcel_u64(p, c->sites.count);
    for (size_t i = 0; i < c->sites.count; i++) {
        mt_parcel_kernel(p, c->sites.cells[i].kernel);
        mt_parcel_bytes(p, &c->sites.cells[i], sizeof *c->sites.cells);
    }
    mt_parcel_u64(p, c->sites.nstrides);
    mt_parcel_bytes(p, c->sites.strides, c->sites.nstrides * sizeof *c->sites.strides);
}

static void coalescing_unpack(struct mt_unpack *u, void *self)
{
    struct mt_coalescing *c = self;
    c->masked = mt_unpack_u64(u);
    c->unmasked = mt_unpack_u64(u);
    c->ungrouped = mt_unpack_u64(u);
    for (size_t n = mt_unpack_count(u, sizeof *c->sites.cells); n > 0 && !u->failed; n--) {
        struct mt_coalescing_cell f;
        const char *kernel = mt_unpack_kernel(u);
        mt_unpack_bytes(u, &f, sizeof f);
        f.kernel = kernel;
        struct mt_coalescing_cell *to = coalescing_cell_of(&c->sites, kernel, f.line, f.place, f.type);
        if (to) /* the destination's cells keep their numbers */
            *to = f;
        u->failed |= !to;
    }
    for (size_t n = mt_unpack_count(u, sizeof *c->sites.strides); n > 0 && !u->failed; n--) {
        struct mt_coalescing_stride s;
        mt_unpack_bytes(u, &s, sizeof s);
        u->failed |= s.cell >= c->sites.count || add_stride(&c->sites, s.cell, s.stride, s.requests) != 0;
    }
}

static void coalescing_free(void *self)
{
    struct mt_coalescing *c = self;
    free(c->cells);
    free(c->strides);
    free(c->sites.cells);
    free(c->sites.strides);
    coalescing_forget(&c->sites);
    memset(c, 0, sizeof *c);
}

const struct mt_analysis mt_coalescing_analysis = {
    .init = coalescing_init,
    .launch = coalescing_launch,
    .runs = coalescing_runs,
    .merge = coalescing_merge,
    .finish = coalescing_finish,
    .pack = coalescing_pack,
    .unpack = coalescing_unpack,
    .free = coalescing_free,
};
