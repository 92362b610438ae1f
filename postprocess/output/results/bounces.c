/* Cache lines that threads of a host program hand over, modified. */
#include "summary.h"
#include <stdlib.h>

/* ---- order ---- */

MT_ORDER_BY(bounces_by_times, struct mt_bounce,
            MT_ORDER_DIFFER(y, x, times) MT_ORDER_DIFFER(x, y, superstep) MT_ORDER_DIFFER(x, y, line[0])
                MT_ORDER_DIFFER(x, y, line[1]) MT_ORDER_DIFFER(x, y, alloc) MT_ORDER_DIFFER(x, y, type))

/* ---- rows ---- */

static void bounces_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_bounce *b = &((const struct mt_bounce *)x->data)[i];
    mt_tuples_text(w, b->kernel);
    mt_tuples_buffer(w, x->r->locality, b->alloc);
    for (int k = 0; k < 2; k++)
        mt_tuples_place(w, x->r->sites->lines.names[b->line[k]]);
    mt_tuples_text(w, mt_access_types[b->type]);
    mt_tuples_numbers(w, MT_NUMBERS(b->times, b->same, b->thread[0] >> 32, b->thread[1] >> 32, b->address));
}

MT_ROWS_OF_LIST(bounces, bounces_row,
                mt_sorted_copy(x->r->locality->bounces.list, x->r->locality->bounces.count,
                               sizeof(struct mt_bounce), bounces_by_times, NULL),
                x->r->locality->bounces.count)

/* ---- JSON ---- */

int mt_bounces_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!r->locality->bounces.known)
        return 0; /* of traces without threads in order there is no such member */
    return mt_relation_json(j, r, MT_REL_bounces, MT_REL_NONE, 0);
}

/* ---- text ---- */

int mt_bounces_text(struct mt_text *t)
{
    if (!t->r->locality->bounces.known)
        return 0;
    return mt_text_table(
        t,
        "Cache lines handed over, modified, from one thread to another: by who stored last and "
        "who takes over",
        "SELECT label AS buffer, place(from_file, from_line) AS 'stored by', place(to_file, "
        "to_line) AS 'taken by', word(type) AS type, times AS '>times', same_bytes AS "
        "'>common bytes', times - same_bytes AS '>other bytes', from_thread AS '>thread', "
        "to_thread AS '>thread' FROM bounces");
}

/* ---- sentences ---- */

const char mt_bounces_sentences[] =
    "WITH t AS (SELECT sum(times) AS times FROM bounces), top AS (SELECT * FROM bounces ORDER BY rowid LIMIT "
    "1), "
    "b AS (SELECT sum(b.times) AS times, sum(b.times - b.same_bytes) AS others FROM bounces b, top WHERE "
    "b.label = top.label) "
    "SELECT 'bounces', 'bounces', 90, others > b.times / 2, printf('Cache lines go from thread to thread %s, "
    "those of %s %s: %s for other bytes than were stored (false sharing), mostly from %s to %s.', "
    "many(t.times, 'time', 'times'), mark(label, ''), grouped(b.times), share(others, b.times), "
    "mark(place(from_file, from_line), from_file || ':' || from_line), mark(place(to_file, to_line), to_file "
    "|| ':' || to_line)) FROM t, top, b WHERE b.times";
