/* Bytes that go from device to device: what the analysis `devices` has of kernels, and the companions'
 * copies. */
#include "flows.h"
#include "memtrace/grow.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const mt_device_flow_names[MT_FLOWS] = {"load",    "store", "atomic",
                                                    "unknown", "copy",  "collective"};

struct flows {
    struct mt_device_flow *list;
    size_t n, room;
    int failed;
};

static void flows_add(struct flows *f, const struct mt_device_flow *one)
{
    if (!one->bytes || f->failed)
        return;
    f->failed = mt_grow(&f->list, &f->room, f->n + 1, sizeof *f->list) != 0;
    if (!f->failed)
        f->list[f->n++] = *one;
}

static void flows_kernels(struct flows *f, const struct mt_devices *x, int joined)
{
    for (size_t i = 0; i < x->count; i++)
        for (int t = 0; t < MT_FLOW_COPY; t++) {
            const struct mt_devices_cell *c = &x->cells[i];
            int in = t == MT_FLOW_LOAD || t == MT_FLOW_UNKNOWN;
            flows_add(f, &(struct mt_device_flow){.superstep = joined ? 0 : c->superstep,
                                                  .kernel = c->kernel,
                                                  .how = (enum mt_device_flow_how)t,
                                                  .from = in ? c->owner : c->device,
                                                  .to = in ? c->device : c->owner,
                                                  .accesses = c->accesses[t],
                                                  .bytes = c->bytes[t]});
        }
}

static int flows_by_seq(const void *a, const void *b)
{
    const struct mt_copy_event *x = *(const struct mt_copy_event *const *)a,
                               *y = *(const struct mt_copy_event *const *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The copies of all companions, which repeat each other's, by seq; NULL without memory. */
static const struct mt_copy_event **flows_list(const struct mt_comm_result *r, size_t *n)
{
    size_t room = 1;
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        room += c ? c->ncopies : 0;
    }
    const struct mt_copy_event **list = calloc(room, sizeof *list);
    for (size_t i = *n = 0; list && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && k < c->ncopies; k++)
            list[(*n)++] = &c->copies[k];
    }
    if (list)
        qsort(list, *n, sizeof *list, flows_by_seq);
    return list;
}

static void flows_copies(struct flows *f, const struct mt_comm_result *r)
{
    size_t n = 0;
    const struct mt_copy_event **list = flows_list(r, &n);
    f->failed |= !list;
    for (size_t i = 0; list && i < n; i++) {
        const struct mt_copy_event *c = list[i];
        if ((i && list[i - 1]->seq == c->seq) || c->kind == MT_COPY_SET || c->kind == MT_COPY_H2H)
            continue;
        flows_add(f, &(struct mt_device_flow){.superstep = MT_FLOW_NO_LAUNCH,
                                              .how = MT_FLOW_COPY,
                                              .from = c->src_device,
                                              .to = c->dst_device,
                                              .accesses = 1,
                                              .bytes = c->width * c->height});
    }
    free(list);
}

/* What a rank takes from the others. */
static void flows_collective(struct flows *f, const struct mt_collective_launch *l,
                             enum mt_collective_way way, const struct mt_collective_places *places,
                             int joined)
{
    const struct mt_collective *c = &l->event->collective;
    int64_t from, to;
    if (mt_collective_place(places, c->comm, c->rank, &to) != 0)
        return;
    for (uint64_t r = 0; r < c->ranks && !f->failed; r++) {
        uint64_t bytes = mt_collective_bytes(c, way, r);
        if (bytes && mt_collective_place(places, c->comm, r, &from) == 0)
            flows_add(f, &(struct mt_device_flow){.superstep = joined ? 0 : l->superstep,
                                                  .kernel = l->kernel,
                                                  .how = MT_FLOW_COLLECTIVE,
                                                  .from = from,
                                                  .to = to,
                                                  .accesses = 1,
                                                  .bytes = bytes});
    }
}

static void flows_collectives(struct flows *f, const struct mt_comm_result *r, int joined)
{
    struct mt_collective_places places = {.n = 0};
    for (size_t i = 0; r->ncollectives && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        f->failed |= c && mt_collective_places_add(&places, c) != 0;
    }
    mt_collective_places_order(&places);
    for (size_t i = 0; i < r->ncollectives; i++)
        flows_collective(f, &r->collectives[i], r->way, &places, joined);
    mt_collective_places_free(&places);
}

static int flows_compare(const void *a, const void *b)
{
    const struct mt_device_flow *x = a, *y = b;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    if (x->how != y->how)
        return (int)x->how - (int)y->how;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Those that are alike become one; *several: there is a device beside the first. */
static size_t flows_join(struct mt_device_flow *list, size_t n, int *several)
{
    size_t kept = 0;
    if (n)
        qsort(list, n, sizeof *list, flows_compare);
    for (size_t i = 0; i < n; i++) {
        *several |= list[i].from > 0 || list[i].to > 0;
        if (!kept || flows_compare(&list[kept - 1], &list[i]) != 0) {
            list[kept++] = list[i];
            continue;
        }
        list[kept - 1].accesses += list[i].accesses;
        list[kept - 1].bytes += list[i].bytes;
    }
    return kept;
}

struct mt_device_flow *mt_device_flows(const struct mt_comm_result *r, int joined, size_t *n)
{
    struct flows f = {.failed = 0};
    int several = 0;
    f.failed = mt_grow(&f.list, &f.room, 1, sizeof *f.list) != 0;
    flows_kernels(&f, &r->locality->devices, joined);
    flows_copies(&f, r);
    flows_collectives(&f, r, joined);
    *n = flows_join(f.list, f.n, &several);
    if (!several)
        *n = 0;
    if (f.failed) {
        free(f.list);
        return NULL;
    }
    return f.list;
}

struct mt_device_flow_place mt_device_flow_place(int64_t device)
{
    struct mt_device_flow_place p = {"host"};
    if (device >= 0)
        snprintf(p.text, sizeof p.text, "%" PRId64, device);
    return p;
}
