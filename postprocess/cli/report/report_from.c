/* Reads the sections of a comm.json (docs/man/memtrace-extract.md) back into the flat lists of a report. */
#define _GNU_SOURCE
#include "report_from.h"
#include "cli/base/comm_file.h"
#include "cli/base/cli.h"
#include <stdlib.h>
#include <string.h>

struct reading {
    struct mt_report *r;
    char why[300]; /* it is not as it should be, or "": there is no memory */
    /* of the section under way: */
    int comm, ctas;
};

static uint32_t report_from_superstep(struct mt_found *f, unsigned star)
{
    const uint64_t n = mt_found_key(f, star);
    if (n >= MT_REPORT_ALL)
        mt_found_wrong(f, f->key[star]);
    return (uint32_t)n;
}

static int report_from_parts(struct mt_found *f)
{
    struct reading *x = f->arg;
    struct mt_report_part *p = x->ctas ? MT_REPORT_ADD(x->r->ctas) : MT_REPORT_ADD(x->r->sms);
    if (!p)
        return -1;
    p->superstep = report_from_superstep(f, 2);
    p->key = x->ctas ? mt_found_cta(f, 3) : mt_found_key(f, 3);
    *(x->comm ? &p->volume.comm_load : &p->volume.load) = mt_found_number(f, "Load");
    *(x->comm ? &p->volume.comm_store : &p->volume.store) = mt_found_number(f, "Store");
    return f->failed ? -1 : 0;
}

/* ---- launches ---- */

static int report_from_launch(struct reading *x, sqlite3_stmt *row)
{
    const uint64_t superstep = (uint64_t)sqlite3_column_int64(row, 0);
    const char *name = (const char *)sqlite3_column_text(row, 1);
    const uint32_t kernel = name ? mt_report_kernel(x->r, name) : UINT32_MAX;
    struct mt_report_launch *l = kernel == UINT32_MAX ? NULL : MT_REPORT_ADD(x->r->launches);
    if (!l)
        return -1;
    if (superstep >= MT_REPORT_ALL)
        snprintf(x->why, sizeof x->why, "there are launches beyond %u", MT_REPORT_ALL - 1);
    l->kernel = kernel;
    l->superstep = (uint32_t)superstep;
    uint64_t *const volume[] = {&l->volume.load,       &l->volume.store,       &l->volume.comm_load,
                                &l->volume.comm_store, &l->volume.same_launch, &l->volume.same_cta};
    for (int i = 0; i < 6; i++)
        *volume[i] = (uint64_t)sqlite3_column_int64(row, i + 2);
    return *x->why ? -1 : 0;
}

/* By kernel, as the sections have them: kernels have their numbers in this order. */
static int report_from_launches(struct reading *x, struct mt_sql *sql)
{
    static const char text[] = "SELECT launch, kernel, load, store, comm_load, comm_store, from_same_launch, "
                               "from_same_cta FROM launch_volumes ORDER BY kernel, launch";
    sqlite3_stmt *row =
        sql->there >> MT_REL_launch_volumes & 1 ? mt_sql_prepare(sql, text, x->why, sizeof x->why) : NULL;
    int rc = 0;
    while (row && rc == 0 && sqlite3_step(row) == SQLITE_ROW)
        rc = report_from_launch(x, row);
    sqlite3_finalize(row);
    return rc;
}

static int launch_order(const void *a, const void *b)
{
    const struct mt_report_launch *p = a, *q = b;
    if (p->superstep != q->superstep)
        return p->superstep < q->superstep ? -1 : 1;
    return p->kernel < q->kernel ? -1 : p->kernel > q->kernel;
}

/* Launches in order, with their numbers of CTAs and SMs. 0, or -1 with x->why: others have some. */
static int report_from_settle(struct reading *x)
{
    struct mt_report *r = x->r;
    size_t cta = 0, sm = 0, found = 0;
    r->ctas.n = mt_report_merge_parts(r->ctas.at, r->ctas.n);
    r->sms.n = mt_report_merge_parts(r->sms.at, r->sms.n);
    if (r->launches.n)
        qsort(r->launches.at, r->launches.n, sizeof *r->launches.at, launch_order);
    for (size_t i = 0; i < r->launches.n; i++) {
        struct mt_report_launch *l = &r->launches.at[i];
        for (; cta < r->ctas.n && r->ctas.at[cta].superstep <= l->superstep; cta++)
            l->ctas += r->ctas.at[cta].superstep == l->superstep;
        for (; sm < r->sms.n && r->sms.at[sm].superstep <= l->superstep; sm++)
            l->sms += r->sms.at[sm].superstep == l->superstep;
        found += l->ctas + l->sms;
    }
    if (found == r->ctas.n + r->sms.n)
        return 0;
    snprintf(x->why, sizeof x->why, "CTAs and SMs are of other launches than volumes");
    return -1;
}

