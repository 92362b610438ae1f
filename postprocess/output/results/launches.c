/* Results by launch: reuse, coalescing, races, sharing, traffic, placement. */
#define _GNU_SOURCE

#include "summary.h"
#include "memtrace/order.h"
#include "analysis/base/order.h"
#include "memtrace/grow.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reuse distances by launch and level, and the footprint ---- */

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

/* Returns the launch and level of a row, after writing its first columns. */
static const struct mt_reuse_launch *reuse_level(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse_launch *l = ((const struct mt_reuse_launch *const *)x->data)[i / MT_REUSE_LEVELS];
    mt_tuples_number(w, l->superstep);
    mt_tuples_text(w, l->kernel);
    mt_tuples_text(w, mt_reuse_levels[i % MT_REUSE_LEVELS]);
    return l;
}

/* Returns an upper bound of the standard error of each count of uses, or -1 if they are exact. */
static double launches_reuse_error(const struct mt_reuse_launch *l)
{
    const double all = ldexp((double)l->squares, (int)l->sample_bits[MT_REUSE_DEVICE]);
    double most = 0;
    unsigned bits = 0;
    for (int level = 0; level < MT_REUSE_LEVELS; level++) {
        bits |= l->sample_bits[level] | (level < 2 ? l->context_bits[level] : 0);
        double error = (ldexp(1, (int)l->sample_bits[level]) - 1) * all;
        if (level <
            2) /* each context has part of the uses; as the total is known, one half is the worst case */
            error += 0.25 * (ldexp(1, (int)l->context_bits[level]) - 1) * (double)l->context_squares[level];
        most = error > most ? error : most;
    }
    return bits ? sqrt(most) : -1;
}

static void launches_reuse_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse_launch *l = reuse_level(w, x, i);
    const struct mt_reuse_counts *c = &l->level[i % MT_REUSE_LEVELS];
    const double lines = (double)l->level[MT_REUSE_DEVICE].lines,
                 unseen = (double)(1ull << l->sample_bits[MT_REUSE_DEVICE]) - 1,
                 error = launches_reuse_error(l);
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
    x->row = launches_reuse_row;
    x->data = reuse_sorted(&x->r->locality->reuse, &x->n);
    x->n *= MT_REUSE_LEVELS;
    return x->data ? 0 : -1;
}

static void reuse_distance(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const unsigned b = i % MT_REUSE_BUCKETS;
    const struct mt_reuse_launch *const *order = x->data;
    i /= MT_REUSE_BUCKETS;
    uint64_t uses = mt_reuse_bucket(&order[i / MT_REUSE_LEVELS]->level[i % MT_REUSE_LEVELS], b);
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

static void launches_reuse_run(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_reuse *u = &x->r->locality->reuse;
    mt_tuples_numbers(w, MT_NUMBERS(mt_reuse_footprint(u), 1ull << u->sample_bits));
}

MT_ROWS(footprint, launches_reuse_run, 1)

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

/* Writes the sampling errors. */
static void reuse_sample(FILE *f, const struct mt_reuse *r)
{
    double most = -1;
    for (size_t i = 0; i < r->count; i++) {
        const struct mt_reuse_launch *l = &r->launches[i];
        const double error = launches_reuse_error(l), part = l->uses ? error / (double)l->uses : 0;
        most = l->selected && error >= 0 && part > most ? part : most;
    }
    if (most >= 0)
        fprintf(f,
                "  an estimate: for the device, one of %llu lines is followed; the standard error of each "
                "part of a launch is at most %s %% of its uses (--sample=1: exact)\n",
                1ull << r->sample_bits, mt_number_decimals(100 * most, 1).text);
}

/* Writes the footprint of the whole run as a line. */
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
             "Reuse of lines of %llu bytes: part of the uses with a reuse distance below",
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

const char mt_reuse_sentences[] =
    "SELECT 'footprint', 'reuse', 120, 0, printf('The run%s touches %s%s of %s bytes: its footprint is %s.', "
    "iif(partial, ', including launches not shown here,', ''), iif(sample > 1, 'about ', ''), many(lines, "
    "'cache line', 'cache lines'), grouped(line_size), bytes(lines * line_size)) "
    "FROM footprint, run WHERE lines";

/* ---- Requests of warps by source line: sectors, cache lines, strides between lanes ---- */

struct cells_order {
    const struct mt_coalescing_cell *cells;
    const struct mt_sites *sites;
};

#define ORDER ((const struct cells_order *)arg)
#define CELL(x) (&ORDER->cells[*(x)])
#define SITE(x) (&ORDER->sites->places[CELL(x)->place])
#define LINE(x) ORDER->sites->lines.names[CELL(x)->line]
MT_ORDER_BY(coalescing_by_request, size_t,
            MT_ORDER_TEXT(CELL(x)->kernel, CELL(y)->kernel) MT_ORDER_TEXT(LINE(x), LINE(y))
                MT_ORDER_DIFFER(CELL(x), CELL(y), type))

static size_t *coalescing_order(const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct cells_order o = {c->cells, sites};
    return mt_sorted_numbers(c->count, coalescing_by_request, &o);
}

MT_ORDER_BY(coalescing_by_site, size_t,
            MT_ORDER_TEXT(LINE(x), LINE(y)) MT_ORDER_DIFFER(SITE(x), SITE(y), column)
                MT_ORDER_TEXT(ORDER->sites->vars.names[SITE(x)->var], ORDER->sites->vars.names[SITE(y)->var])
                    MT_ORDER_TEXT(CELL(x)->kernel, CELL(y)->kernel) MT_ORDER_DIFFER(CELL(x), CELL(y), type))

static size_t *coalescing_sites_order(const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct cells_order o = {c->sites.cells, sites};
    return mt_sorted_numbers(c->sites.count, coalescing_by_site, &o);
}

static void coalescing_figures(struct mt_tuples *w, const struct mt_coalescing_cell *c)
{
    mt_tuples_numbers(w, MT_NUMBERS(c->requests, c->accesses, c->bytes, c->distinct, c->sectors, c->lines));
}

static void launches_coalescing_request(struct mt_tuples *w, const struct mt_comm_result *r,
                                        const struct mt_coalescing_cell *c)
{
    mt_tuples_text(w, c->kernel);
    mt_tuples_place(w, r->sites->lines.names[c->line]);
    mt_tuples_text(w, mt_access_types[c->type]);
}

static void coalescing_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_coalescing_cell *c = &x->r->locality->coalescing.cells[((const size_t *)x->data)[i]];
    launches_coalescing_request(w, x->r, c);
    coalescing_figures(w, c);
    mt_tuples_real(w, mt_efficiency(c->distinct, c->sectors));
    mt_tuples_number(w, c->single);
    mt_tuples_number(w, c->irregular);
}

