/* Cache lines that threads of a host program hand over, modified. */
#include "summary.h"
#include <stdlib.h>

/* ---- order ---- */

static int bounces_by_times(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_bounce *x = a, *y = b;
    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (x->line[i] != y->line[i])
            return x->line[i] < y->line[i] ? -1 : 1;
    return x->alloc != y->alloc ? x->alloc < y->alloc ? -1 : 1 : (int)x->type - (int)y->type;
}

static struct mt_bounce *bounces_sorted(const struct mt_bounces *x)
{
    return mt_sorted_copy(x->list, x->count, sizeof *x->list, bounces_by_times, NULL);
}

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

int mt_rows_of_bounces(struct mt_rowset *x)
{
    x->row = bounces_row;
    x->n = x->r->locality->bounces.count;
    x->data = bounces_sorted(&x->r->locality->bounces);
    return x->data ? 0 : -1;
}

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
