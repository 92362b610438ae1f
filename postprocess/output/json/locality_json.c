/* Sorts what the further analyses hold into the order of the output, and writes it:
 * lines, coalescing, conflicts. */
#define _GNU_SOURCE
#include "locality_json.h"
#include "locality_parts.h"
#include "output/rows/flows.h"

#include "memtrace/order.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

int mt_lines_json(struct mt_json *j, const struct mt_comm_result *r)
{
    static const char *const keys[] = {"lines", "variables", "allocations"};
    static const enum mt_relation_number tables[] = {MT_REL_lines, MT_REL_variables, MT_REL_buffers};
    int rc = 0;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_LINES], 0);
    for (int by = 0; by < MT_LINES_BY && rc == 0; by++) {
        if (!mt_locality_has_sites(r->locality, (enum mt_lines_by)by)) {
            mt_json_text(j, keys[by], NULL);
            continue;
        }
        mt_json_object(j, keys[by], 0);
        rc = mt_relation_json(j, tables[by], r, NULL, NULL);
        mt_json_end(j);
    }
    mt_json_end(j);
    return rc;
}

/* ---- coalescing ---- */

struct strides {
    size_t *order;
    struct mt_coalescing_stride *list;
};

/* Of the row's requests, by the distance of their lanes. */
static void coalescing_strides(struct mt_json *j, const void *arg, const struct mt_comm_result *r, size_t row)
{
    const struct strides *s = arg;
    size_t n = r->locality->coalescing.nstrides, cell = s->order[row];
    char key[64];
    mt_json_object(j, "strides", 1);
    for (size_t i = mt_coalescing_first_stride(s->list, n, cell); i < n && s->list[i].cell == cell; i++) {
        snprintf(key, sizeof key, "%" PRId64, s->list[i].stride);
        mt_json_u64(j, key, s->list[i].requests);
    }
    mt_json_end(j);
}

int mt_coalescing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_coalescing *c = &r->locality->coalescing;
    if (!mt_locality_has_masks(r->locality)) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_COALESCING], NULL);
        return 0;
    }
    struct strides s = {mt_coalescing_order(c, r->sites), mt_coalescing_strides(c)};
    int rc = s.order && s.list ? 0 : -1;
    if (rc == 0) {
        mt_json_object(j, mt_locality_names[MT_LOCALITY_COALESCING], 0);
        mt_json_u64(j, "unmasked", c->unmasked);
        mt_json_object(j, "kernels", 0);
        rc = mt_relation_json(j, MT_REL_coalescing, r, coalescing_strides, &s);
        mt_json_end(j);
        mt_json_array(j, "sites", 0);
        rc = rc ? rc : mt_relation_json(j, MT_REL_coalescing_sites, r, NULL, NULL);
        mt_json_end(j);
        mt_json_end(j);
    }
    free(s.order);
    free(s.list);
    return rc;
}

/* ---- misses ---- */

int mt_misses_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_misses *x = &r->locality->misses;
    if (!x->known)
        return 0; /* of traces of kernels there is no such member */
    mt_json_object(j, mt_locality_names[MT_LOCALITY_MISSES], 0);
    mt_json_u64(j, "bytes", x->options.cache_bytes);
    mt_json_u64(j, "ways", x->options.cache_ways);
    mt_json_u64(j, "line_size", 1ull << x->options.line_bits);
    mt_json_array(j, "lines", 0);
    int rc = mt_relation_json(j, MT_REL_misses, r, NULL, NULL);
    mt_json_end(j);
    mt_json_end(j);
    return rc;
}

/* ---- devices ---- */

int mt_devices_json(struct mt_json *j, const struct mt_comm_result *r)
{
    size_t n;
    struct mt_device_flow *list = mt_device_flows(r, 1, &n);
    free(list);
    if (!list || !n)
        return list ? 0 : -1; /* where there is one device there is no such member */
    mt_json_array(j, mt_locality_names[MT_LOCALITY_DEVICES], 0);
    int rc = mt_relation_json(j, MT_REL_devices, r, NULL, NULL);
    mt_json_end(j);
    if (rc != 0 || !r->topology)
        return rc;
    mt_json_array(j, mt_relations[MT_REL_links].name, 0);
    rc = mt_relation_json(j, MT_REL_links, r, NULL, NULL);
    mt_json_end(j);
    return rc;
}

/* ---- bounces ---- */

int mt_bounces_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!r->locality->bounces.known)
        return 0; /* of traces without threads in order there is no such member */
    mt_json_array(j, mt_locality_names[MT_LOCALITY_BOUNCES], 0);
    int rc = mt_relation_json(j, MT_REL_bounces, r, NULL, NULL);
    mt_json_end(j);
    return rc;
}

/* ---- conflicts ---- */

static void write_conflict(struct mt_json *j, const struct mt_conflict *c, const struct mt_locality *m,
                           const struct mt_sites *sites, struct mt_buffers *buffers)
{
    char label[MT_ALLOC_LABEL];
    mt_buffers_launch(buffers, c->seq);
    const struct mt_alloc_event *a = mt_buffers_find(buffers, c->address);
    mt_json_object(j, NULL, 1);
    for (int i = 0; i < 2; i++) {
        uint32_t line = mt_side_line(c->side[i]);
        mt_json_object(j, i ? "b" : "a", 1);
        mt_json_text(j, "type", mt_access_types[mt_side_type(c->side[i])]);
        mt_json_text(j, "line", line ? sites->lines.names[line] : NULL);
        mt_json_end(j);
    }
    mt_json_u64(j, "bytes", c->bytes);
    mt_json_hex(j, "address", c->address);
    mt_json_text(j, "allocation", a ? mt_alloc_label(label, m, mt_buffers_place(buffers, a)) : NULL);
    if (c->cooperative)
        mt_json_bool(j, "cooperative", 1);
    mt_json_array(j, "ctas", 1);
    for (int i = 0; i < 2; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, c->cta[i] >> 32);
        mt_json_u64(j, NULL, c->cta[i] >> 16 & 0xffff);
        mt_json_u64(j, NULL, c->cta[i] & 0xffff);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

int mt_conflicts_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    size_t n = m->conflicts.count;
    struct mt_conflict *list = mt_conflicts_sorted(&m->conflicts);
    struct mt_buffers buffers;
    if (!list || mt_buffers_init(&buffers, m->allocs, m->nallocs) != 0) {
        free(list);
        return -1;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_CONFLICTS], 0);
    struct mt_keys keys = {0};
    for (size_t i = 0; i < n; i++) {
        if (mt_keys_launch(j, &keys, list[i].kernel, list[i].superstep, 1))
            mt_json_array(j, keys.step, 0);
        write_conflict(j, &list[i], m, r->sites, &buffers);
    }
    mt_keys_end(j, &keys);
    mt_json_end(j);
    mt_buffers_free(&buffers);
    free(list);
    return 0;
}

int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r)
{
    static int (*const write[MT_LOCALITY_OF_RUNS])(struct mt_json *, const struct mt_comm_result *) = {
#define MT_ANALYSIS(NAME, name, cost, every) mt_##name##_json,
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
    };
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = write[i](j, r);
    return rc;
}