int mt_rows_of_coalescing(struct mt_rowset *x)
{
    x->row = coalescing_row;
    x->n = x->r->locality->coalescing.count;
    x->order = x->data = coalescing_order(&x->r->locality->coalescing, x->r->sites);
    return x->data ? 0 : -1;
}

static void coalescing_site(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_sites *sites = x->r->sites;
    const struct mt_coalescing_cell *c =
        &x->r->locality->coalescing.sites.cells[((const size_t *)x->data)[i]];
    const struct mt_site_location *p = &sites->places[c->place];
    mt_tuples_place(w, sites->lines.names[c->line]);
    mt_tuples_number(w, p->column);
    mt_tuples_text(w, p->var ? sites->vars.names[p->var] : NULL);
    mt_tuples_text(w, c->kernel);
    mt_tuples_text(w, mt_access_types[c->type]);
    coalescing_figures(w, c);
}

MT_ROWS_OF_LIST(coalescing_sites, coalescing_site,
                coalescing_sites_order(&x->r->locality->coalescing, x->r->sites),
                x->r->locality->coalescing.sites.count)

/* Compares by cell, then by stride; `arg` is the output position of each cell. */
static int coalescing_by_stride(const void *a, const void *b, void *arg)
{
    const struct mt_coalescing_stride *x = a, *y = b;
    const size_t *place = arg;
    if (x->cell != y->cell)
        return place[x->cell] < place[y->cell] ? -1 : 1;
    return x->stride < y->stride ? -1 : x->stride > y->stride;
}

static void coalescing_lane_stride(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_coalescing_stride *s = &((const struct mt_coalescing_stride *)x->data)[i];
    launches_coalescing_request(w, x->r, &x->r->locality->coalescing.cells[s->cell]);
    mt_tuples_number(w, (uint64_t)s->stride);
    mt_tuples_number(w, s->requests);
}

/* Rows of strides, sorted by cell in output order, then by stride. */
int mt_rows_of_lane_strides(struct mt_rowset *x)
{
    const struct mt_coalescing *c = &x->r->locality->coalescing;
    size_t *order = coalescing_order(c, x->r->sites), *place = malloc((c->count + 1) * sizeof *place);
    for (size_t i = 0; order && place && i < c->count; i++)
        place[order[i]] = i;
    if (order && place)
        x->data = mt_sorted_copy(c->strides, c->nstrides, sizeof *c->strides, coalescing_by_stride, place);
    x->row = coalescing_lane_stride;
    x->n = c->nstrides;
    free(order);
    free(place);
    return x->data ? 0 : -1;
}

int mt_coalescing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!mt_locality_has_masks(r->locality) && !r->locality->coalescing.ungrouped) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_COALESCING], NULL);
        return 0;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_COALESCING], 0);
    mt_json_u64(j, "unmasked", r->locality->coalescing.unmasked);
    int rc = mt_relation_json(j, r, MT_REL_coalescing, MT_REL_lane_strides, 1);
    rc = rc ? rc : mt_relation_json(j, r, MT_REL_coalescing_sites, MT_REL_NONE, 1);
    mt_json_end(j);
    return rc;
}

/* Returns a remark if lanes that are 16 bytes apart access less than that, such as halves of a float4. */
const char *mt_coalescing_remark(const struct mt_comm_result *r)
{
    const struct mt_coalescing *c = &r->locality->coalescing;
    for (size_t i = 0; i < c->nstrides; i++) {
        const struct mt_coalescing_cell *x = &c->cells[c->strides[i].cell];
        if ((c->strides[i].stride == 16 || c->strides[i].stride == -16) && x->bytes < 16 * x->accesses)
            return mt_table_halves;
    }
    return NULL;
}

