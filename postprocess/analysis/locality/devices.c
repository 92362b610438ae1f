/* Loads and stores of kernels of several devices in each other's memory. */
#include "devices.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int devices_init(void *self, const struct mt_run_options *o)
{
    struct mt_devices *x = self;
    memset(x, 0, sizeof *x);
    return mt_buffers_init(&x->buffers, o->allocs, o->nallocs);
}

static int devices_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_devices *x = self;
    x->launch = *launch;
    mt_buffers_launch(&x->buffers, launch->seq);
    return 0;
}

/* Returns the cell with the key of `like`, created if necessary; NULL without memory. */
static struct mt_devices_cell *devices_cell(struct mt_devices *x, const struct mt_devices_cell *like)
{
    uint64_t *i = mt_pairmap_get(&x->index, like->superstep, (uint64_t)(like->owner + 1), x->count);
    if (!i)
        return NULL;
    if (*i == x->count) {
        if (mt_grow(&x->cells, &x->room, x->count + 1, sizeof *x->cells) != 0)
            return NULL;
        x->cells[x->count++] = (struct mt_devices_cell){.superstep = like->superstep,
                                                        .kernel = like->kernel,
                                                        .device = like->device,
                                                        .owner = like->owner};
    }
    return &x->cells[*i];
}

static int64_t devices_owner(const struct mt_devices *x, const struct mt_alloc_event *a)
{
    if (a && a->device >= 0)
        return a->device;
    int shared = a && (!strcmp(a->kind, "host") || !strcmp(a->kind, "managed") || !strcmp(a->kind, "symbol"));
    return shared ? MT_DEVICES_HOST : x->launch.device; /* a variable of no device is managed memory */
}

/* Counts a run; consecutive accesses that begin in one allocation are counted together. */
static int devices_run(struct mt_devices *x, const struct mt_access_run *r)
{
    uint32_t type = mt_run_type(r) & 3;
    for (uint32_t i = 0, n; i < r->count; i += n) {
        const struct mt_buffer_stretch *s = mt_buffers_stretch(&x->buffers, mt_run_address(r, i));
        struct mt_devices_cell *c =
            devices_cell(x, &(struct mt_devices_cell){.superstep = x->launch.superstep,
                                                      .kernel = x->launch.kernel,
                                                      .device = x->launch.device,
                                                      .owner = devices_owner(x, s->in)});
        if (!c)
            return -1;
        n = mt_run_within(r, i, s->first, s->last);
        c->accesses[type] += n;
        c->bytes[type] += (uint64_t)mt_run_size(r) * n;
    }
    return 0;
}

static int devices_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_devices *x = self;
    if (!x->launch.selected || x->launch.device < 0 || x->launch.host)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (devices_run(x, &runs[i]) != 0)
            return -1;
    return 0;
}

static int devices_add(struct mt_devices *into, const struct mt_devices_cell *f)
{
    struct mt_devices_cell *c = devices_cell(into, f);
    for (int t = 0; c && t < 4; t++) {
        c->accesses[t] += f->accesses[t];
        c->bytes[t] += f->bytes[t];
    }
    return c ? 0 : -1;
}

static int devices_merge(void *self, void *other)
{
    const struct mt_devices *from = other;
    for (size_t i = 0; i < from->count; i++)
        if (devices_add(self, &from->cells[i]) != 0)
            return -1;
    return 0;
}

static void devices_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_devices *x = self;
    mt_parcel_u64(p, x->count);
    for (size_t i = 0; i < x->count; i++)
        mt_parcel_bytes(p, &x->cells[i], sizeof *x->cells);
}

static void devices_unpack(struct mt_unpack *u, void *self)
{
    struct mt_devices_cell f;
    for (size_t n = mt_unpack_count(u, sizeof f); n > 0 && !u->failed; n--) {
        mt_unpack_bytes(u, &f, sizeof f);
        f.kernel = mt_unpack_kernel_of(u, f.superstep);
        u->failed |= devices_add(self, &f) != 0;
    }
}

static void devices_free(void *self)
{
    struct mt_devices *x = self;
    free(x->cells);
    mt_pairmap_free(&x->index);
    mt_buffers_free(&x->buffers);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_devices_analysis = {
    .init = devices_init,
    .launch = devices_launch,
    .runs = devices_runs,
    .merge = devices_merge,
    .pack = devices_pack,
    .unpack = devices_unpack,
    .free = devices_free,
};
