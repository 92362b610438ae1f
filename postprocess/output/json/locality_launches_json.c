/* The sections with a part per launch: reuse, sharing, placement. */
#define _GNU_SOURCE
#include "locality_parts.h"
#include "comm_json.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_keys_launch(struct mt_json *j, struct mt_keys *k, const char *kernel, uint64_t superstep, int below)
{
    int same = k->kernel && mt_locality_compare_text(k->kernel, kernel) == 0;
    if (same && k->superstep == superstep)
        return 0;
    if (k->below)
        mt_json_end(j);
    if (!same) {
        if (k->kernel)
            mt_json_end(j);
        mt_json_object(j, kernel, 0);
    }
    *k = (struct mt_keys){.kernel = kernel, .superstep = superstep, .below = below};
    mt_key_u64(k->step, superstep);
    return 1;
}

void mt_keys_end(struct mt_json *j, struct mt_keys *k)
{
    if (k->below)
        mt_json_end(j);
    if (k->kernel)
        mt_json_end(j);
    k->kernel = NULL;
    k->below = 0;
}

/* ---- reuse ---- */

/* The distances of the row's level. */
static void reuse_histogram(struct mt_json *j, const void *arg, const struct mt_comm_result *r, size_t row)
{
    (void)r;
    const struct mt_reuse_launch *const *order = arg;
    const uint64_t *histogram = order[row / MT_REUSE_LEVELS]->level[row % MT_REUSE_LEVELS].histogram;
    char from[64];
    mt_json_object(j, "histogram", 1);
    for (unsigned b = 0; b < MT_REUSE_BUCKETS; b++)
        if (histogram[b])
            mt_json_u64(j, mt_key_u64(from, b ? 1ull << (b - 1) : 0), histogram[b]);
    mt_json_end(j);
}

int mt_reuse_json(struct mt_json *j, const struct mt_comm_result *result)
{
    const struct mt_reuse *r = &result->locality->reuse;
    size_t n;
    const struct mt_reuse_launch **order = mt_reuse_sorted(r, &n);
    if (!order)
        return -1;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_REUSE], 0);
    mt_json_u64(j, "line_size", 1ull << r->options.line_bits);
    mt_json_u64(j, "sample", 1ull << r->sample_bits);
    mt_json_u64(j, "footprint", mt_reuse_footprint(r));
    mt_json_object(j, "kernels", 0);
    int rc = mt_relation_json(j, MT_REL_reuse, result, reuse_histogram, order);
    mt_json_end(j);
    mt_json_end(j);
    free(order);
    return rc;
}

/* ---- sharing ---- */

static void write_top(struct mt_json *j, const struct mt_locality *m, const struct mt_sharing_line *top,
                      size_t n, uint64_t superstep)
{
    char label[MT_ALLOC_LABEL];
    mt_json_array(j, "top", 0);
    for (size_t at = MT_FIRST(i, n, top[i].superstep >= superstep); at < n && top[at].superstep == superstep;
         at++) {
        mt_json_object(j, NULL, 1);
        mt_json_hex(j, "address", top[at].address);
        mt_json_text(j, "allocation",
                     top[at].alloc < m->nallocs ? mt_alloc_label(label, m, top[at].alloc) : NULL);
        mt_json_text(j, "sharing", mt_sharing_kinds[top[at].kind]);
        mt_json_u64(j, "accesses", top[at].accesses);
        if (top[at].kind == MT_SHARED_FALSE)
            mt_json_u64(j, "writers", top[at].writers);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void write_sharing_cell(struct mt_json *j, const struct mt_locality *m,
                               const struct mt_sharing_cell *c)
{
    char label[MT_ALLOC_LABEL];
    mt_json_object(j, mt_alloc_label(label, m, c->alloc), 1);
    for (int kind = 0; kind < MT_SHARING_KINDS; kind++) {
        mt_json_object(j, mt_sharing_kinds[kind], 1);
        mt_json_u64(j, "lines", c->lines[kind]);
        mt_json_u64(j, "accesses", c->accesses[kind]);
        mt_json_end(j);
    }
    mt_json_end(j);
}

int mt_sharing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    const struct mt_sharing *s = &m->sharing;
    struct mt_sharing_cell *cells;
    struct mt_sharing_line *top;
    if (mt_sharing_sorted(s, &cells, &top) != 0)
        return -1;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_SHARING], 0);
    mt_json_u64(j, "line_size", 1ull << s->options.line_bits);
    mt_json_object(j, "kernels", 0);
    struct mt_keys keys = {0};
    for (size_t i = 0; i < s->count;) {
        uint64_t superstep = cells[i].superstep;
        mt_keys_launch(j, &keys, cells[i].kernel, superstep, 1);
        mt_json_object(j, keys.step, 0);
        mt_json_object(j, "allocations", 0);
        for (; i < s->count && cells[i].superstep == superstep; i++)
            write_sharing_cell(j, m, &cells[i]);
        mt_json_end(j);
        write_top(j, m, top, s->ntop, superstep);
    }
    mt_keys_end(j, &keys);
    mt_json_end(j);
    mt_json_end(j);
    free(cells);
    free(top);
    return 0;
}