int mt_coalescing_text(struct mt_text *t)
{
    const struct mt_coalescing *c = &t->r->locality->coalescing;
    if (!mt_locality_has_masks(t->r->locality)) {
        fprintf(t->f, "\nCoalescing: not known, %s\n",
                c->ungrouped && c->ungrouped == c->unmasked
                    ? "the accesses are not grouped into requests: their kernels ran a thread at a time"
                    : "the trace has no lane masks");
        return 0;
    }
    /* the usual stride is the most frequent one, the smallest of equally frequent ones */
    if (mt_text_table(
            t,
            "Coalescing: 32-byte sectors and 128-byte lines per request of a warp, most traffic first; "
            "efficiency: different bytes asked for / bytes moved",
            "WITH usual AS (SELECT *, row_number() OVER (PARTITION BY kernel, file, line, type "
            "ORDER BY requests DESC, stride) AS nth FROM lane_strides) "
            "SELECT place(c.file, c.line) AS line, kernel(c.kernel) AS kernel, c.type, c.requests AS "
            "'>requests', fixed(1.0 * accesses / c.requests, 1) AS '>lanes', "
            "fixed(1.0 * sectors / c.requests, 2) AS '>sectors', "
            "fixed(1.0 * lines / c.requests, 2) AS '>lines', "
            "fixed(100.0 * efficiency, 1) || ' %' AS '>efficiency', "
            "CASE WHEN u.requests >= irregular AND u.requests >= single THEN stride "
            "WHEN irregular >= single THEN 'irregular' ELSE 'one lane' END AS '>usual stride' "
            "FROM coalescing c LEFT JOIN usual u ON u.nth = 1 AND u.kernel = c.kernel AND u.file IS "
            "c.file AND u.line IS c.line AND u.type = c.type ORDER BY sectors DESC, c.rowid") != 0)
        return -1;
    if (mt_coalescing_remark(t->r))
        fprintf(t->f, "  %s\n", mt_coalescing_remark(t->r));
    if (c->unmasked > c->ungrouped)
        fprintf(t->f, "  %" PRIu64 " accesses have no lane mask and are left out\n",
                c->unmasked - c->ungrouped);
    if (c->ungrouped)
        fprintf(t->f,
                "  %" PRIu64
                " accesses are not grouped into requests (their kernels ran a thread at a time) and are "
                "left out\n",
                c->ungrouped);
    return 0;
}

const char mt_coalescing_sentences[] =
    "SELECT 'apart', 'coalescing', 60, 0, printf('Coalescing of %s%s is not known: the accesses of %s warps "
    "are not grouped into requests as on a GPU.', mark(kernel(first), first), iif(n > 1, ' and ' || many(n - "
    "1, "
    "'other kernel', 'other kernels'), ''), iif(n > 1, 'their', 'its')) "
    "FROM (SELECT min(kernel) AS first, count(*) AS n FROM apart WHERE kernel IN (SELECT kernel FROM "
    "coalescing)) WHERE n; "
    "WITH c AS (SELECT *, rowid AS id, 32 * sectors AS moved, max(32 * sectors - distinct_bytes, 0) AS vain "
    "FROM coalescing WHERE kernel NOT IN (SELECT kernel FROM apart)), "
    "t AS (SELECT sum(moved) AS everything, sum(vain) AS lost FROM c) "
    "SELECT 'coalescing', 'coalescing', 60, lost >= 0.1 * everything, CASE WHEN lost < 0.1 * everything THEN "
    "printf('Accesses are well coalesced: warps use %s of the bytes that they fetch or store.', "
    "share(everything - "
    "lost, everything)) "
    "ELSE printf('Warps use %s of the %s that they fetch or store. Worst: the %s at %s, %s sectors per "
    "request, %s used%s.', share(everything - lost, everything), bytes(everything), type, "
    "iif(file IS NULL, mark(kernel(kernel), kernel), mark(place(file, line), coalesce(file || ':' || line, "
    "file))), rounded(1.0 * sectors / requests, 1), share(distinct_bytes, moved), "
    "iif(EXISTS (SELECT 1 FROM lane_strides s WHERE s.kernel = c.kernel AND s.file IS c.file AND s.line IS "
    "c.line AND s.type = c.type AND abs(s.stride) = 16 AND c.bytes < 16 * c.accesses), "
    "' (clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not)', '')) END "
    "FROM c, t WHERE everything ORDER BY vain DESC, id LIMIT 1";

/* ---- Races: bytes accessed by two CTAs of a launch, at least one by a plain store ---- */

MT_ORDER_BY(conflicts_by_side, struct mt_conflict,
            MT_ORDER_TEXT(x->kernel, y->kernel) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(x, y, side[0]) MT_ORDER_DIFFER(x, y, side[1]))

struct conflict_rows {
    struct mt_conflict *list;
    struct mt_false_pair *pairs;
    struct mt_buffers buffers;
};

static void conflicts_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    struct conflict_rows *rows = x->data;
    const struct mt_conflict *c = &rows->list[i];
    mt_buffers_launch(&rows->buffers, c->seq);
    const struct mt_alloc_event *a = mt_buffers_find(&rows->buffers, c->address);
    mt_tuples_number(w, c->superstep);
    mt_tuples_text(w, c->kernel);
    for (int k = 0; k < 2; k++) {
        mt_tuples_text(w, mt_access_types[mt_side_type(c->side[k])]);
        mt_tuples_place(w, x->r->sites->lines.names[mt_side_line(c->side[k])]);
        mt_tuples_cta(w, c->cta[k]);
    }
    mt_tuples_number(w, c->bytes);
    mt_tuples_number(w, c->address);
    mt_tuples_buffer(w, x->r->locality, a ? mt_buffers_place(&rows->buffers, a) : UINT64_MAX);
    mt_tuples_number(w, c->cooperative != 0);
}

static void conflicts_end(struct mt_rowset *x)
{
    struct conflict_rows *rows = x->data;
    mt_buffers_free(&rows->buffers);
    free(rows->list);
    free(rows->pairs);
    free(rows);
}

