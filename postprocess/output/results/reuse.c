/* Reuse distances by launch and level; the footprint. */
#define _GNU_SOURCE
#include "summary.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

MT_ORDER_BY(reuse_by_kernel, struct mt_reuse_launch *,
            MT_ORDER_TEXT((*x)->kernel, (*y)->kernel) MT_ORDER_DIFFER(*x, *y, superstep))

static const struct mt_reuse_launch **reuse_sorted(const struct mt_reuse *r, size_t *n)
{
    const struct mt_reuse_launch **order = malloc((r->count + 1) * sizeof *order);
    *n = 0;
    for (size_t i = 0; order && i < r->count; i++)
        if (r->launches[i].selected)
            order[(*n)++] = &r->launches[i];
    if (*n)
        qsort_r(order, *n, sizeof *order, reuse_by_kernel, NULL);
    return order;
}

/* ---- rows ---- */

/* The launch and level of a row; also its first columns. */
static const struct mt_reuse_launch *reuse_level(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse_launch *l = ((const struct mt_reuse_launch *const *)x->data)[i / MT_REUSE_LEVELS];
    mt_tuples_number(w, l->superstep);
    mt_tuples_text(w, l->kernel);
    mt_tuples_text(w, mt_reuse_levels[i % MT_REUSE_LEVELS]);
    return l;
}

static void reuse_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse_launch *l = reuse_level(w, x, i);
    const struct mt_reuse_counts *c = &l->level[i % MT_REUSE_LEVELS];
    const double lines = (double)l->level[MT_REUSE_DEVICE].lines,
                 unseen = (double)(1ull << l->sample_bits[MT_REUSE_DEVICE]) - 1, error = mt_reuse_error(l);
    mt_tuples_numbers(w, MT_NUMBERS(l->uses, c->contexts, c->lines, c->largest, c->cold));
    if (error >= 0) {
        mt_tuples_real(w, error);
        mt_tuples_real(w, sqrt(unseen * lines));
    } else {
        mt_tuples_null(w, 2);
    }
}

int mt_rows_of_reuse(struct mt_rowset *x)
{
    x->row = reuse_row;
    x->data = reuse_sorted(&x->r->locality->reuse, &x->n);
    x->n *= MT_REUSE_LEVELS;
    return x->data ? 0 : -1;
}

static void reuse_distance(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const unsigned b = i % MT_REUSE_BUCKETS;
    const struct mt_reuse_launch *const *order = x->data;
    i /= MT_REUSE_BUCKETS;
    uint64_t uses = order[i / MT_REUSE_LEVELS]->level[i % MT_REUSE_LEVELS].histogram[b];
    if (!uses)
        return;
    reuse_level(w, x, i);
    mt_tuples_number(w, b ? 1ull << (b - 1) : 0);
    mt_tuples_number(w, uses);
}

int mt_rows_of_reuse_distances(struct mt_rowset *x)
{
    int rc = mt_rows_of_reuse(x);
    x->row = reuse_distance;
    x->n *= MT_REUSE_BUCKETS;
    return rc;
}

static void reuse_run(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse *u = &x->r->locality->reuse;
    (void)i;
    mt_tuples_numbers(w, MT_NUMBERS(mt_reuse_footprint(u), 1ull << u->sample_bits));
}

MT_ROWS(footprint, reuse_run, 1)

/* ---- JSON ---- */

int mt_reuse_json(struct mt_json *j, const struct mt_comm_result *result)
{
    const struct mt_reuse *r = &result->locality->reuse;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_REUSE], 0);
    mt_json_u64(j, "line_size", 1ull << r->options.line_bits);
    mt_json_u64(j, "sample", 1ull << r->sample_bits);
    mt_json_u64(j, "footprint", mt_reuse_footprint(r));
    int rc = mt_relation_json(j, result, MT_REL_reuse, MT_REL_reuse_distances, 1);
    mt_json_end(j);
    return rc;
}

/* ---- text ---- */

/* Of a sample: what its errors are. */
static void reuse_sample(FILE *f, const struct mt_reuse *r)
{
    double most = -1;
    for (size_t i = 0; i < r->count; i++) {
        const struct mt_reuse_launch *l = &r->launches[i];
        const double error = mt_reuse_error(l), part = l->uses ? error / (double)l->uses : 0;
        most = l->selected && error >= 0 && part > most ? part : most;
    }
    if (most >= 0)
        fprintf(
            f,
            "  an estimate: of the device one of %llu lines is followed, and the standard error of a part of "
            "a launch's uses is at most %s %% (--sample=1: exact)\n",
            1ull << r->sample_bits, mt_number_decimals(100 * most, 1).text);
}

/* How much the whole run touches, as a line. */
static void reuse_footprint(FILE *f, const struct mt_reuse *r)
{
    uint64_t lines = mt_reuse_footprint(r);
    fprintf(f, "  the run touches %s%s of %llu bytes (%s): its footprint\n", r->sample_bits ? "about " : "",
            mt_number_many(lines, "line", "lines").text, 1ull << r->options.line_bits,
            mt_number_bytes(lines << r->options.line_bits).text);
}

int mt_reuse_text(struct mt_text *t)
{
    const struct mt_reuse *r = &t->r->locality->reuse;
    const size_t rows = t->rows;
    char title[200];
    snprintf(title, sizeof title,
             "Reuse of lines of %llu bytes: part of the uses at a distance of fewer lines than",
             1ull << r->options.line_bits);
    t->rows *= MT_REUSE_LEVELS;
    int rc = mt_text_table(
        t, title,
        "WITH near AS (SELECT kernel, level, sum(uses) AS uses, sum(uses) FILTER (WHERE distance < 64) AS a, "
        "sum(uses) FILTER (WHERE distance < 1024) AS b, sum(uses) FILTER (WHERE distance < 16384) AS c, "
        "sum(uses) FILTER (WHERE distance < 262144) AS d FROM reuse_distances GROUP BY kernel, level), "
        "sums AS (SELECT kernel, level, iif(level = 'device', 1, sum(contexts)) AS contexts, max(largest) AS "
        "largest, sum(cold) AS cold FROM reuse GROUP BY kernel, level) "
        "SELECT kernel(s.kernel) AS kernel, s.level AS 'of a', contexts AS '>number', largest AS "
        "'>most lines', percent(cold, cold + ifnull(uses, 0)) AS '>cold', percent(a, cold + ifnull(uses, 0)) "
        "AS '>64', percent(b, cold + ifnull(uses, 0)) AS '>1024', percent(c, cold + ifnull(uses, 0)) AS "
        "'>16384', percent(d, cold + ifnull(uses, 0)) AS '>262144' FROM sums s LEFT JOIN near n ON n.kernel "
        "= "
        "s.kernel AND n.level = s.level ORDER BY s.kernel, s.level");
    t->rows = rows;
    if (rc != 0)
        return -1;
    reuse_footprint(t->f, r);
    reuse_sample(t->f, r);
    return 0;
}

/* ---- sentences ---- */

const char mt_reuse_sentences[] =
    "SELECT 'footprint', 'reuse', 120, 0, printf('The run%s touches %s%s of %s bytes: its footprint is %s.', "
    "iif(partial, ', with launches that are left out here,', ''), iif(sample > 1, 'about ', ''), many(lines, "
    "'cache line', 'cache lines'), grouped(line_size), bytes(lines * line_size)) "
    "FROM footprint, run WHERE lines";
