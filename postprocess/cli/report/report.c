/* memtrace report: writes an HTML page about traces. */
#define _GNU_SOURCE
#include "cli/base/kind.h"
#include "cli/base/cli.h"
#include "cli/base/pipeline.h"
#include "cli/base/commands.h"
#include "cli/base/graph_input.h"
#include "cli/base/two_runs.h"
#include "analysis/base/buffers.h"
#include "analysis/comm/comm.h"
#include "analysis/graph/graph.h"
#include "analysis/check/findings.h"
#include "analysis/check/memory.h"
#include "analysis/onchip/onchip.h"
#include "analysis/comm/team.h"
#include "output/json/comm_json.h"
#include "output/text/table.h"
#include "output/results/summary.h"
#include "page/fold.h"
#include "page/report.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_begin(struct mt_report *r)
{
    memset(r, 0, sizeof *r);
    r->complete = 1;
    return mt_report_kernel(r, MT_HOST_NAME) == MT_REPORT_HOST ? 0 : -1;
}

/* ---- data from the analysis ---- */

static int report_take_launch(struct mt_report *r, const struct mt_comm *c, uint32_t superstep)
{
    const struct mt_comm_launch *l = &c->launches[superstep];
    size_t ctas = r->ctas.n, sms = r->sms.n;
    struct mt_report_launch *launch = MT_REPORT_ADD(r->launches);
    if (!launch)
        return -1;
    launch->superstep = superstep;
    launch->kernel = mt_report_kernel(r, l->kernel);
    if (launch->kernel == UINT32_MAX)
        return -1;
    for (uint32_t i = l->first; i < l->end; i++) {
        const struct mt_actor *a = &c->actors[i];
        struct mt_report_part *cta = MT_REPORT_ADD(r->ctas), *sm = MT_REPORT_ADD(r->sms);
        if (!cta || !sm)
            return -1;
        cta->superstep = sm->superstep = superstep;
        cta->key = mt_cta_order(a->cta);
        sm->key = a->smid;
        cta->volume = sm->volume = (struct mt_report_volume){a->load,
                                                             a->store,
                                                             mt_actor_comm_load(a),
                                                             a->comm_store,
                                                             a->from[MT_FROM_SAME_LAUNCH],
                                                             a->from[MT_FROM_SAME_CTA]};
        mt_report_volume_add(&launch->volume, &cta->volume);
    }
    if (l->end > l->first) {
        r->ctas.n = ctas + mt_report_merge_parts(r->ctas.at + ctas, r->ctas.n - ctas);
        r->sms.n = sms + mt_report_merge_parts(r->sms.at + sms, r->sms.n - sms);
    }
    launch->ctas = (uint32_t)(r->ctas.n - ctas);
    launch->sms = (uint32_t)(r->sms.n - sms);
    return 0;
}

static struct mt_report_end report_end_of(const struct mt_comm *c, const uint32_t *kernels, uint32_t id)
{
    if (id & MT_ENTRY_HOST)
        return (struct mt_report_end){MT_REPORT_HOST, c->hosts[id & MT_ENTRY_MAX].superstep,
                                      MT_REPORT_NO_CTA};
    const struct mt_actor *a = &c->actors[id];
    return (struct mt_report_end){kernels[a->launch], a->launch, mt_cta_order(a->cta)};
}

/* Returns the kernel number by superstep, for all launches: launches excluded by a filter may be writers. */
static uint32_t *report_number_kernels(struct mt_report *r, const struct mt_comm *c)
{
    uint32_t *kernels = malloc((c->nlaunches + 1) * sizeof *kernels);
    for (size_t i = 0; kernels && i < c->nlaunches; i++) {
        int again = i > 0 && c->launches[i].kernel == c->launches[i - 1].kernel;
        kernels[i] = again ? kernels[i - 1] : mt_report_kernel(r, c->launches[i].kernel);
        if (kernels[i] == UINT32_MAX) {
            free(kernels);
            return NULL;
        }
    }
    return kernels;
}