/* Begins rows that need the allocations; NULL without memory. */
static struct conflict_rows *conflicts_rows(struct mt_rowset *x)
{
    const struct mt_locality *m = x->r->locality;
    struct conflict_rows *rows = calloc(1, sizeof *rows);
    if (rows && mt_buffers_init(&rows->buffers, m->allocs, m->nallocs) != 0) {
        free(rows);
        return NULL;
    }
    x->data = rows;
    x->end = rows ? conflicts_end : NULL;
    return rows;
}

int mt_rows_of_conflicts(struct mt_rowset *x)
{
    const struct mt_conflicts *c = &x->r->locality->conflicts;
    struct conflict_rows *rows = conflicts_rows(x);
    if (!rows || !(rows->list = mt_sorted_copy(c->list, c->count, sizeof *c->list, conflicts_by_side, NULL)))
        return -1;
    x->row = conflicts_row;
    x->n = c->count;
    return 0;
}

/* ---- False sharing between threads of a host program ---- */

MT_ORDER_BY(false_pairs_by_accesses, struct mt_false_pair,
            MT_ORDER_DIFFER(y, x, accesses) MT_ORDER_DIFFER(x, y, superstep) MT_ORDER_DIFFER(x, y, side[0])
                MT_ORDER_DIFFER(x, y, side[1]))

static void false_pairs_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    struct conflict_rows *rows = x->data;
    const struct mt_false_pair *f = &rows->pairs[i];
    mt_buffers_launch(&rows->buffers, f->seq);
    const struct mt_alloc_event *a = mt_buffers_find(&rows->buffers, f->address[0]);
    mt_tuples_text(w, f->kernel);
    mt_tuples_buffer(w, x->r->locality, a ? mt_buffers_place(&rows->buffers, a) : UINT64_MAX);
    for (int k = 0; k < 2; k++) {
        mt_tuples_text(w, mt_access_types[mt_side_type(f->side[k])]);
        mt_tuples_place(w, x->r->sites->lines.names[mt_side_line(f->side[k])]);
    }
    const uint64_t apart =
        f->address[0] < f->address[1] ? f->address[1] - f->address[0] : f->address[0] - f->address[1];
    mt_tuples_numbers(w, MT_NUMBERS(f->accesses, f->handed, f->lines, apart, f->thread[0] >> 32,
                                    f->thread[1] >> 32, f->address[0]));
}

int mt_rows_of_false_pairs(struct mt_rowset *x)
{
    const struct mt_conflicts *c = &x->r->locality->conflicts;
    struct conflict_rows *rows = conflicts_rows(x);
    if (!rows || !(rows->pairs = mt_sorted_copy(c->near_list, c->nnear, sizeof *c->near_list,
                                                false_pairs_by_accesses, NULL)))
        return -1;
    x->row = false_pairs_row;
    x->n = c->nnear;
    return 0;
}

/* Returns 0 for a mat trace of a host program, which has no order. */
static int conflicts_known(const struct mt_comm_result *r)
{
    return r->comm->options.threads != 1;
}

int mt_conflicts_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!conflicts_known(r))
        return 0;
    int rc = mt_relation_json(j, r, MT_REL_conflicts, MT_REL_NONE, 0);
    if (rc == 0 && r->comm->options.threads) /* not written for traces of kernels */
        rc = mt_relation_json(j, r, MT_REL_false_pairs, MT_REL_NONE, 0);
    return rc;
}

int mt_conflicts_text(struct mt_text *t)
{
    if (!conflicts_known(t->r))
        return 0;
    if (t->r->comm->options.threads &&
        mt_text_table(
            t,
            "False sharing between threads: different bytes of one cache line that nothing orders, at least "
            "one side stores",
            "SELECT label AS buffer, word(a_type) || ' ' || place(a_file, a_line) AS one, word(b_type) || ' "
            "' "
            "|| place(b_file, b_line) AS other, accesses AS '>accesses', handed AS '>transfers', lines AS "
            "'>lines', distance AS '>bytes apart', a_thread AS '>thread', b_thread AS '>thread' FROM "
            "false_pairs") != 0)
        return -1;
    /* columns of a single launch show the first one */
    return mt_text_table(
        t,
        MT_EITHER("Races between CTAs of one launch, unless the program orders them: bytes that both access, "
                  "at least one with a plain store",
                  "Races between threads, unless the program orders them: bytes that both access, at least "
                  "one with a plain store"),
        "SELECT kernel(kernel) AS kernel, word(a_type) || ' ' || place(a_file, a_line) AS one, "
        "word(b_type) || ' ' || place(b_file, b_line) AS other, count(*) AS '>launches', "
        "sum(bytes) AS '>bytes', min(launch) AS '>launch', printf('0x%x', address) AS address, "
        "cta(a_x, a_y, a_z) AS CTA, cta(b_x, b_y, b_z) AS CTA, "
        "iif(cooperative, 'cooperative', '') AS note FROM conflicts c GROUP BY c.kernel, a_type, "
        "a_file, a_line, b_type, b_file, b_line ORDER BY 5 DESC, c.kernel, min(launch)");
}

/* Pairs of less than a sixteenth of what their lines do are ends of neighbouring parts. Threads that come one
 * after the other pass each cache line on once. */