/* ---- transfers ---- */

/* Its kernel, CTA and superstep are these stars. */
static struct mt_report_end report_from_end(struct mt_found *f, unsigned star)
{
    struct reading *x = f->arg;
    struct mt_report_end end = {.kernel = mt_report_kernel(x->r, f->key[star] ? f->key[star] : ""),
                                .superstep = report_from_superstep(f, star + 2)};
    end.cta = end.kernel == MT_REPORT_HOST ? MT_REPORT_NO_CTA : mt_found_cta(f, star + 1);
    return end;
}

static int report_from_transfer(struct mt_found *f)
{
    struct reading *x = f->arg;
    struct mt_report_transfer *t = MT_REPORT_ADD(x->r->transfers);
    if (!t)
        return -1;
    t->src = report_from_end(f, 1);
    t->dst = report_from_end(f, 4);
    t->size = mt_found_number(f, "Size");
    t->count = mt_found_number(f, "cnt");
    return f->failed || t->src.kernel == UINT32_MAX || t->dst.kernel == UINT32_MAX ? -1 : 0;
}

/* ---- the whole ---- */

static const char **report_from_texts(const json_t *array, size_t *n)
{
    *n = json_array_size(array);
    const char **out = calloc(*n + 1, sizeof *out);
    for (size_t i = 0; out && i < *n; i++) {
        const char *s = json_string_value(json_array_get(array, i));
        out[i] = s ? s : "";
    }
    return out;
}

static uint64_t report_from_total(const json_t *o, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(o, key));
}

/* Older files have only numbers. */
static int report_from_gaps(struct mt_report *r, const json_t *o)
{
    const json_t *list = json_object_get(o, "gaps");
    for (size_t i = 0; i < MT_GAPS && json_string_value(json_array_get(list, i)); i++)
        if (!(r->gaps.sentence[i] = strdup(json_string_value(json_array_get(list, i)))))
            return -1;
    const json_t *apart = json_object_get(o, "apart");
    for (size_t i = 0; json_string_value(json_array_get(apart, i)); i++)
        if (mt_gaps_apart(&r->gaps, json_string_value(json_array_get(apart, i))) != 0)
            return -1;
    int of_run = r->kernels_text || r->supersteps_text;
    struct mt_untraced untraced = {.accesses = r->untraced_accesses};
    if (list)
        return 0;
    return mt_gaps_launches(&r->gaps, report_from_total(o, "untraced_launches"), of_run) |
           mt_gaps_untraced(&r->gaps, &untraced, of_run);
}

static int report_from_head(struct mt_report *r, struct mt_report_from *f, json_t *o)
{
    const json_t *options = json_object_get(o, "options");
    const char *same = json_string_value(json_object_get(options, "same-cta"));
    f->inputs = report_from_texts(json_object_get(o, "inputs"), &r->ninputs);
    f->notes = report_from_texts(json_object_get(o, "notes"), &r->nnotes);
    r->inputs = f->inputs;
    r->notes = f->notes;
    r->from_json = 1;
    r->local = same && strcmp(same, "local") == 0;
    r->strict = json_is_true(json_object_get(options, "strict"));
    r->host = json_is_true(json_object_get(options, "host"));
    r->kernels_text = json_string_value(json_object_get(options, "kernels"));
    r->supersteps_text = json_string_value(json_object_get(options, "supersteps"));
    r->run_launches = report_from_total(o, "launches");
    r->records = report_from_total(o, "records");
    r->reported = r->kernels_text || r->supersteps_text ? UINT64_MAX : r->records;
    r->unknown = report_from_total(o, "unknown");
    r->untraced_accesses = report_from_total(o, "untraced");
    r->host_accesses = report_from_total(o, "host_accesses");
    return f->inputs && f->notes ? report_from_gaps(r, o) : -1;
}

static int report_from_sections(struct reading *x, struct mt_found *f, struct mt_sql *sql)
{
    static const struct {
        const char *pattern;
        int comm, ctas;
        unsigned has;
        int (*f)(struct mt_found *); /* NULL: of launches */
    } known[] = {{"KDV/*/*", 0, 0, MT_REPORT_DATA_VOLUMES, NULL},
                 {"KCV/*/*", 1, 0, MT_REPORT_COMM_VOLUMES, NULL},
                 {"senders/*/*", 1, 0, MT_REPORT_SENDERS, NULL},
                 {"CDV/*/*/*", 0, 1, MT_REPORT_CTAS, report_from_parts},
                 {"CCV/*/*/*", 1, 1, MT_REPORT_CTAS, report_from_parts},
                 {"SDV/*/*/*", 0, 0, MT_REPORT_SMS, report_from_parts},
                 {"SCV/*/*/*", 1, 0, MT_REPORT_SMS, report_from_parts},
                 {"transfers/*/*/*/*/*/*", 0, 0, MT_REPORT_TRANSFERS, report_from_transfer}};
    int rc = report_from_launches(x, sql);
    for (size_t i = 0; i < sizeof known / sizeof *known && rc == 0; i++) {
        if (!mt_found_section(known[i].pattern, f->root))
            continue;
        x->r->has |= known[i].has;
        x->comm = known[i].comm;
        x->ctas = known[i].ctas;
        rc = known[i].f ? mt_found_each(f, known[i].pattern, known[i].f) : 0;
    }
    if (!(x->r->has & MT_REPORT_COMM_VOLUMES))
        x->r->has &= ~(unsigned)MT_REPORT_SENDERS;
    return rc ? rc : report_from_settle(x);
}

