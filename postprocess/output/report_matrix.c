/* Who sent what to whom, at two scales: launch to launch as rows, CTA to CTA as cells of a matrix. Both stay
 * below a number of entries that a browser handles at once: rows lose their supersteps, cells are put
 * together two by two (CTAs first, supersteps when the matrix is small) until they fit. */
#include "report.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40000, MOST_CELLS = 1000000, SMALL_AXIS = 512 };

/* ---- launch to launch ---- */

struct row {
    uint32_t src_kernel, src_step, dst_kernel, dst_step;
    uint64_t size, count, unordered; /* unordered: bytes */
};

static int row_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->dst_step != y->dst_step)
        return x->dst_step < y->dst_step ? -1 : 1;
    if (x->dst_kernel != y->dst_kernel)
        return x->dst_kernel < y->dst_kernel ? -1 : 1;
    if (x->src_kernel != y->src_kernel)
        return x->src_kernel < y->src_kernel ? -1 : 1;
    return x->src_step < y->src_step ? -1 : x->src_step > y->src_step;
}

static size_t merge_rows(struct row *rows, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(rows, n, sizeof *rows, row_order);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || row_order(&rows[kept - 1], &rows[i]) != 0) {
            rows[kept++] = rows[i];
            continue;
        }
        rows[kept - 1].size += rows[i].size;
        rows[kept - 1].count += rows[i].count;
        rows[kept - 1].unordered += rows[i].unordered;
    }
    return kept;
}

static void write_step(struct mt_json *j, uint32_t step)
{
    if (step == MT_REPORT_ALL)
        mt_json_text(j, NULL, NULL);
    else
        mt_json_u64(j, NULL, step);
}

int mt_report_write_transfers(struct mt_json *j, const struct mt_report *r)
{
    size_t n = r->transfers.n;
    struct row *rows = malloc((n + 1) * sizeof *rows);
    if (!rows)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        int unordered = t->src.kernel != MT_REPORT_HOST && t->dst.kernel != MT_REPORT_HOST &&
                        t->src.superstep == t->dst.superstep;
        rows[i] = (struct row){t->src.kernel, t->src.superstep, t->dst.kernel,          t->dst.superstep,
                               t->size,       t->count,         unordered ? t->size : 0};
    }
    n = merge_rows(rows, n);
    for (int level = 0; level < 2 && n > MOST_ROWS; level++) {
        for (size_t i = 0; i < n; i++)
            *(level ? &rows[i].dst_step : &rows[i].src_step) = MT_REPORT_ALL;
        n = merge_rows(rows, n);
    }
    mt_json_array(j, "transfers", 0);
    for (size_t i = 0; i < n; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, rows[i].src_kernel);
        write_step(j, rows[i].src_step);
        mt_json_u64(j, NULL, rows[i].dst_kernel);
        write_step(j, rows[i].dst_step);
        mt_json_u64(j, NULL, rows[i].size);
        mt_json_u64(j, NULL, rows[i].count);
        mt_json_u64(j, NULL, rows[i].unordered);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(rows);
    return 0;
}

/* ---- CTA to CTA ---- */

struct cell {
    uint32_t step, kernel; /* the reader's superstep, the writer's kernel */
    uint32_t row, column;  /* writer, reader: places in the axis; `host`: the host */
    uint64_t size, count;
};

struct matrix {
    struct cell *cells;
    size_t n, axis;
    uint32_t bin, step_bin;
    uint32_t most_step;
};

static int cell_order(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->kernel != y->kernel)
        return x->kernel < y->kernel ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

static void merge_cells(struct matrix *m)
{
    size_t kept = 0;
    if (m->n)
        qsort(m->cells, m->n, sizeof *m->cells, cell_order);
    for (size_t i = 0; i < m->n; i++) {
        if (kept == 0 || cell_order(&m->cells[kept - 1], &m->cells[i]) != 0) {
            m->cells[kept++] = m->cells[i];
            continue;
        }
        m->cells[kept - 1].size += m->cells[i].size;
        m->cells[kept - 1].count += m->cells[i].count;
    }
    m->n = kept;
}

/* Place 0 is the host's, before and after. */
static uint32_t half(uint32_t place)
{
    return place ? (place - 1) / 2 + 1 : 0;
}

static void coarsen(struct matrix *m)
{
    int steps = m->axis / m->bin <= SMALL_AXIS && m->most_step / m->step_bin > 0;
    if (steps)
        m->step_bin *= 2;
    else
        m->bin *= 2;
    for (size_t i = 0; i < m->n; i++) {
        struct cell *c = &m->cells[i];
        if (steps) {
            c->step /= 2;
        } else {
            c->row = half(c->row);
            c->column = half(c->column);
        }
    }
    merge_cells(m);
}

static uint32_t place_of(const uint64_t *axis, size_t n, const struct mt_report_end *end)
{
    return end->cta == MT_REPORT_NO_CTA ? 0 : (uint32_t)mt_report_place(axis, n, end->cta) + 1;
}

/* Groups of one superstep (bin) and one writing kernel: superstep, kernel, number of cells; then per cell the
 * step from the one before in row * width + column, bytes, accesses. */
static int write_cells(struct mt_json *j, const struct matrix *m)
{
    struct mt_pack pack = {0};
    uint64_t width = (m->axis + m->bin - 1) / m->bin + 1;
    for (size_t i = 0; i < m->n;) {
        size_t end = i;
        while (end < m->n && m->cells[end].step == m->cells[i].step &&
               m->cells[end].kernel == m->cells[i].kernel)
            end++;
        mt_pack_u64(&pack, m->cells[i].step);
        mt_pack_u64(&pack, m->cells[i].kernel);
        mt_pack_u64(&pack, end - i);
        for (uint64_t before = 0; i < end; i++) {
            uint64_t at = m->cells[i].row * width + m->cells[i].column;
            mt_pack_u64(&pack, at - before);
            mt_pack_u64(&pack, m->cells[i].size);
            mt_pack_u64(&pack, m->cells[i].count);
            before = at;
        }
    }
    mt_json_object(j, "cells", 1);
    mt_json_u64(j, "bin", m->bin);
    mt_json_u64(j, "step_bin", m->step_bin);
    mt_json_u64(j, "width", width);
    mt_json_u64(j, "count", m->n);
    int rc = mt_pack_write(&pack, j, "data");
    mt_json_end(j);
    return rc;
}

int mt_report_write_cells(struct mt_json *j, const struct mt_report *r, const uint64_t *axis, size_t naxis)
{
    struct matrix m = {.n = r->transfers.n, .axis = naxis, .bin = 1, .step_bin = 1};
    m.cells = malloc((m.n + 1) * sizeof *m.cells);
    if (!m.cells)
        return -1;
    for (size_t i = 0; i < m.n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        m.cells[i] = (struct cell){
            t->dst.superstep, t->src.kernel, place_of(axis, naxis, &t->src), place_of(axis, naxis, &t->dst),
            t->size,          t->count};
        if (t->dst.superstep > m.most_step)
            m.most_step = t->dst.superstep;
    }
    merge_cells(&m);
    while (m.n > MOST_CELLS)
        coarsen(&m);
    int rc = write_cells(j, &m);
    free(m.cells);
    return rc;
}