#define FALSE_PAIRS_SENTENCE                                                                                 \
    "WITH moved AS (SELECT file, line, sum(loads + stores + atomics) AS n FROM lines GROUP BY file, line), " \
    "f AS (SELECT p.*, p.rowid AS id FROM false_pairs p WHERE accesses >= 64 AND 16 * accesses >= "          \
    "coalesce((SELECT min(n) FROM moved m WHERE (m.file, m.line) IN (VALUES (a_file, a_line), (b_file, "     \
    "b_line))), 0)), "                                                                                       \
    "b AS (SELECT label, sum(accesses) AS accesses, sum(handed) AS handed, sum(lines) AS lines, count(*) "   \
    "AS pairs FROM f GROUP BY label) "                                                                       \
    "SELECT 'false', 'false', 70, 1, printf('False sharing in %s: %s and %s of different threads touch "     \
    "bytes that are %s apart, in one cache line of %s%s; %s. At %s apart they would not.%s', "               \
    "mark(f.label, ''), "                                                                                    \
    "mark(word(a_type) || iif(a_file IS NULL, '', ' ' || place(a_file, a_line)), a_file || ':' || a_line), " \
    "mark(word(b_type) || iif(b_file IS NULL, '', ' ' || place(b_file, b_line)), b_file || ':' || b_line), " \
    "bytes(distance), bytes(line_size), iif(b.pairs > 1, printf(' (and %s)', many(b.pairs - 1, 'more "       \
    "pair', 'more pairs')), ''), iif(b.handed > b.lines, printf('they overlapped in this run: %s of the "    \
    "line', many(b.handed, 'transfer', 'transfers')), 'by layout only: in this run the threads did not "     \
    "overlap there, but nothing orders them'), bytes(line_size), iif((SELECT count(*) FROM b) > 1, "         \
    "printf(' Also in %s.', many((SELECT count(*) FROM b) - 1, 'other buffer', 'other buffers')), '')) "     \
    "FROM f JOIN b ON b.label = f.label, run ORDER BY b.accesses DESC, f.accesses DESC, f.id LIMIT 1; "

const char mt_conflicts_sentences[] = FALSE_PAIRS_SENTENCE
    "SELECT 'conflicts', 'conflicts', 10, 0, either('No races between CTAs of one launch.', "
    "'No races between threads in this run: locks, atomics, or start and end of threads ordered all plain "
    "stores and accesses to the same bytes. Threads that ran one after another by chance may hide a race.') "
    "FROM run WHERE launches AND records + host_accesses AND (NOT threads OR timed) AND NOT EXISTS (SELECT 1 "
    "FROM conflicts); "
    " SELECT 'conflicts', '', 10, 0, 'Races between threads are not known: a mat trace does not order their "
    "accesses (memtrace host atomic and mt-cc --host=atomic do).' FROM run WHERE threads AND timed = 0 AND "
    "EXISTS (SELECT 1 FROM launch_volumes WHERE ctas > 1); "
    "SELECT 'conflicts', 'conflicts', 10, 1, printf(either('%s between CTAs of one launch, unless the "
    "program orders them; the largest in %s: %s against %s on %s.', "
    "'%s between threads, unless the program orders them; the largest in %s: %s against %s on %s.'), "
    "many(count(*) OVER (), 'possible race', 'possible races'), mark(kernel(kernel), kernel), "
    "mark(iif(a_file IS NULL, '', place(a_file, a_line) || ' ') || word(a_type), a_file || ':' || a_line), "
    "mark(iif(b_file IS NULL, '', place(b_file, b_line) || ' ') || word(b_type), b_file || ':' || b_line), "
    "bytes(bytes)) "
    "FROM conflicts WHERE NOT coalesce(cooperative, 0) ORDER BY bytes DESC, rowid LIMIT 1; "
    "SELECT 'conflicts', 'conflicts', 10, 0, printf('%s in cooperative launches, whose barriers of the grid "
    "may "
    "order them, are not judged.', many(count(*), 'pair of accesses', 'pairs of accesses')) FROM conflicts "
    "WHERE "
    "cooperative HAVING count(*)";

/* ---- Cache lines shared by CTAs, by launch and allocation ---- */

MT_ORDER_BY(sharing_by_alloc, struct mt_sharing_cell,
            MT_ORDER_TEXT(x->kernel, y->kernel) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(x, y, alloc + 1)) /* + 1 puts UINT64_MAX (none) first */

static const char *sharing_kernel(const struct mt_comm *c, const struct mt_sharing_line *line)
{
    return c ? c->launches[line->superstep].kernel : NULL;
}

/* Compares lines by accesses, false sharing first since it can be avoided. arg NULL: ignores kernels. */
MT_ORDER_BY(sharing_by_accesses, struct mt_sharing_line,
            MT_ORDER_TEXT(sharing_kernel(arg, x), sharing_kernel(arg, y)) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(y, x, kind) MT_ORDER_DIFFER(y, x, accesses) MT_ORDER_DIFFER(x, y, address))

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

int mt_sharing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    mt_json_object(j, mt_locality_names[MT_LOCALITY_SHARING], 0);
    mt_json_u64(j, "line_size", 1ull << r->locality->sharing.options.line_bits);
    int rc = mt_relation_json(j, r, MT_REL_sharing, MT_REL_shared_lines, 1);
    mt_json_end(j);
    return rc;
}

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