static int report_take_comm(struct mt_report *r, const struct mt_comm *c)
{
    r->has = MT_REPORT_DATA_VOLUMES | MT_REPORT_COMM_VOLUMES | MT_REPORT_CTAS | MT_REPORT_SMS |
             MT_REPORT_TRANSFERS | MT_REPORT_SENDERS | MT_REPORT_PART_SENDERS;
    r->records = c->records;
    r->reported = c->reported;
    r->run_launches = c->nlaunches;
    r->unknown = c->unknown;
    r->host_accesses = c->host_accesses;
    for (uint32_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].selected && report_take_launch(r, c, i) != 0)
            return -1;
    uint32_t *kernels = report_number_kernels(r, c);
    int rc = kernels ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        struct mt_report_transfer *out = MT_REPORT_ADD(r->transfers);
        if (out)
            *out = (struct mt_report_transfer){report_end_of(c, kernels, t->src),
                                               report_end_of(c, kernels, t->dst), t->size, t->count};
        rc = out ? 0 : -1;
    }
    free(kernels);
    return rc;
}

/* ---- data from companion files ---- */

MT_ORDER_2(by_seq, struct mt_copy_event, seq, dst)

MT_ORDER_1(by_id, struct mt_site_event, id)

MT_ORDER_POINTED_1(by_launch, struct mt_launch_event, seq)

MT_ORDER_2(by_begin, struct mt_range_event, begin, seq)

/* Removes duplicates: events of no stream are in every companion file of a process. */
static void report_drop_doubles(struct mt_report *r)
{
    r->copies.n = mt_order_once(r->copies.at, r->copies.n, sizeof *r->copies.at, by_seq);
    r->sites.n = mt_order_once(r->sites.at, r->sites.n, sizeof *r->sites.at, by_id);
    r->ranges.n = mt_order_once(r->ranges.at, r->ranges.n, sizeof *r->ranges.at, by_begin);
    r->untraced.n = mt_order_once(r->untraced.at, r->untraced.n, sizeof *r->untraced.at, by_launch);
}

static int report_append(void *list, const void *items, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        void *at = mt_report_more(list, size);
        if (!at)
            return -1;
        memcpy(at, (const char *)items + i * size, size);
    }
    return 0;
}

static int report_take_companion(struct mt_report *r, const struct mt_companion *c)
{
    if (!r->companion || (!*r->companion->device && *c->device)) /* a host trace has no device */
        r->companion = c;
    r->lost += c->lost;
    r->companions++;
    for (size_t i = 0; i < c->nlaunches; i++) {
        if (c->launches[i].traced)
            continue;
        const struct mt_launch_event **at = MT_REPORT_ADD(r->untraced);
        if (!at || mt_report_kernel(r, c->launches[i].kernel) == UINT32_MAX)
            return -1;
        *at = &c->launches[i];
    }
    if (report_append(&r->copies, c->copies, c->ncopies, sizeof *c->copies) != 0 ||
        report_append(&r->sites, c->sites, c->nsites, sizeof *c->sites) != 0 ||
        report_append(&r->ranges, c->ranges, c->nranges, sizeof *c->ranges) != 0 ||
        (c->own && report_append(&r->texts, c->texts, c->ntexts, sizeof *c->texts) != 0))
        return -1;
    report_drop_doubles(r);
    return 0;
}

/* Objects whose texts the report uses. Zero-initialised is empty. */
struct mt_report_from {
    json_t *json;
    const char **inputs, **notes;
};

/* ---- Reading a comm.json (docs/man/memtrace-extract.md) into the flat lists of a report ---- */

