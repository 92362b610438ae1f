/* Requests of warps by source line: sectors, lines, strides of lanes. */
#include "summary.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

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

/* ---- rows ---- */

static void coalescing_figures(struct mt_tuples *w, const struct mt_coalescing_cell *c)
{
    mt_tuples_numbers(w, MT_NUMBERS(c->requests, c->accesses, c->bytes, c->distinct, c->sectors, c->lines));
}

static void coalescing_request(struct mt_tuples *w, const struct mt_comm_result *r,
                               const struct mt_coalescing_cell *c)
{
    mt_tuples_text(w, c->kernel);
    mt_tuples_place(w, r->sites->lines.names[c->line]);
    mt_tuples_text(w, mt_access_types[c->type]);
}

static void coalescing_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_coalescing_cell *c = &x->r->locality->coalescing.cells[((const size_t *)x->data)[i]];
    coalescing_request(w, x->r, c);
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

/* `arg`: the place of each cell in the order of the output. */
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
    coalescing_request(w, x->r, &x->r->locality->coalescing.cells[s->cell]);
    mt_tuples_number(w, (uint64_t)s->stride);
    mt_tuples_number(w, s->requests);
}

/* By cell in the order of the output, then by stride. */
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

/* ---- JSON ---- */

int mt_coalescing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!mt_locality_has_masks(r->locality)) {
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

/* ---- text ---- */

/* Do lanes access less than the 16 bytes that they are apart, as in halves of a float4? */
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
        fputs("\nCoalescing: not known, the trace has no lane masks\n", t->f);
        return 0;
    }
    /* the usual stride is that of most requests; of equal ones the smallest */
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
    if (c->unmasked)
        fprintf(t->f, "  %" PRIu64 " accesses have no lane mask and are left out\n", c->unmasked);
    return 0;
}

/* ---- sentences ---- */

const char mt_coalescing_sentences[] =
    "SELECT 'apart', 'coalescing', 60, 0, printf('It is not known how well the accesses of %s%s go together: "
    "lanes of %s warps were taken apart.', mark(kernel(first), first), iif(n > 1, ' and ' || many(n - 1, "
    "'other kernel', 'other kernels'), ''), iif(n > 1, 'their', 'its')) "
    "FROM (SELECT min(kernel) AS first, count(*) AS n FROM apart WHERE kernel IN (SELECT kernel FROM "
    "coalescing)) WHERE n; "
    "WITH c AS (SELECT *, rowid AS id, 32 * sectors AS moved, max(32 * sectors - distinct_bytes, 0) AS vain "
    "FROM coalescing WHERE kernel NOT IN (SELECT kernel FROM apart)), "
    "t AS (SELECT sum(moved) AS everything, sum(vain) AS lost FROM c) "
    "SELECT 'coalescing', 'coalescing', 60, lost >= 0.1 * everything, CASE WHEN lost < 0.1 * everything THEN "
    "printf('Warps use %s of the sectors that they move: accesses are well coalesced.', share(everything - "
    "lost, everything)) "
    "ELSE printf('Warps use %s of the %s that they move; most is lost by the %s at %s: %s sectors per "
    "request, %s used%s.', share(everything - lost, everything), bytes(everything), type, "
    "iif(file IS NULL, mark(kernel(kernel), kernel), mark(place(file, line), coalesce(file || ':' || line, "
    "file))), rounded(1.0 * sectors / requests, 1), share(distinct_bytes, moved), "
    "iif(EXISTS (SELECT 1 FROM lane_strides s WHERE s.kernel = c.kernel AND s.file IS c.file AND s.line IS "
    "c.line AND s.type = c.type AND abs(s.stride) = 16 AND c.bytes < 16 * c.accesses), "
    "' (clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not)', '')) END "
    "FROM c, t WHERE everything ORDER BY vain DESC, id LIMIT 1";