const char mt_sharing_sentences[] =
    "WITH b AS (SELECT kernel, label, coalesce(allocation, 1 << 62) AS at, sum(iif(sharing = 'false', "
    "accesses, 0)) AS bad, sum(accesses) AS n FROM sharing WHERE accesses GROUP BY kernel, allocation, "
    "label), "
    "k AS (SELECT DISTINCT kernel, sum(bad) OVER w AS bad, sum(n) OVER w AS n, first_value(label) OVER "
    "(PARTITION BY kernel ORDER BY bad DESC, at) AS label FROM b WINDOW w AS (PARTITION BY kernel)), "
    "s AS (SELECT *, 1.0 * bad / n AS part, row_number() OVER (ORDER BY 1.0 * bad / n DESC, bad DESC, "
    "kernel) AS nth FROM k WHERE bad AND 1.0 * bad / n >= 0.01 ORDER BY nth) "
    "SELECT 'sharing', 'sharing', 70, max(part) > 0.1, printf(either('False sharing of %s-byte lines between "
    "CTAs: %s%s.', 'False sharing of %s-byte lines between threads: %s%s.'), grouped(line_size), "
    "(SELECT group_concat(printf('%s of %s of %s, most in %s', share(bad, n), iif(nth > 1, 'those', "
    "'the accesses'), mark(kernel(kernel), kernel), mark(label, '')), '; ') FROM s WHERE nth < 4), "
    "iif(count(*) > 3, '; also in ' || many(count(*) - 3, 'other kernel', 'other kernels'), '')) "
    "FROM s, run WHERE NOT (threads AND timed) GROUP BY line_size"; /* else false_pairs has them */

/* ---- Allocations by launch, and double buffering: a kernel reads one buffer and writes the other, and its
 * next launch swaps them ---- */

static void traffic_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_traffic_grid *g = &x->r->locality->traffic.launches;
    const struct mt_traffic_cell *c = &g->cells[i];
    mt_tuples_buffer(w, x->r->locality, c->alloc);
    mt_tuples_numbers(
        w, MT_NUMBERS((uint64_t)c->superstep << g->step_bits, 1ull << g->step_bits, c->load, c->store));
    for (int type = MT_LOAD; type <= MT_UNKNOWN; type++)
        mt_tuples_number(w, c->accesses[type]);
}

MT_ROWS(traffic, traffic_row, x->r->locality->traffic.launches.count)

static void traffic_call(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_alloc_event *a = &x->r->locality->allocs[i];
    mt_tuples_number(w, a->id);
    mt_tuples_text(w, a->kind);
    mt_tuples_text(w, a->file);
    mt_tuples_numbers(w, MT_NUMBERS(a->line, a->like > 1 ? a->like : 1, mt_alloc_bytes(a)));
}

MT_ROWS(calls, traffic_call, x->r->locality->nallocs)

/* Writes the allocation of launches[*i]; moves *i and *k past its cells. */
static void traffic_write_alloc(struct mt_json *j, const struct mt_locality *m, size_t *i, size_t *k)
{
    const struct mt_traffic *t = &m->traffic;
    const uint64_t alloc = t->launches.cells[*i].alloc;
    const struct mt_alloc_event *a = alloc < m->nallocs ? &m->allocs[alloc] : NULL;
    char label[MT_ALLOC_LABEL];
    mt_json_object(j, mt_alloc_label(label, m, alloc), 0);
    if (a) {
        mt_json_u64(j, "id", a->id);
        mt_json_u64(j, "bytes", a->bytes);
        mt_json_u64(j, "piece", 1ull << (mt_traffic_piece_bits(a->bytes) + t->heat.piece_bits));
    }
    mt_json_array(j, "launches", 0);
    for (; *i < t->launches.count && t->launches.cells[*i].alloc == alloc; ++*i) {
        const struct mt_traffic_cell *c = &t->launches.cells[*i];
        mt_json_numbers(j, NULL,
                        MT_NUMBERS((uint64_t)c->superstep << t->launches.step_bits, c->load, c->store,
                                   c->accesses[0], c->accesses[1], c->accesses[2], c->accesses[3]));
    }
    mt_json_end(j);
    mt_json_array(j, "heat", 0);
    for (; *k < t->heat.count && t->heat.cells[*k].alloc == alloc; ++*k) {
        const struct mt_traffic_cell *c = &t->heat.cells[*k];
        mt_json_numbers(j, NULL,
                        MT_NUMBERS((uint64_t)c->superstep << t->heat.step_bits, c->piece, c->load, c->store));
    }
    mt_json_end(j);
    mt_json_end(j);
}

int mt_traffic_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    const struct mt_traffic *t = &m->traffic;
    if (!m->nallocs) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_TRAFFIC], NULL);
        return 0;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_TRAFFIC], 0);
    mt_json_u64(j, "launch_step", 1ull << t->launches.step_bits);
    mt_json_u64(j, "heat_step", 1ull << t->heat.step_bits);
    mt_json_object(j, "allocations", 0);
    for (size_t i = 0, k = 0; i < t->launches.count;)
        traffic_write_alloc(j, m, &i, &k);
    mt_json_end(j);
    mt_json_end(j);
    return mt_heap_json(j, r);
}

int mt_traffic_text(struct mt_text *t)
{
    if (mt_heap_text(t) != 0)
        return -1;
    return mt_text_table(
        t,
        MT_EITHER("Allocations: number of launches that read and wrote each",
                  "Allocations: number of runs that read and wrote each"),
        "SELECT label AS allocation, ifnull(bytes, '-') AS '>bytes', sum(load > 0) AS '>read in', sum(store "
        "> 0) "
        "AS '>written in', sum(load) AS '>bytes loaded', sum(store) AS '>bytes stored', min(launch) AS "
        "'>first', max(launch) AS '>last launch' FROM traffic t LEFT JOIN calls c ON c.allocation = "
        "t.allocation GROUP BY t.allocation ORDER BY sum(load) + sum(store) DESC, min(t.rowid)");
}

