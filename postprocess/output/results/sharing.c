/* Cache lines that CTAs share, by launch and allocation. */
#include "summary.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static int sharing_by_alloc(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_sharing_cell *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (d || x->superstep != y->superstep)
        return d ? d : x->superstep < y->superstep ? -1 : 1;
    return x->alloc + 1 < y->alloc + 1 ? -1 : x->alloc + 1 > y->alloc + 1; /* none is UINT64_MAX */
}

static int sharing_by_accesses(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg; /* NULL: kernels do not matter */
    const struct mt_sharing_line *x = a, *y = b;
    int d =
        c ? mt_locality_compare_text(c->launches[x->superstep].kernel, c->launches[y->superstep].kernel) : 0;
    if (d)
        return d;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind > y->kind ? -1 : 1; /* false sharing first: it can be avoided */
    if (x->accesses != y->accesses)
        return x->accesses > y->accesses ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* ---- rows ---- */

static struct mt_sharing_cell *sharing_cells(const struct mt_sharing *s)
{
    return mt_sorted_copy(s->cells, s->count, sizeof *s->cells, sharing_by_alloc, NULL);
}

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

int mt_rows_of_sharing(struct mt_rowset *x)
{
    x->row = sharing_row;
    x->n = x->r->locality->sharing.count * MT_SHARING_KINDS;
    x->data = sharing_cells(&x->r->locality->sharing);
    return x->data ? 0 : -1;
}

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
