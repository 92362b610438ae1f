/* Bytes by source line, variable and allocation. */
#include "summary.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

struct lines_order {
    const struct mt_lines_cell *cells;
    char *const *names; /* of their places; NULL: they are allocations */
};

/* Lines and variables by their bytes, allocations by id, what is not known (UINT64_MAX) in front of them. */
static int lines_by_place(const void *a, const void *b, void *arg)
{
    const struct lines_order *o = arg;
    const struct mt_lines_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    if (o->names)
        MT_ORDER_TEXT(o->names[x->place], o->names[y->place])
    MT_ORDER_DIFFER(x, y, place + 1)
    return mt_locality_compare_text(x->kernel, y->kernel);
}

/* ---- rows ---- */

static void lines_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_lines_cell *c = &x->r->locality->lines.cells[x->which][x->order[i]];
    mt_tuples_text(w, c->kernel);
    if (x->which == MT_BY_LINE)
        mt_tuples_place(w, x->r->sites->lines.names[c->place]);
    else if (x->which == MT_BY_VAR)
        mt_tuples_text(w, c->place ? x->r->sites->vars.names[c->place] : NULL);
    else
        mt_tuples_buffer(w, x->r->locality, c->place);
    mt_tuples_numbers(w, MT_NUMBERS(c->load, c->store, c->accesses[MT_LOAD], c->accesses[MT_STORE],
                                    c->accesses[MT_ATOMIC], c->accesses[MT_UNKNOWN]));
}

static int lines_rows(struct mt_rowset *x, enum mt_lines_by by)
{
    const struct mt_sites *sites = x->r->sites;
    struct lines_order o = {x->r->locality->lines.cells[by], by == MT_BY_LINE  ? sites->lines.names
                                                             : by == MT_BY_VAR ? sites->vars.names
                                                                               : NULL};
    x->row = lines_row;
    x->which = by;
    x->n = x->r->locality->lines.count[by];
    x->order = x->data = mt_sorted_numbers(x->n, lines_by_place, &o);
    return x->data ? 0 : -1;
}

int mt_rows_of_lines(struct mt_rowset *x)
{
    return lines_rows(x, MT_BY_LINE);
}

int mt_rows_of_variables(struct mt_rowset *x)
{
    return lines_rows(x, MT_BY_VAR);
}

int mt_rows_of_buffers(struct mt_rowset *x)
{
    return lines_rows(x, MT_BY_ALLOC);
}

/* ---- JSON ---- */

int mt_lines_json(struct mt_json *j, const struct mt_comm_result *r)
{
    static const char *const keys[] = {"lines", "variables", "allocations"};
    static const enum mt_relation_number tables[] = {MT_REL_lines, MT_REL_variables, MT_REL_buffers};
    int rc = 0;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_LINES], 0);
    for (int by = 0; by < MT_LINES_BY && rc == 0; by++)
        if (mt_locality_has_sites(r->locality, (enum mt_lines_by)by))
            rc = mt_relation_json(j, r, tables[by], MT_REL_NONE, 1);
        else
            mt_json_text(j, keys[by], NULL);
    mt_json_end(j);
    return rc;
}

/* ---- text ---- */

int mt_lines_text(struct mt_text *t)
{
#define LINES_COLUMNS                                                                                        \
    "kernel(kernel) AS kernel, loads AS '>loads', stores AS '>stores', atomics AS '>atomics', "              \
    "load AS '>bytes loaded', store AS '>bytes stored'"
    static const char *const what[][2] = {
        {"Bytes by source line",
         "SELECT place(file, line) AS line, " LINES_COLUMNS " FROM lines ORDER BY load + store DESC, rowid"},
        {"Bytes by variable", "SELECT coalesce(variable, '?') AS variable, " LINES_COLUMNS
                              " FROM variables ORDER BY load + store DESC, rowid"},
        {"Bytes by allocation",
         "SELECT label AS allocation, " LINES_COLUMNS " FROM buffers ORDER BY load + store DESC, rowid"}};
    int rc = 0;
    for (int by = 0; rc == 0 && by < MT_LINES_BY; by++)
        if (mt_locality_has_sites(t->r->locality, (enum mt_lines_by)by))
            rc = mt_text_table(t, what[by][0], what[by][1]);
        else
            fprintf(t->f, "\n%s: not known\n", what[by][0]);
    return rc;
}

/* ---- sentences ---- */

const char mt_lines_sentences[] =
    "WITH l AS (SELECT file, line, sum(load + store) AS moved FROM lines GROUP BY file, line), "
    "t AS (SELECT sum(moved) AS everything, count(file) AS known FROM l) "
    "SELECT 'line', 'lines&line=' || file || ':' || line, 50, 0, printf('Line %s moves most of %s: %s, %s of "
    "all bytes.', mark(place(file, line), file || ':' || line), many(known, 'line', 'lines'), bytes(moved), "
    "share(moved, everything)) "
    "FROM l, t WHERE file IS NOT NULL AND known > 1 AND everything ORDER BY moved DESC, file || ':' || line "
    "LIMIT 1";
