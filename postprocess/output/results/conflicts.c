/* Bytes that two CTAs of a launch access, one of them with a plain store. */
#include "summary.h"
#include "analysis/base/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

MT_ORDER_BY(conflicts_by_side, struct mt_conflict,
            MT_ORDER_TEXT(x->kernel, y->kernel) MT_ORDER_DIFFER(x, y, superstep)
                MT_ORDER_DIFFER(x, y, side[0]) MT_ORDER_DIFFER(x, y, side[1]))

/* ---- rows ---- */

struct conflict_rows {
    struct mt_conflict *list;
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
    free(rows);
}

int mt_rows_of_conflicts(struct mt_rowset *x)
{
    const struct mt_locality *m = x->r->locality;
    struct conflict_rows *rows = calloc(1, sizeof *rows);
    struct mt_conflict *list =
        rows ? mt_sorted_copy(m->conflicts.list, m->conflicts.count, sizeof *list, conflicts_by_side, NULL)
             : NULL;
    if (!list || mt_buffers_init(&rows->buffers, m->allocs, m->nallocs) != 0) {
        free(list);
        free(rows);
        return -1;
    }
    rows->list = list;
    x->row = conflicts_row;
    x->end = conflicts_end;
    x->n = m->conflicts.count;
    x->data = rows;
    return 0;
}

/* A mat trace of a host program has no order. */
static int conflicts_known(const struct mt_comm_result *r)
{
    return r->comm->options.threads != 1;
}

/* ---- JSON ---- */

int mt_conflicts_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!conflicts_known(r))
        return 0;
    return mt_relation_json(j, r, MT_REL_conflicts, MT_REL_NONE, 0);
}

/* ---- text ---- */

int mt_conflicts_text(struct mt_text *t)
{
    if (!conflicts_known(t->r))
        return 0;
    /* what is of one launch alone is of the first */
    return mt_text_table(
        t,
        MT_EITHER("Conflicts: bytes that two CTAs of one launch access, at least one with a plain store "
                  "(races, unless the program orders them)",
                  "Conflicts: bytes that two threads access, at least one with a plain store (races, unless "
                  "the program orders them)"),
        "SELECT kernel(kernel) AS kernel, word(a_type) || ' ' || place(a_file, a_line) AS one, "
        "word(b_type) || ' ' || place(b_file, b_line) AS other, count(*) AS '>launches', "
        "sum(bytes) AS '>bytes', min(launch) AS '>launch', printf('0x%x', address) AS address, "
        "cta(a_x, a_y, a_z) AS CTA, cta(b_x, b_y, b_z) AS CTA, "
        "iif(cooperative, 'cooperative', '') AS note FROM conflicts c GROUP BY c.kernel, a_type, "
        "a_file, a_line, b_type, b_file, b_line ORDER BY 5 DESC, c.kernel, min(launch)");
}

/* ---- sentences ---- */

const char mt_conflicts_sentences[] =
    "SELECT 'conflicts', 'conflicts', 10, 0, either('No two CTAs of one launch conflict: none writes with a "
    "plain store what another one touches.', "
    "'No two threads conflict in this run: what one writes with a plain store and another one touches was in "
    "order, by locks, atomics, or begin and end of threads. Threads that took turns by chance may hide a "
    "conflict.') "
    "FROM run WHERE launches AND records + host_accesses AND (NOT threads OR timed) AND NOT EXISTS (SELECT 1 "
    "FROM conflicts); "
    " SELECT 'conflicts', '', 10, 0, 'Whether threads conflict is not known: a mat trace has no order of "
    "their "
    "accesses (memtrace host atomic, mt-cc --host=atomic have it).' FROM run WHERE threads AND timed = 0 AND "
    "EXISTS (SELECT 1 FROM launch_volumes WHERE ctas > 1); "
    "SELECT 'conflicts', 'conflicts', 10, 1, printf(either('%s between CTAs of one launch (races, unless the "
    "program orders them), the largest in %s: %s against %s on %s.', "
    "'%s between threads (races, unless the program orders them), the largest in %s: %s against %s on %s.'), "
    "many(count(*) OVER (), 'conflict', 'conflicts'), mark(kernel(kernel), kernel), "
    "mark(iif(a_file IS NULL, '', place(a_file, a_line) || ' ') || word(a_type), a_file || ':' || a_line), "
    "mark(iif(b_file IS NULL, '', place(b_file, b_line) || ' ') || word(b_type), b_file || ':' || b_line), "
    "bytes(bytes)) "
    "FROM conflicts ORDER BY bytes DESC, rowid LIMIT 1";