struct reading {
    struct mt_report *r;
    char why[300]; /* reason of a malformed file; "": no memory */
    /* Of the current section: */
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

/* Numbers the kernels in the order of the sections. */
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

MT_ORDER_2(launch_order, struct mt_report_launch, superstep, kernel)

/* Completes the launches with their numbers of CTAs and SMs. Returns 0, or -1 with x->why if sections
 * disagree. */
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

/* Returns an end; the stars from `star` on match its kernel, CTA and launch. */
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
        int (*f)(struct mt_found *); /* reader of a list; NULL: a list of launches */
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

/* ---- Parts of the file that the page shows unchanged ---- */

enum {
    DEEPEST = 40
}; /* deepest nesting, for files not written by memtrace extract; what lies below becomes null */

static void copy_value(struct mt_json *j, const char *key, json_t *v, int depth)
{
    const char *member;
    json_t *below;
    size_t i;
    switch (depth > DEEPEST ? JSON_NULL : json_typeof(v)) {
    case JSON_OBJECT:
        mt_json_object(j, key, 1);
        json_object_foreach(v, member, below) copy_value(j, member, below, depth + 1);
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
        if (v && i == n + MT_LOCALITY_PLACEMENT) { /* pages have no placement of each launch and CTA */
            (void)json_object_del(v, "assignment");
            (void)json_object_del(v, "kernels");
        }
        if (v)
            copy_value(j, name, v, 0);
    }
    return 0;
}

/* Copies all tables. Malformed ones are omitted, since other parts of the file may be anything. Returns 0, or
 * -1 with x->why. */
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

/* Returns 0, or -1 with x->why. */
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

/* Fills `r`, which was initialised, and the summary from the file. Returns 0, MT_EXIT_INPUT if the file says
 * that it is incomplete, or an exit code after a message. */
static int report_from(struct mt_report *r, struct mt_report_from *f, struct mt_summary *summary,
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

static void report_from_free(struct mt_report_from *f)
{
    json_decref(f->json);
    free(f->inputs);
    free(f->notes);
}

/* Limits of the stride graphs, which keep the page small for traces of any size; the page says what is
 * omitted. */
enum { MOST_NODES = 1 << 17, MOST_WARPS = 1 << 14 };

static const struct mt_command command = {
    .of = MT_OF_REPORT,
    .before =
        "Usage: memtrace report [OPTION]... TRACE...\n"
        "       memtrace report [OPTION]... --from comm.json\n"
        "       memtrace report [OPTION]... BEFORE... -- AFTER...\n"
        "Makes one HTML page of memory traces: timeline, bytes sent between CTAs, access patterns of "
        "buffers, findings.\nThe page needs no network and no other file. A loaded byte is communication if "
        "its\n"
        "last writer is another CTA of the same launch or any CTA of an earlier launch.\n"
        "\n"
        "  memtrace report /tmp/MemTrace-pipe-* -o report.html   all streams of a program\n"
        "  memtrace report run-2 -o report.html                  a folder: all of the newest run in it\n"
        "  memtrace report MemTrace-pipe-0 MemTrace-host.mtc -o report.html   with the host code around "
        "them\n"
        "  memtrace report --from comm.json -o report.html       of what memtrace extract wrote: volumes and "
        "transfers\n"
        "  memtrace report before -- after -o report.html        two runs side by side, by kernel, line and "
        "buffer\n"
        "\n"
        "TRACE is as in memtrace extract. Companion files (TRACE.meta) that match a pattern, too, are not "
        "inputs of their own.\n",
    .after = "Exit code: as memtrace extract. The page of an incomplete trace says what is missing.\n",
};

struct make {
    struct mt_pipeline p;
    const char *output, *from, *title;
    int no_source, quick;
    int judges; /* checks memory for the summary */
    struct mt_buffers buffers;
    struct mt_stride_graph graph, lanes;
    struct mt_check_memory bytes;
    struct mt_findings findings;
    struct mt_summary summary;
    struct mt_report report;
    MT_REPORT_LIST(const char *) roots;
};

static int source_root(struct make *m, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return mt_cli_usage("--source-root: %s is not a folder", path);
    const char **at = MT_REPORT_ADD(m->roots);
    if (!at)
        return mt_cli_fail("no memory for the report");
    *at = path;
    return 0;
}

/* Handles --format of a command with a single format. Returns 0, or MT_EXIT_USAGE after a message. */
static int report_format(const char *only)
{
    return strcmp(optarg, only) == 0 ? 0
                                     : mt_cli_usage("'%s' is not a format: it is always %s", optarg, only);
}

static int report_option(void *arg, int o)
{
    struct make *m = arg;
    switch (o) {
    case MT_OPT_FORMAT:
        return report_format("html");
    case MT_OPT_OUTPUT:
        m->output = optarg;
        return 0;
    case MT_OPT_FROM:
        m->from = optarg;
        return 0;
    case MT_OPT_TITLE:
        m->title = optarg;
        return 0;
    case MT_OPT_NO_SOURCE:
        m->no_source = 1;
        return 0;
    case MT_OPT_SOURCE_ROOT:
        return source_root(m, optarg);
    case MT_OPT_QUICK:
        m->quick = 1;
        return 0;
    default:
        return mt_pipeline_option(&m->p, o);
    }
}

static int report_parse(struct make *m, int argc, char **argv)
{
    int rc = mt_cli_options(&command, argc, argv, report_option, m);
    if (rc == 0 && m->from && optind < argc)
        rc = mt_cli_usage("--from replaces traces: '%s' is one too many", argv[optind]);
    if (rc == 0 && m->from && (m->quick || mt_pipeline_asked(&m->p)))
        rc = mt_cli_usage("a comm.json is already analysed: give filters and analyses to memtrace extract, "
                          "not to memtrace report --from");
    return rc;
}

/* ---- reading ---- */

/* Notes which companions there are, and what they say. */
static int take_companions(struct make *m)
{
    struct mt_report *r = &m->report;
    for (size_t i = 0; i < m->p.inputs.npaths; i++) {
        const struct mt_companion *c = mt_source_companion(m->p.source, i);
        if (c && report_take_companion(r, c) != 0)
            return -1;
    }
    for (size_t i = 0; i < r->launches.n; i++)
        r->launches.at[i].event = m->p.events[r->launches.at[i].superstep];
    r->allocs = mt_source_allocs(m->p.source, &r->nallocs);
    return 0;
}

/* Writes the rest of comm.json unchanged. */
static int write_more(void *arg, struct mt_json *j)
{
    struct make *m = arg;
    const char *notes[MT_LOCALITY_RUN_NOTES];
    const struct mt_comm_result r = mt_pipeline_result(&m->p, m->report.complete, notes);
    if (m->p.options.host && mt_comm_write(j, m->p.comm, 1u << MT_HCV | 1u << MT_HDV) != 0)
        return -1;
    if (mt_estimates_write(j, &r) != 0)
        return -1;
    return m->quick ? 0 : mt_locality_write(j, &r, 0);
}

/* Makes the summary. Returns an exit code. */
static int report_glance(struct make *m)
{
    const char *notes[MT_LOCALITY_RUN_NOTES];
    const struct mt_comm_result result = mt_pipeline_result(&m->p, m->report.complete, notes);
    return mt_summary_of(&m->summary, &result, &m->findings) == 0 ? 0
                                                                  : mt_cli_fail("no memory for the report");
}

/* Copies the results into the report. Returns an exit code. */
static int report_fill(struct make *m)
{
    struct mt_report *r = &m->report;
    struct mt_error err;
    int ignored;
    r->inputs = m->p.inputs.paths;
    r->ninputs = m->p.inputs.npaths;
    r->local = m->p.options.local;
    r->threads = m->p.options.threads;
    r->strict = m->p.options.strict;
    r->host = !(m->p.inputs.flags & MT_SOURCE_NO_HOST);
    r->kernels_text = m->p.filter.kernels_text;
    r->supersteps_text = m->p.filter.supersteps_text;
    uint64_t launches;
    if (mt_source_untraced(m->p.source, &r->untraced_accesses, &launches, &err) != 0)
        return mt_cli_failed(&err);
    r->notes = mt_source_notes(m->p.source, &r->nnotes, &ignored);
    if (report_take_comm(r, m->p.comm) != 0 || take_companions(m) != 0)
        return mt_cli_fail("no memory for the report");
    r->more = write_more;
    r->more_arg = m;
    if (m->quick)
        return report_glance(m);
    if (mt_stride_graph_finish(&m->graph, 0) != 0 || mt_stride_graph_finish(&m->lanes, 0) != 0)
        return mt_cli_fail("no memory for the report");
    if (m->judges && mt_check_events(&m->findings, m->p.source) != 0)
        return mt_cli_fail("no memory for the report");
    mt_findings_finish(&m->findings);
    r->onchip = &m->p.onchip;
    r->graph.graph = &m->graph;
    r->graph.stride = MT_EITHER(mt_stride_graph_kernel_stride(&m->graph, 0),
                                "stride: against the previous access of the same thread in the same buffer");
    if (m->lanes.nnodes) {
        r->lanes.graph = &m->lanes;
        r->lanes.stride = mt_stride_graph_kernel_stride(&m->lanes, 1);
    }
    return report_glance(m);
}

/* Adds rows besides those of the pipeline. */
static void report_rows(struct make *m)
{
    struct mt_feed *f = &m->p.feed;
    m->bytes.findings = &m->findings;
    if (m->judges)
        mt_feed_add(f, &mt_check_memory_analysis, &m->bytes, "no memory for what becomes of the bytes");
    if (m->quick)
        return;
    mt_feed_add(f, &mt_stride_graph_analysis, &m->graph, "no memory for the stride graphs");
    mt_feed_add(f, &mt_stride_lanes_analysis, &m->lanes, "no memory for the stride graphs");
}

static int start_analyses(struct make *m)
{
    size_t n;
    m->p.wants = m->quick ? MT_WANTS_TRANSFERS : MT_WANTS_READERS;
    m->judges = !m->quick && !(m->p.inputs.flags & MT_SOURCE_NO_HOST);
    if (m->quick)
        m->p.more.options.chosen = 0;
    m->p.more.options.analysis.rows_from = MT_FOLD_FROM;
    m->p.more.options.analysis.rows_most = MT_FOLD_MOST;
    int code = mt_pipeline_open(&m->p);
    if (code)
        return code;
    const struct mt_alloc_event *allocs = mt_source_allocs(m->p.source, &n);
    if (mt_buffers_init(&m->buffers, allocs, n) != 0)
        return mt_cli_fail("no memory for the report");
    mt_stride_graph_init(&m->graph, MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE, n ? &m->buffers : NULL);
    mt_stride_graph_init(&m->lanes, MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE, n ? &m->buffers : NULL);
    m->graph.most_nodes = m->lanes.most_nodes = MOST_NODES;
    m->graph.most_warps = m->lanes.most_warps = MOST_WARPS;
    report_rows(m);
    return 0;
}

/* Makes rows of neighbouring launches, if there are very many. Returns an exit code. */
static int report_fold(struct make *m)
{
    size_t n = m->report.launches.n;
    if (mt_fold_launches(&m->report) != 0)
        return mt_cli_fail("no memory for the report");
    if (mt_fold_reuse(&m->report, &m->p.more.more.reuse) != 0)
        return mt_cli_fail("no memory for the page");
    mt_fold_sharing(&m->report, &m->p.more.more.sharing);
    if (m->report.launches.n < n)
        mt_cli_note(
            "%zu launches are %zu rows of the page, several in each; --launches=A..B shows some in full", n,
            m->report.launches.n);
    return 0;
}

static int from_traces(struct make *m)
{
    m->p.inputs.threads = m->p.threads;
    m->p.spaces = !m->quick;
    int code = start_analyses(m);
    if (code == 0)
        code = mt_pipeline_read(&m->p);
    if (code)
        return code;
    int input = mt_pipeline_finish(&m->p, &m->report.complete);
    if (input && input != MT_EXIT_INPUT)
        return input;
    code = report_fill(m);
    if (code == 0 &&
        mt_gaps_find(&m->report.gaps, m->p.source, m->p.comm, mt_locality_run_traffic(&m->p.more)) != 0)
        code = mt_cli_fail("no memory for the report");
    if (!m->p.options.host)
        mt_filter_explain(&m->p.filter, m->p.comm->nlaunches, m->report.launches.n);
    if (code == 0)
        code = report_fold(m);
    return code ? code : input;
}

static int write_page(struct make *m)
{
    int error, code = mt_output_ready(&m->p.out);
    m->report.title = m->title;
    m->report.summary = &m->summary;
    m->report.with_sources = !m->no_source;
    m->report.roots = m->roots.at;
    m->report.nroots = m->roots.n;
    if (code)
        return code;
    int failed = mt_report_page(m->p.out.fd, &m->report, &error) != 0;
    if (failed && !error)
        return mt_cli_fail("no memory for the report");
    return mt_output_end(&m->p.out, failed, error);
}

static int report_run(struct make *m)
{
    struct mt_report_from from = {0};
    int code = report_begin(&m->report) == 0 ? 0 : mt_cli_fail("no memory for the report");
    if (code == 0)
        code = m->from ? report_from(&m->report, &from, &m->summary, m->from) : from_traces(m);
    /* The intact part of a damaged trace is shown. */
    if (code == 0 || (code == MT_EXIT_INPUT && m->report.has)) {
        int written = write_page(m);
        code = written ? written : code;
    }
    report_from_free(&from);
    return code;
}

/* Returns the index of "--", or argc if it is missing or last. */
static int report_middle(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return i;
    return argc;
}

/* Reports on one run, whose inputs may follow "--". Returns an exit code. */
static int report_one(struct make *m, int argc, char **argv, int middle)
{
    if (middle < argc)
        optind = middle + 1;
    mt_inputs_take(&m->p.inputs, argc, argv);
    int code = mt_inputs_folders(&m->p.inputs);
    if (m->from)
        mt_output_spare(m->from);
    if (code == 0)
        code = mt_output_open(&m->p.out, m->output);
    return code ? code : report_run(m);
}

/* Compares two runs; m->p has the first one's inputs. Returns an exit code. */
static int report_versus(struct make *m, struct mt_two_runs *t)
{
    static struct mt_pipeline b;
    int code = mt_two_runs_ask(&b, &m->p);
    t->p[0] = &m->p;
    t->p[1] = &b;
    t->words.title = m->title;
    t->words.style = mt_report_versus_css;
    t->words.style_bytes = (size_t)(mt_report_versus_css_end - mt_report_versus_css);
    b.inputs.paths = t->words.paths[1];
    b.inputs.npaths = t->words.npaths[1];
    for (size_t i = 0; i < b.inputs.npaths; i++) /* inputs of the first run are already protected */
        mt_output_spare(b.inputs.paths[i]);
    if (code == 0)
        code = mt_output_open(&m->p.out, m->output);
    if (code == 0)
        code = mt_two_runs_run(t, &m->p.out, mt_versus_page);
    mt_pipeline_free(&b);
    return code;
}

static int report_two(struct make *m, int argc, char **argv, int middle)
{
    static struct mt_two_runs t;
    mt_inputs_take(&m->p.inputs, middle, argv);
    t.words.paths[0] = m->p.inputs.paths;
    t.words.npaths[0] = m->p.inputs.npaths;
    optind = 0; /* options may follow "--", too */
    int code = report_parse(m, argc - middle, argv + middle);
    if (code)
        return code;
    t.words.paths[1] = (const char *const *)argv + middle + optind;
    t.words.npaths[1] = (size_t)(argc - middle - optind);
    if (m->from || m->quick || m->p.inputs.ncompanions)
        return mt_cli_usage("--from, --quick and --companion do not go with two runs");
    if (!t.words.npaths[1])
        return mt_cli_usage("two runs are compared: there is none after --");
    if (!m->output && isatty(STDOUT_FILENO))
        return mt_cli_usage("a page is not written to a terminal: give -o FILE");
    return report_versus(m, &t);
}

int mt_report_command(int argc, char **argv)
{
    static struct make m;
    int middle = report_middle(argc, argv);
    mt_stop_begin();
    mt_pipeline_init(&m.p);
    mt_locality_run_section(&m.p.more, "more", 4);
    m.p.more.quiet = 1; /* the page shows the notes */
    int code = report_parse(&m, middle, argv), two = code == 0 && middle < argc && optind < middle;
    if (code == 0 && !two && (!m.output || strcmp(m.output, "-") == 0) && isatty(STDOUT_FILENO))
        code = mt_cli_usage("a page is not written to a terminal: give -o FILE");
    m.p.inputs.flags |= MT_SOURCE_HOST | MT_SOURCE_RUNS;
    if (code == 0 && two)
        code = report_two(&m, argc, argv, middle);
    else if (code == 0)
        code = report_one(&m, argc, argv, middle);
    mt_report_free(&m.report);
    mt_summary_free(&m.summary);
    mt_stride_graph_free(&m.graph);
    mt_stride_graph_free(&m.lanes);
    mt_buffers_free(&m.buffers);
    mt_pipeline_free(&m.p);
    mt_findings_free(&m.findings);
    free(m.roots.at);
    return code < 0 ? MT_EXIT_OK : code;
}