/* ---- placement ---- */

static void write_matrix(struct mt_json *j, const char *key, const uint64_t *bytes, unsigned devices)
{
    if (!bytes) {
        mt_json_text(j, key, NULL);
        return;
    }
    mt_json_array(j, key, 1);
    for (unsigned from = 0; from < devices; from++) {
        mt_json_array(j, NULL, 1);
        for (unsigned to = 0; to < devices; to++)
            mt_json_u64(j, NULL, bytes[(size_t)from * devices + to]);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void write_policies(struct mt_json *j, const struct mt_placement *p)
{
    mt_json_object(j, "policies", 0);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        mt_json_object(j, mt_placement_policies[policy], 1);
        mt_json_u64(j, "cross", p->cross[policy]);
        if (p->distinct_known)
            mt_json_u64(j, "distinct", p->distinct[policy]);
        else
            mt_json_text(j, "distinct", NULL);
        write_matrix(j, "traffic", p->traffic[policy], p->devices);
        write_matrix(j, "distinct_traffic", p->distinct_traffic[policy], p->devices);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* By policy; NULL: not known. */
static void write_distinct(struct mt_json *j, const uint64_t *bytes)
{
    if (!bytes) {
        mt_json_text(j, "distinct", NULL);
        return;
    }
    mt_json_object(j, "distinct", 1);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++)
        mt_json_u64(j, mt_placement_policies[policy], bytes[policy]);
    mt_json_end(j);
}

static void write_assignment(struct mt_json *j, const char *key, const struct mt_placement *p,
                             const struct mt_placement_launch *l)
{
    char cta[64];
    mt_json_object(j, key, 1);
    for (size_t i = l->first; i < l->end; i++)
        mt_json_u64(j, mt_cta_key(cta, p->ctas[i]), p->device[MT_PLACE_MINCUT][i]);
    mt_json_end(j);
}

int mt_placement_write(struct mt_json *j, const struct mt_placement *p, const struct mt_comm *c,
                       int with_assignment)
{
    size_t *order = mt_launches_sorted(c);
    if (!order)
        return -1;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_PLACEMENT], 0);
    mt_json_u64(j, "devices", p->devices);
    mt_json_u64(j, "load", p->load);
    if (p->ran_known)
        mt_json_u64(j, "ran", p->ran);
    write_policies(j, p);
    for (int assignment = 0; assignment <= !!with_assignment; assignment++) {
        struct mt_keys keys = {0};
        mt_json_object(j, assignment ? "assignment" : "kernels", 0);
        for (size_t i = 0; i < p->nlaunches; i++) {
            const struct mt_placement_launch *l = &p->launches[order[i]];
            if (!assignment && !c->launches[order[i]].selected)
                continue;
            mt_keys_launch(j, &keys, c->launches[order[i]].kernel, order[i], 0);
            if (assignment) {
                write_assignment(j, keys.step, p, l);
                continue;
            }
            mt_json_object(j, keys.step, 1);
            mt_json_u64(j, "load", l->load);
            for (int policy = 0; policy < MT_PLACE_POLICIES; policy++)
                mt_json_u64(j, mt_placement_policies[policy], l->cross[policy]);
            write_distinct(j, p->distinct_known ? l->distinct : NULL);
            mt_json_end(j);
        }
        mt_keys_end(j, &keys);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(order);
    return 0;
}
