/* Misses of a cache that each thread of a host program has, by source line. */
#include "summary.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

MT_ORDER_BY(misses_by_number, struct mt_miss,
            MT_ORDER_DIFFER(y, x, misses) MT_ORDER_DIFFER(y, x, accesses)
                MT_ORDER_TEXT(((const struct mt_sites *)arg)->lines.names[x->line],
                              ((const struct mt_sites *)arg)->lines.names[y->line])
                    MT_ORDER_TEXT(x->kernel, y->kernel))

/* ---- rows ---- */

static void misses_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_miss *m = &((const struct mt_miss *)x->data)[i];
    mt_tuples_text(w, m->kernel);
    mt_tuples_place(w, x->r->sites->lines.names[m->line]);
    mt_tuples_numbers(w, MT_NUMBERS(m->accesses, m->misses, m->store_misses, m->fetched, m->used));
}

MT_ROWS_OF_LIST(misses, misses_row,
                mt_sorted_copy(x->r->locality->misses.list, x->r->locality->misses.count,
                               sizeof(struct mt_miss), misses_by_number, (void *)(uintptr_t)x->r->sites),
                x->r->locality->misses.count)

/* ---- JSON ---- */

int mt_misses_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_misses *x = &r->locality->misses;
    if (!x->known)
        return 0; /* of traces of kernels there is no such member */
    mt_json_object(j, mt_locality_names[MT_LOCALITY_MISSES], 0);
    mt_json_u64(j, "bytes", x->options.cache_bytes);
    mt_json_u64(j, "ways", x->options.cache_ways);
    mt_json_u64(j, "line_size", 1ull << x->options.line_bits);
    int rc = mt_relation_json(j, r, MT_REL_misses, MT_REL_NONE, 1);
    mt_json_end(j);
    return rc;
}

/* ---- text ---- */

int mt_misses_text(struct mt_text *t)
{
    const struct mt_misses *x = &t->r->locality->misses;
    char title[200];
    if (!x->known)
        return 0;
    snprintf(
        title, sizeof title,
        "Misses of a cache of %u bytes, %u ways and lines of %llu bytes that each thread has, and what is "
        "used of what they fetch",
        x->options.cache_bytes, x->options.cache_ways, 1ull << x->options.line_bits);
    return mt_text_table(t, title,
                         "SELECT place(file, line) AS line, accesses AS '>accesses', misses AS '>misses', "
                         "percent(misses, accesses) AS '>part', store_misses AS '>by stores', fetched AS "
                         "'>bytes fetched', used AS '>used', percent(used, fetched) AS '>part' FROM misses");
}

/* ---- sentences ---- */

const char mt_misses_sentences[] =
    "WITH t AS (SELECT sum(misses) AS missed, sum(accesses) AS everything FROM misses) "
    "SELECT 'misses', 'misses', 80, worth AND missed > everything / 50 AND used < fetched / 2, "
    "printf('Caches of %s miss %s of %s', bytes(cache_size), share(missed, everything), many(everything, "
    "'access', 'accesses')) || "
    "iif(worth, printf('; most is fetched in vain by %s: %s of its accesses miss, %s used of what they "
    "fetch.', mark(place(file, line), coalesce(file || ':' || line, file)), share(misses, accesses), "
    "share(used, fetched)), '.') "
    "FROM (SELECT *, rowid AS id, misses >= 64 AND fetched - used >= fetched / 4 AS worth FROM misses), t, "
    "run WHERE missed ORDER BY fetched - used DESC, id LIMIT 1";
