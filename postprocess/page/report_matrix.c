/* Who sent what to whom, at two scales: launch to launch as rows, CTA to CTA as cells of a matrix. Both stay
 * below a number of entries that a browser handles at once: rows lose their supersteps, cells are put
 * together two by two (CTAs first, supersteps when the matrix is small) until they fit. */
#include "report.h"
#include "page_list.h"
#include "analysis/base/pairmap.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40000, MOST_CELLS = 1000000, SMALL_AXIS = 512 };

/* ---- launch to launch ---- */

struct row {
    uint32_t src_kernel, src_step, dst_kernel, dst_step;
    uint64_t size, count, unordered; /* unordered: bytes */
};

MT_ORDER_4(row_order, struct row, dst_step, dst_kernel, src_kernel, src_step)

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

static void write_end(struct mt_tuples *w, uint32_t kernel, uint32_t step)
{
    mt_tuples_number(w, kernel);
    mt_tuples_maybe(w, step != MT_REPORT_ALL, step);
}

int mt_report_write_transfers(struct mt_json *j, const struct mt_report *r)
{
    MT_REPORT_LIST(struct row) list = {0};
    for (size_t i = 0; i < r->transfers.n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        int unordered = t->src.kernel != MT_REPORT_HOST && t->dst.kernel != MT_REPORT_HOST &&
                        t->src.superstep == t->dst.superstep;
        struct row row = {t->src.kernel, t->src.superstep, t->dst.kernel,          t->dst.superstep,
                          t->size,       t->count,         unordered ? t->size : 0};
        /* Those of one CTA are together: most are of the launches of the one before. */
        struct row *at = list.n && row_order(&list.at[list.n - 1], &row) == 0 ? &list.at[list.n - 1] : NULL;
        if (at) {
            at->size += row.size;
            at->count += row.count;
            at->unordered += row.unordered;
        } else if ((at = MT_REPORT_ADD(list))) {
            *at = row;
        } else {
            free(list.at);
            return -1;
        }
    }
    struct row *rows = list.at;
    size_t n = merge_rows(rows, list.n);
    for (int level = 0; level < 2 && n > MOST_ROWS; level++) {
        for (size_t i = 0; i < n; i++)
            *(level ? &rows[i].dst_step : &rows[i].src_step) = MT_REPORT_ALL;
        n = merge_rows(rows, n);
    }
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_transfers);
    for (size_t i = 0; i < n; i++) {
        write_end(&p.w, rows[i].src_kernel, rows[i].src_step);
        write_end(&p.w, rows[i].dst_kernel, rows[i].dst_step);
        mt_tuples_numbers(&p.w, MT_NUMBERS(rows[i].size, rows[i].count, rows[i].unordered));
        mt_page_row(&p);
    }
    free(rows);
    return mt_page_end(&p);
}

/* ---- CTA to CTA ---- */

struct cell {
    uint32_t step, kernel; /* the reader's superstep, the writer's kernel */
    uint32_t row, column;  /* writer, reader: places in the axis; `host`: the host */
    uint64_t size, count;
};

/* Cells as they come: no more than fit into a page at any time, so that neither memory nor time grow with
 * what the page does not show. */
struct matrix {
    MT_REPORT_LIST(struct cell) cells;
    struct mt_pairmap index; /* step and kernel, row and column: place in `cells` */
    size_t axis;
    uint32_t bin, step_bin; /* powers of two: so many CTAs, supersteps are one */
    uint32_t most_step;
};

MT_ORDER_4(cell_order, struct cell, step, kernel, row, column)

/* Adds a cell in the matrix' own places. 0, or -1 without memory. */
static int add_cell(struct matrix *m, struct cell c)
{
    uint64_t *at = mt_pairmap_get(&m->index, (uint64_t)c.step << 32 | c.kernel,
                                  (uint64_t)c.row << 32 | c.column, m->cells.n);
    if (!at)
        return -1;
    if (*at < m->cells.n) {
        m->cells.at[*at].size += c.size;
        m->cells.at[*at].count += c.count;
        return 0;
    }
    struct cell *cell = MT_REPORT_ADD(m->cells);
    if (!cell)
        return -1;
    *cell = c;
    return 0;
}

/* Place 0 is the host's, before and after. */
static uint32_t report_matrix_shrink(uint32_t place, uint32_t by)
{
    return place ? (place - 1) / by + 1 : 0;
}

/* Puts CTAs together two by two, or supersteps when the matrix is small. */
static int report_matrix_coarsen(struct matrix *m)
{
    int steps = m->axis / m->bin <= SMALL_AXIS && m->most_step / m->step_bin > 0;
    size_t n = m->cells.n;
    *(steps ? &m->step_bin : &m->bin) *= 2;
    mt_pairmap_clear(&m->index);
    m->cells.n = 0;
    for (size_t i = 0; i < n; i++) { /* none goes after the place where it was */
        struct cell c = m->cells.at[i];
        c.step /= 1u + (unsigned)steps;
        c.row = report_matrix_shrink(c.row, 2u - (unsigned)steps);
        c.column = report_matrix_shrink(c.column, 2u - (unsigned)steps);
        if (add_cell(m, c) != 0)
            return -1;
    }
    return 0;
}

static uint32_t place_of(const uint64_t *axis, size_t n, const struct mt_report_end *end)
{
    return end->cta == MT_REPORT_NO_CTA ? 0 : (uint32_t)mt_report_position(axis, n, end->cta) + 1;
}

static int write_cells(struct mt_json *j, const struct matrix *m)
{
    uint64_t width = (m->axis + m->bin - 1) / m->bin + 1;
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_cells);
    mt_json_u64(j, "bin", m->bin);
    mt_json_u64(j, "step_bin", m->step_bin);
    mt_json_u64(j, "width", width);
    for (size_t i = 0; i < m->cells.n; i++) {
        const struct cell *c = &m->cells.at[i];
        mt_tuples_numbers(&p.w,
                          MT_NUMBERS(c->step, c->kernel, c->row * width + c->column, c->size, c->count));
        mt_page_row(&p);
    }
    return mt_page_end(&p);
}

/* All transfers, and then in the order in which they are written. 0, or -1 without memory. */
static int report_matrix_gather(struct matrix *m, const struct mt_report *r, const uint64_t *axis,
                                size_t naxis)
{
    for (size_t i = 0; i < r->transfers.n; i++)
        if (r->transfers.at[i].dst.superstep > m->most_step)
            m->most_step = r->transfers.at[i].dst.superstep;
    for (size_t i = 0; i < r->transfers.n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        struct cell c = {t->dst.superstep / m->step_bin,
                         t->src.kernel,
                         report_matrix_shrink(place_of(axis, naxis, &t->src), m->bin),
                         report_matrix_shrink(place_of(axis, naxis, &t->dst), m->bin),
                         t->size,
                         t->count};
        if (add_cell(m, c) != 0)
            return -1;
        while (m->cells.n > MOST_CELLS)
            if (report_matrix_coarsen(m) != 0)
                return -1;
    }
    if (m->cells.n)
        qsort(m->cells.at, m->cells.n, sizeof *m->cells.at, cell_order);
    return 0;
}

int mt_report_write_cells(struct mt_json *j, const struct mt_report *r, const uint64_t *axis, size_t naxis)
{
    struct matrix m = {.axis = naxis, .bin = 1, .step_bin = 1};
    int rc = report_matrix_gather(&m, r, axis, naxis) == 0 ? write_cells(j, &m) : -1;
    mt_pairmap_free(&m.index);
    free(m.cells.at);
    return rc;
}