/* ---- what the page shows as it is in the file ---- */

enum { DEEPEST = 40 }; /* of a file that memtrace extract did not write; what lies below becomes null */

static void copy_value(struct mt_json *j, const char *key, json_t *v, int depth)
{
    const char *member;
    json_t *below;
    size_t i;
    switch (depth > DEEPEST ? JSON_NULL : json_typeof(v)) {
    case JSON_OBJECT:
        mt_json_object(j, key, 1);
        json_object_foreach(v, member, below) if (strcmp(member, "assignment") !=
                                                  0) /* of placement: a line per CTA instance */
            copy_value(j, member, below, depth + 1);
        mt_json_end(j);
        break;
    case JSON_ARRAY:
        mt_json_array(j, key, 1);
        json_array_foreach(v, i, below) copy_value(j, NULL, below, depth + 1);
        mt_json_end(j);
        break;
    case JSON_STRING:
        mt_json_text(j, key, json_string_value(v));
        break;
    case JSON_INTEGER:
        mt_json_i64(j, key, json_integer_value(v));
        break;
    case JSON_REAL:
        mt_json_real(j, key, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        mt_json_bool(j, key, json_is_true(v));
        break;
    default:
        mt_json_text(j, key, NULL);
    }
}

static int copy_members(void *arg, struct mt_json *j)
{
    static const char *const names[] = {"HCV", "HDV", "estimates"};
    const size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n + MT_LOCALITY_SECTIONS; i++) {
        const char *name = i < n ? names[i] : mt_locality_names[i - n];
        json_t *v = json_object_get(arg, name);
        if (v)
            copy_value(j, name, v, 0);
    }
    return 0;
}

/* All tables. One that is not as it should be is left out: what the page shows as it is may be anything. 0,
 * or -1 with x->why. */
static int report_from_tables(struct reading *x, struct mt_sql *sql, const json_t *root, const char *path)
{
    char before[sizeof x->why] = "";
    for (int i = 0; i < MT_TABLES; i++) {
        if (mt_sql_fill(sql, root, 1ull << i, x->why, sizeof x->why) == 0)
            continue;
        if (i == MT_REL_launches || i == MT_REL_launch_volumes)
            return -1;
        if (strcmp(before, x->why) != 0)
            mt_cli_note("%s: %s", path, x->why);
        memcpy(before, x->why, sizeof before);
        *x->why = 0;
    }
    return 0;
}

/* 0, or -1 with x->why. */
static int report_from_read(struct reading *x, struct mt_report_from *f, struct mt_sql *sql,
                            struct mt_summary *summary, const char *path)
{
    struct mt_found found = {.root = f->json, .arg = x, .why = x->why};
    x->r->threads = mt_of_threads = json_object_get(f->json, "misses") || json_object_get(f->json, "bounces");
    x->r->more = copy_members;
    x->r->more_arg = f->json;
    if (report_from_tables(x, sql, f->json, path) != 0 || report_from_head(x->r, f, f->json) != 0 ||
        report_from_sections(x, &found, sql) != 0)
        return -1;
    return mt_summary_make(summary, sql, NULL);
}

int mt_report_from(struct mt_report *r, struct mt_report_from *f, struct mt_summary *summary,
                   const char *path)
{
    struct reading x = {.r = r};
    struct mt_sql sql;
    int code;
    if (!(f->json = mt_comm_file(path, &code)))
        return code;
    if (mt_sql_open(&sql, x.why, sizeof x.why) != 0)
        return mt_cli_fail("%s", x.why);
    const int failed = report_from_read(&x, f, &sql, summary, path) != 0;
    mt_sql_close(&sql);
    if (!failed)
        return mt_comm_file_complete(f->json, &r->complete);
    r->has = 0; /* nothing to show */
    mt_cli_say("%s: %s", path, *x.why ? x.why : "no memory");
    return *x.why ? MT_EXIT_INPUT : MT_EXIT_FAILURE;
}

void mt_report_from_free(struct mt_report_from *f)
{
    json_decref(f->json);
    free(f->inputs);
    free(f->notes);
}
