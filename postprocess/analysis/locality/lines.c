/* Volumes by source line, by variable, and by the allocation in which an access begins. */
#include "lines.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int lines_init(void *self, const struct mt_run_options *o)
{
    struct mt_lines *l = self;
    memset(l, 0, sizeof *l);
    return mt_buffers_init(&l->buffers, o->allocs, o->nallocs);
}

static int lines_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_lines *l = self;
    l->launch = *launch;
    mt_buffers_launch(&l->buffers, launch->seq);
    return 0;
}

static void lines_moves(void *self, const struct mt_run_launch *launch)
{
    struct mt_lines *l = self;
    mt_buffers_move(&l->buffers, launch->seq);
}

static struct mt_lines_cell *lines_cell_of(struct mt_lines *l, enum mt_lines_by by, const char *kernel,
                                           uint64_t place)
{
    if (l->count[by]) {
        struct mt_lines_cell *last = &l->cells[by][l->last[by]];
        if (last->place == place && last->kernel == kernel)
            return last;
    }
    uint64_t *i = mt_pairmap_get(&l->index[by], (uint64_t)(uintptr_t)kernel, place, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&l->cells[by], &l->room[by], l->count[by] + 1, sizeof *l->cells[by]) != 0)
            return NULL;
        *i = l->count[by]++;
        l->cells[by][*i] = (struct mt_lines_cell){.kernel = kernel, .place = place};
    }
    l->last[by] = *i;
    return &l->cells[by][*i];
}

static int lines_count(struct mt_lines *l, enum mt_lines_by by, uint64_t place, uint32_t type,
                       uint64_t accesses, uint64_t bytes)
{
    struct mt_lines_cell *c = lines_cell_of(l, by, l->launch.kernel, place);
    if (!c)
        return -1;
    c->accesses[type] += accesses;
    c->load += type == MT_LOAD || type == MT_ATOMIC ? bytes : 0;
    c->store += type == MT_STORE || type == MT_ATOMIC ? bytes : 0;
    return 0;
}

/* Counts a run by allocation; consecutive accesses that begin in one allocation are counted together. */
static int by_alloc(struct mt_lines *l, const struct mt_access_run *r)
{
    uint32_t type = mt_run_type(r) & 3, size = mt_run_size(r);
    for (uint32_t i = 0, n; i < r->count; i += n) {
        const struct mt_buffer_stretch *s = mt_buffers_stretch(&l->buffers, mt_run_address(r, i));
        const uint64_t alloc = s->in ? mt_buffers_place(&l->buffers, s->in) : MT_LINES_NO_ALLOC;
        n = mt_run_within(r, i, s->first, s->last);
        if (lines_count(l, MT_BY_ALLOC, alloc, type, n, (uint64_t)size * n) != 0)
            return -1;
    }
    return 0;
}

static int lines_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_lines *l = self;
    if (!l->launch.selected)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        uint64_t bytes = (uint64_t)mt_run_size(r) * r->count;
        uint32_t type = mt_run_type(r) & 3;
        if (lines_count(l, MT_BY_LINE, mt_site_line(l->launch.sites, r->site), type, r->count, bytes) != 0 ||
            lines_count(l, MT_BY_VAR, mt_site_var(l->launch.sites, r->site), type, r->count, bytes) != 0 ||
            by_alloc(l, r) != 0)
            return -1;
    }
    return 0;
}

int mt_lines_tally(struct mt_lines *l, const char *kernel, uint32_t line, uint32_t var,
                   const struct mt_tally_event *t)
{
    uint32_t type = mt_tally_type(t);
    l->launch.kernel = kernel;
    return lines_count(l, MT_BY_LINE, line, type, t->accesses, t->bytes) != 0 ||
                   lines_count(l, MT_BY_VAR, var, type, t->accesses, t->bytes) != 0
               ? -1
               : 0;
}

static int lines_merge(void *self, void *other)
{
    struct mt_lines *into = self, *from = other;
    for (int by = 0; by < MT_LINES_BY; by++)
        for (size_t i = 0; i < from->count[by]; i++) {
            const struct mt_lines_cell *f = &from->cells[by][i];
            struct mt_lines_cell *c = lines_cell_of(into, by, f->kernel, f->place);
            if (!c)
                return -1;
            for (int t = 0; t < 4; t++)
                c->accesses[t] += f->accesses[t];
            c->load += f->load;
            c->store += f->store;
        }
    return 0;
}

static void lines_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_lines *l = self;
    for (int by = 0; by < MT_LINES_BY; by++) {
        mt_parcel_u64(p, l->count[by]);
        for (size_t i = 0; i < l->count[by]; i++) {
            mt_parcel_kernel(p, l->cells[by][i].kernel);
            mt_parcel_bytes(p, &l->cells[by][i], sizeof **l->cells);
        }
    }
}

static void lines_unpack(struct mt_unpack *u, void *self)
{
    struct mt_lines *l = self;
    for (int by = 0; by < MT_LINES_BY; by++)
        for (size_t n = mt_unpack_count(u, sizeof **l->cells); n > 0 && !u->failed; n--) {
            struct mt_lines_cell f;
            const char *kernel = mt_unpack_kernel(u);
            mt_unpack_bytes(u, &f, sizeof f);
            f.kernel = kernel;
            struct mt_lines_cell *c = lines_cell_of(l, by, kernel, f.place);
            if (c)
                *c = f;
            u->failed |= !c;
        }
}

static void lines_free(void *self)
{
    struct mt_lines *l = self;
    for (int by = 0; by < MT_LINES_BY; by++) {
        free(l->cells[by]);
        mt_pairmap_free(&l->index[by]);
    }
    mt_buffers_free(&l->buffers);
    memset(l, 0, sizeof *l);
}

const struct mt_analysis mt_lines_analysis = {
    .init = lines_init,
    .launch = lines_launch,
    .moves = lines_moves,
    .runs = lines_runs,
    .merge = lines_merge,
    .pack = lines_pack,
    .unpack = lines_unpack,
    .free = lines_free,
};