const char mt_traffic_sentences[] =
    "WITH u AS MATERIALIZED (SELECT launch, allocation, load AND NOT store AS reads, store AND NOT load AS "
    "writes FROM traffic WHERE load + store AND allocation IS NOT NULL), "
    "l AS MATERIALIZED (SELECT launch, kernel, lag(launch) OVER (PARTITION BY kernel ORDER BY launch) AS "
    "before FROM (SELECT DISTINCT launch FROM u) CROSS JOIN launches ON id = launch), "
    "f AS (SELECT x.launch, x.allocation, x.writes, bytes FROM u x CROSS JOIN l ON l.launch = x.launch CROSS "
    "JOIN u y ON y.launch = before AND y.allocation = x.allocation CROSS JOIN allocations a ON a.id = "
    "x.allocation "
    "WHERE (x.writes AND y.reads) OR (x.reads AND y.writes)), "
    "flips AS (SELECT *, row_number() OVER (PARTITION BY launch, writes, bytes ORDER BY allocation) AS nth "
    "FROM f), "
    "swaps AS (SELECT launch, bytes, min(allocation) AS a, max(allocation) AS b FROM flips GROUP BY launch, "
    "bytes, nth HAVING count(*) = 2), "
    "pairs AS (SELECT kernel, bytes, a, b, count(*) AS times, row_number() OVER (PARTITION BY a, b) = 1 AS "
    "first FROM swaps CROSS JOIN l ON l.launch = swaps.launch GROUP BY kernel, a, b) "
    "SELECT 'turns', 'buffers', 110, 0, printf(either('Double buffering: %s reads one of %s and %s (%s each) "
    "and writes the other, and its next launch swaps them, %s%s.', 'Double buffering: %s reads one of %s and "
    "%s (%s each) and writes the other, and its next run swaps them, %s%s.'), "
    "mark(kernel(kernel), kernel), mark((SELECT label FROM traffic WHERE allocation = a), ''), mark((SELECT "
    "label FROM traffic WHERE allocation = b), ''), bytes(bytes), many(times, 'time', 'times'), iif(n > "
    "1, '; ' || many(n - 1, 'more pair', 'more pairs'), '')) "
    "FROM pairs, (SELECT sum(first) AS n FROM pairs) WHERE NOT EXISTS (SELECT 1 FROM traffic WHERE launches "
    "> 1) ORDER BY times DESC, bytes DESC, a, b, kernel LIMIT 1; "
    "SELECT 'growing', 'buffers', 85, 0, printf('realloc at %s is called %s times, for %s in total: does the "
    "buffer grow in small steps?', mark(place(file, line), file || ':' || line), grouped(times), "
    "bytes(bytes)) "
    "FROM calls, run WHERE kind = 'realloc' AND times >= 16 AND file IS NOT NULL AND records + host_accesses "
    "ORDER BY bytes DESC, calls.rowid LIMIT 1; "
    "SELECT 'heap', 'buffers', 84, 0, printf('The heap is largest with %s in %s, after %s of %s; most is "
    "held by "
    "%s%s: %s.', bytes(p.bytes), many(p.blocks, 'block', 'blocks'), grouped(p.nth), many(p.allocations, "
    "'allocation', 'allocations'), iif(h.file IS NULL, h.kind, mark(place(h.file, h.line), h.file || ':' || "
    "h.line)), iif(h.callers IS NULL, '', ' (called from ' || callers(h.callers) || ')'), "
    "bytes(h.peak_bytes)) "
    "FROM heap_peak p, heap h ORDER BY h.rowid LIMIT 1";

/* ---- Communication between devices if the CTAs were split over several ---- */

static void launches_placement_distinct(struct mt_tuples *w, const struct mt_placement *p,
                                        const uint64_t *bytes, size_t i)
{
    if (p->distinct_known)
        mt_tuples_number(w, bytes[i]);
    else
        mt_tuples_null(w, 1);
}

static void placement_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const size_t launch = i / MT_PLACE_POLICIES, policy = i % MT_PLACE_POLICIES;
    const struct mt_placement_launch *l = &x->r->placement->launches[launch];
    if (!x->r->comm->launches[launch].selected)
        return;
    mt_tuples_number(w, launch);
    mt_tuples_text(w, x->r->comm->launches[launch].kernel);
    mt_tuples_text(w, mt_placement_policies[policy]);
    mt_tuples_number(w, l->load);
    mt_tuples_number(w, l->cross[policy]);
    launches_placement_distinct(w, x->r->placement, l->distinct, policy);
}

MT_ROWS(placement, placement_row, x->r->placement->nlaunches *MT_PLACE_POLICIES)

static void placement_way(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    const size_t pairs = (size_t)p->devices * p->devices, policy = i / pairs, pair = i % pairs;
    mt_tuples_text(w, mt_placement_policies[policy]);
    mt_tuples_numbers(w, MT_NUMBERS(pair / p->devices, pair % p->devices, p->traffic[policy][pair]));
    launches_placement_distinct(w, p, p->distinct_traffic[policy], pair);
}

MT_ROWS(placement_traffic, placement_way,
        (size_t)x->r->placement->devices * x->r->placement->devices * MT_PLACE_POLICIES)

static void placement_cta(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    mt_tuples_number(w, MT_FIRST(l, p->nlaunches, p->launches[l].end > i));
    mt_tuples_cta(w, mt_cta_of_order(p->ctas[i]));
    mt_tuples_number(w, p->device[MT_PLACE_MINCUT][i]);
}

MT_ROWS(placement_ctas, placement_cta, x->r->placement->nnodes)

