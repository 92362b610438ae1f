/* The results of all analyses, one after another. */
#include "results.h"
#include "sql.h"
#include "summary.h"

void mt_tuples_buffer(struct mt_tuples *w, const struct mt_locality *m, uint64_t alloc)
{
    if (alloc < m->nallocs)
        mt_tuples_number(w, m->allocs[alloc].id);
    else
        mt_tuples_null(w, 1);
    mt_tuples_text(w, mt_alloc_label(w->label, m, alloc));
}

unsigned mt_relations_section(enum mt_relation_number number)
{
    const enum mt_relation_of of = mt_relations[number].of;
    return of <= MT_OF_RANGES || of == MT_OF_ONCHIP ? 0
                                                    : 1u << (of - MT_OF_RANGES - 1); /* in the same order */
}

unsigned mt_relations_of(unsigned chosen)
{
    unsigned which = 0;
    for (int i = 0; i < MT_RELATIONS; i++) {
        unsigned needs = mt_relations_section((enum mt_relation_number)i);
        which |= (unsigned)(!needs || needs & chosen ? 1 : 0) << i;
    }
    return which;
}

mt_rows_of *const mt_rows_of_tables[MT_TABLES] = {
#define MT_RELATION(name, of, path, what) mt_rows_of_##name,
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "output/rows/relations.def"
};

int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r)
{
    struct mt_rowset x = {.r = r};
    int rc = mt_tuples_begin(w, number);
    if (rc == 0 && mt_rows_of_tables[number](&x) != 0)
        return mt_tuples_memory(w);
    for (size_t i = 0; i < x.n && rc == 0; i++) {
        x.row(w, &x, i);
        rc = w->at ? mt_tuples_next(w) : 0;
    }
    mt_rows_end(&x);
    return rc == 0 ? mt_tuples_end(w) : rc;
}

/* What each analysis of runs has. */
static const struct {
    int (*json)(struct mt_json *, const struct mt_comm_result *);
    int (*text)(struct mt_text *);
} results[MT_LOCALITY_OF_RUNS] = {
#define MT_ANALYSIS(NAME, name, ...) {mt_##name##_json, mt_##name##_text},
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
};

int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r, int assignment)
{
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].json(j, r);
    return rc || !(r->chosen >> MT_LOCALITY_PLACEMENT & 1) ? rc : mt_placement_write(j, r, assignment);
}

int mt_results_text(FILE *f, const struct mt_comm_result *r, size_t rows, const struct mt_onchip *shared)
{
    struct mt_sql sql;
    struct mt_text t = {f, r, rows, &sql};
    char why[300];
    int rc = mt_sql_open(&sql, why, sizeof why);
    sql.r = r;
    if (rc == 0 && r->sections & ~(1u << MT_TRANSFERS))
        rc = mt_comm_text(&t);
    rc = rc ? rc : mt_estimates_text(&t);
    if (rc == 0 && r->sections & 1u << MT_TRANSFERS)
        rc = mt_transfers_text(&t);
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].text(&t);
    if (rc == 0 && r->chosen >> MT_LOCALITY_PLACEMENT & 1)
        rc = mt_placement_text(&t);
    rc = rc || !shared ? rc : mt_shared_text(&t, shared);
    mt_sql_close(&sql);
    return rc;
}
