/* Sorts what the further analyses hold into the order of the output, and writes it:
 * lines, coalescing, conflicts. */
#define _GNU_SOURCE
#include "locality_json.h"
#include "locality_parts.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static void write_line_cell(struct mt_json *j, const struct mt_lines_cell *c)
{
    mt_json_object(j, c->kernel, 1);
    mt_json_u64(j, "Load", c->load);
    mt_json_u64(j, "Store", c->store);
    mt_json_u64(j, "loads", c->accesses[MT_LOAD]);
    mt_json_u64(j, "stores", c->accesses[MT_STORE]);
    mt_json_u64(j, "atomics", c->accesses[MT_ATOMIC]);
    mt_json_u64(j, "unknown", c->accesses[MT_UNKNOWN]);
    mt_json_end(j);
}

static int write_places(struct mt_json *j, const char *key, const struct mt_locality *m,
                        const struct mt_sites *sites, enum mt_lines_by by)
{
    size_t n = m->lines.count[by];
    if (!mt_locality_has_sites(m, by)) {
        mt_json_text(j, key, NULL);
        return 0;
    }
    struct mt_lines_cell *cells = mt_lines_sorted(m, sites, by);
    char label[MT_ALLOC_LABEL];
    if (!cells)
        return -1;
    mt_json_object(j, key, 0);
    for (size_t i = 0; i < n;) {
        uint64_t place = cells[i].place;
        mt_json_object(j, mt_lines_place(label, m, sites, by, place), 0);
        for (; i < n && cells[i].place == place; i++)
            write_line_cell(j, &cells[i]);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(cells);
    return 0;
}

int mt_lines_json(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites)
{
    static const char *const keys[] = {"lines", "variables", "allocations"};
    int rc = 0;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_LINES], 0);
    for (int by = 0; by < MT_LINES_BY && rc == 0; by++)
        rc = write_places(j, keys[by], m, sites, (enum mt_lines_by)by);
    mt_json_end(j);
    return rc;
}

/* ---- coalescing ---- */

static void write_requests(struct mt_json *j, const struct mt_coalescing_cell *c, size_t cell,
                           const struct mt_coalescing_stride *strides, size_t n)
{
    char key[64];
    size_t lo = mt_coalescing_first_stride(strides, n, cell);
    mt_json_object(j, mt_access_types[c->type], 1);
    mt_json_u64(j, "requests", c->requests);
    mt_json_u64(j, "accesses", c->accesses);
    mt_json_u64(j, "bytes", c->bytes);
    mt_json_u64(j, "distinct", c->distinct);
    mt_json_u64(j, "sectors", c->sectors);
    mt_json_u64(j, "lines", c->lines);
    mt_json_real(j, "efficiency", mt_efficiency(c->distinct, c->sectors));
    mt_json_u64(j, "single", c->single);
    mt_json_u64(j, "irregular", c->irregular);
    mt_json_object(j, "strides", 1);
    for (; lo < n && strides[lo].cell == cell; lo++) {
        snprintf(key, sizeof key, "%" PRId64, strides[lo].stride);
        mt_json_u64(j, key, strides[lo].requests);
    }
    mt_json_end(j);
    mt_json_end(j);
}

int mt_coalescing_json(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites)
{
    const struct mt_coalescing *c = &m->coalescing;
    if (!mt_locality_has_masks(m)) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_COALESCING], NULL);
        return 0;
    }
    size_t *order = mt_coalescing_order(c, sites);
    struct mt_coalescing_stride *strides = mt_coalescing_strides(c);
    if (!order || !strides) {
        free(order);
        free(strides);
        return -1;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_COALESCING], 0);
    mt_json_u64(j, "unmasked", c->unmasked);
    mt_json_object(j, "kernels", 0);
    for (size_t i = 0; i < c->count;) {
        const char *kernel = c->cells[order[i]].kernel;
        mt_json_object(j, kernel, 0);
        while (i < c->count && mt_locality_compare_text(c->cells[order[i]].kernel, kernel) == 0) {
            uint32_t line = c->cells[order[i]].line;
            mt_json_object(j, sites->lines.names[line], 0);
            for (; i < c->count && c->cells[order[i]].line == line &&
                   mt_locality_compare_text(c->cells[order[i]].kernel, kernel) == 0;
                 i++)
                write_requests(j, &c->cells[order[i]], order[i], strides, c->nstrides);
            mt_json_end(j);
        }
        mt_json_end(j);
    }
    mt_json_end(j);
    int rc = mt_coalescing_sites_json(j, c, sites);
    mt_json_end(j);
    free(order);
    free(strides);
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
    mt_json_text(j, "allocation", a ? mt_alloc_label(label, m, (uint64_t)(a - m->allocs)) : NULL);
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

int mt_conflicts_json(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites)
{
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
        write_conflict(j, &list[i], m, sites, &buffers);
    }
    mt_keys_end(j, &keys);
    mt_json_end(j);
    mt_buffers_free(&buffers);
    free(list);
    return 0;
}

int mt_locality_write(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites)
{
    static int (*const write[MT_LOCALITY_OF_RUNS])(struct mt_json *, const struct mt_locality *,
                                                   const struct mt_sites *) = {
#define MT_ANALYSIS(NAME, name, cost, every) mt_##name##_json,
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
    };
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(m, (enum mt_locality_section)i))
            rc = write[i](j, m, sites);
    return rc;
}