static void placement_run(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    mt_tuples_numbers(w, MT_NUMBERS(p->devices, p->load));
    mt_tuples_maybe(w, p->ran_known, p->ran);
}

MT_ROWS(placed, placement_run, 1)

static void placement_matrix(struct mt_json *j, const char *key, const uint64_t *bytes, unsigned devices)
{
    if (!bytes) {
        mt_json_text(j, key, NULL);
        return;
    }
    mt_json_array(j, key, 1);
    for (unsigned from = 0; from < devices; from++)
        mt_json_numbers(j, NULL, devices, bytes + (size_t)from * devices);
    mt_json_end(j);
}

static void placement_policies(struct mt_json *j, const struct mt_placement *p)
{
    mt_json_object(j, "policies", 0);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        mt_json_object(j, mt_placement_policies[policy], 1);
        mt_json_u64(j, "cross", p->cross[policy]);
        if (p->distinct_known)
            mt_json_u64(j, "distinct", p->distinct[policy]);
        else
            mt_json_text(j, "distinct", NULL);
        placement_matrix(j, "traffic", p->traffic[policy], p->devices);
        placement_matrix(j, "distinct_traffic", p->distinct_traffic[policy], p->devices);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* Writes the bytes of each policy; NULL: unknown. */
static void placement_write_distinct(struct mt_json *j, const uint64_t *bytes)
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

static void placement_assignment(struct mt_json *j, const struct mt_placement *p,
                                 const struct mt_placement_launch *l)
{
    char cta[64];
    for (size_t i = l->first; i < l->end; i++)
        mt_json_u64(j, mt_cta_key(cta, p->ctas[i]), p->device[MT_PLACE_MINCUT][i]);
}

static void placement_launch(struct mt_json *j, const struct mt_placement *p,
                             const struct mt_placement_launch *l)
{
    mt_json_u64(j, "load", l->load);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++)
        mt_json_u64(j, mt_placement_policies[policy], l->cross[policy]);
    placement_write_distinct(j, p->distinct_known ? l->distinct : NULL);
}

int mt_placement_write(struct mt_json *j, const struct mt_comm_result *r, int by_launch)
{
    const struct mt_placement *p = r->placement;
    const struct mt_comm *c = r->comm;
    size_t *order = mt_launches_sorted(c);
    if (!order)
        return -1;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_PLACEMENT], 0);
    mt_json_u64(j, "devices", p->devices);
    mt_json_u64(j, "load", p->load);
    if (p->ran_known)
        mt_json_u64(j, "ran", p->ran);
    placement_policies(j, p);
    for (int assignment = 0; by_launch && assignment < 2; assignment++) {
        const char *kernel = NULL;
        char step[64];
        mt_json_object(j, assignment ? "assignment" : "kernels", 0);
        for (size_t i = 0; i < p->nlaunches; i++) {
            const struct mt_placement_launch *l = &p->launches[order[i]];
            const struct mt_comm_launch *of = &c->launches[order[i]];
            if (!assignment && !of->selected)
                continue;
            if (kernel && mt_order_text(kernel, of->kernel) != 0)
                mt_json_end(j);
            if (!kernel || mt_order_text(kernel, of->kernel) != 0)
                mt_json_object(j, kernel = of->kernel, 0);
            mt_json_object(j, mt_key_u64(step, order[i]), 1);
            if (assignment)
                placement_assignment(j, p, l);
            else
                placement_launch(j, p, l);
            mt_json_end(j);
        }
        if (kernel)
            mt_json_end(j);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(order);
    return 0;
}

int mt_placement_text(struct mt_text *t)
{
    struct mt_text all = *t;
    char title[200];
    all.rows = MT_PLACE_POLICIES + 1;
    snprintf(title, sizeof title,
             "Placement on %u devices: how much of %" PRIu64
             " bytes of communication would cross between them",
             t->r->placement->devices, t->r->placement->load);
    return mt_text_table(
        &all, title,
        "SELECT 'as it ran' AS placement, ran AS '>bytes', percent(ran, load) AS '>part', '' AS "
        "'>distinct bytes' FROM placed WHERE ran IS NOT NULL UNION ALL SELECT * FROM (SELECT column2, "
        "ifnull(sum(crossing), 0), percent(sum(crossing), sum(load)), iif(count(distinct_bytes) < "
        "count(policy), '?', ifnull(sum(distinct_bytes), 0)) "
        "FROM (VALUES ('block', 'blocks of CTAs'), ('robin', 'round robin'), ('mincut', 'least traffic "
        "found')) LEFT JOIN placement ON policy = column1 GROUP BY column1, column2 ORDER BY column1 = "
        "'mincut', column1)");
}

const char mt_placement_sentences[] =
    "WITH p AS (SELECT policy, sum(crossing) AS crossing FROM placement GROUP BY policy) "
    "SELECT 'placement', 'placement', 140, 0, printf('Split over %s, %s would cross between devices (best "
    "placement tried: %s)%s.', many(devices, 'device', 'devices'), iif(crossing, share(crossing, load) || ' "
    "of the communication', 'no communication'), "
    "CASE policy WHEN 'block' THEN 'blocks of CTAs' WHEN 'robin' THEN 'round robin' ELSE 'least traffic "
    "found' END, coalesce('; as it ran: ' || iif(ran IS NULL, NULL, share(ran, load)), '')) "
    "FROM placed, run, (SELECT * FROM p ORDER BY crossing, CASE policy WHEN 'block' THEN 0 WHEN 'robin' THEN "
    "1 ELSE 2 END LIMIT 1) WHERE load AND NOT threads AND (ran IS NULL OR ran > crossing)";
