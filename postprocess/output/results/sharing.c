/* Cache lines that CTAs share, by launch and allocation. */
#include "summary.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

MT_ORDER_BY(sharing_by_alloc, struct mt_sharing_cell,
            MT_ORDER_TEXT(x->kernel, y->kernel) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(x, y, alloc + 1)) /* none is UINT64_MAX */

static const char *sharing_kernel(const struct mt_comm *c, const struct mt_sharing_line *line)
{
    return c ? c->launches[line->superstep].kernel : NULL;
}

/* False sharing first: it can be avoided. arg: NULL, kernels do not matter. */
MT_ORDER_BY(sharing_by_accesses, struct mt_sharing_line,
            MT_ORDER_TEXT(sharing_kernel(arg, x), sharing_kernel(arg, y)) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(y, x, kind) MT_ORDER_DIFFER(y, x, accesses) MT_ORDER_DIFFER(x, y, address))

/* ---- rows ---- */

static void sharing_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_sharing_cell *c = &((const struct mt_sharing_cell *)x->data)[i / MT_SHARING_KINDS];
    const int kind = i % MT_SHARING_KINDS;
    mt_tuples_number(w, c->superstep);
    mt_tuples_text(w, c->kernel);
    mt_tuples_buffer(w, x->r->locality, c->alloc);
    mt_tuples_text(w, mt_sharing_kinds[kind]);
    mt_tuples_number(w, c->lines[kind]);
    mt_tuples_number(w, c->accesses[kind]);
}

MT_ROWS_OF_LIST(sharing, sharing_row,
                mt_sorted_copy(x->r->locality->sharing.cells, x->r->locality->sharing.count,
                               sizeof(struct mt_sharing_cell), sharing_by_alloc, NULL),
                MT_SHARING_KINDS * x->r->locality->sharing.count)

static void sharing_line(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_sharing_line *top = &((const struct mt_sharing_line *)x->data)[i];
    mt_tuples_number(w, top->superstep);
    mt_tuples_text(w, x->r->comm->launches[top->superstep].kernel);
    mt_tuples_number(w, top->address);
    mt_tuples_buffer(w, x->r->locality, top->alloc);
    mt_tuples_text(w, mt_sharing_kinds[top->kind]);
    mt_tuples_number(w, top->accesses);
    mt_tuples_maybe(w, top->kind == MT_SHARED_FALSE, top->writers);
}

int mt_rows_of_shared_lines(struct mt_rowset *x)
{
    const struct mt_sharing *s = &x->r->locality->sharing;
    x->row = sharing_line;
    x->n = s->ntop;
    x->data = mt_sorted_copy(s->top, s->ntop, sizeof *s->top, sharing_by_accesses,
                             x->by_kernel ? (void *)(uintptr_t)x->r->comm : NULL);
    return x->data ? 0 : -1;
}

/* ---- JSON ---- */

int mt_sharing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    mt_json_object(j, mt_locality_names[MT_LOCALITY_SHARING], 0);
    mt_json_u64(j, "line_size", 1ull << r->locality->sharing.options.line_bits);
    int rc = mt_relation_json(j, r, MT_REL_sharing, MT_REL_shared_lines, 1);
    mt_json_end(j);
    return rc;
}

/* ---- text ---- */

int mt_sharing_text(struct mt_text *t)
{
    char title[200];
    snprintf(title, sizeof title,
             MT_EITHER("Sharing of lines of %llu bytes between CTAs of a launch, summed over launches",
                       "Sharing of lines of %llu bytes between threads"),
             1ull << t->r->locality->sharing.options.line_bits);
    return mt_text_table(t, title,
                         "SELECT kernel(kernel) AS kernel, label AS allocation, "
                         "sum(iif(sharing = 'private', lines, 0)) AS '>private', "
                         "sum(iif(sharing = 'read', lines, 0)) AS '>read', "
                         "sum(iif(sharing = 'true', lines, 0)) AS '>true', "
                         "sum(iif(sharing = 'false', lines, 0)) AS '>false', "
                         "sum(iif(sharing = 'false', accesses, 0)) AS '>accesses to false', "
                         "sum(accesses) AS '>to all' FROM sharing s GROUP BY s.kernel, s.allocation, s.label "
                         "ORDER BY 7 DESC, s.kernel, s.allocation");
}

/* ---- sentences ---- */

const char mt_sharing_sentences[] =
    "WITH b AS (SELECT kernel, label, coalesce(allocation, 1 << 62) AS at, sum(iif(sharing = 'false', "
    "accesses, 0)) AS bad, sum(accesses) AS n FROM sharing WHERE accesses GROUP BY kernel, allocation, "
    "label), "
    "k AS (SELECT DISTINCT kernel, sum(bad) OVER w AS bad, sum(n) OVER w AS n, first_value(label) OVER "
    "(PARTITION BY kernel ORDER BY bad DESC, at) AS label FROM b WINDOW w AS (PARTITION BY kernel)), "
    "s AS (SELECT *, 1.0 * bad / n AS part, row_number() OVER (ORDER BY 1.0 * bad / n DESC, bad DESC, "
    "kernel) AS nth FROM k WHERE bad AND 1.0 * bad / n >= 0.01 ORDER BY nth) "
    "SELECT 'sharing', 'sharing', 70, max(part) > 0.1, printf(either('CTAs share cache lines of %s bytes "
    "falsely: %s%s.', 'Threads share cache lines of %s bytes falsely: %s%s.'), grouped(line_size), "
    "(SELECT group_concat(printf('%s of %s of %s, most of them in %s', share(bad, n), iif(nth > 1, 'those', "
    "'the accesses'), mark(kernel(kernel), kernel), mark(label, '')), '; ') FROM s WHERE nth < 4), "
    "iif(count(*) > 3, '; and some of ' || many(count(*) - 3, 'other kernel', 'other kernels'), '')) "
    "FROM s, run GROUP BY line_size";
