/* Reads the sections of a comm.json (docs/man/memtrace-extract.md) back into the flat lists of a report. */
#define _GNU_SOURCE
#include "report_from.h"
#include "analysis/locality/locality.h"
#include "cli/base/cli.h"
#include "cli/base/kind.h"
#include "analysis/base/pairmap.h"
#include "output/json/comm_json.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct mt_report *r;
    const char *path;
    int failed;              /* an exit code */
    struct mt_pairmap index; /* (superstep, kernel) -> launch + 1 */
};

static void report_from_wrong(struct reading *x, const char *where, const char *key)
{
    if (!x->failed)
        mt_cli_say("%s: '%s' in '%s' is not as mt-extract writes it", x->path, key, where);
    x->failed = MT_EXIT_INPUT;
}

static void no_memory(struct reading *x)
{
    if (!x->failed)
        mt_cli_say("%s: no memory", x->path);
    x->failed = MT_EXIT_FAILURE;
}

static uint64_t report_from_number(struct reading *x, const char *where, const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        report_from_wrong(x, where, text);
    return n;
}

static uint32_t report_from_superstep(struct reading *x, const char *where, const char *text)
{
    uint64_t n = report_from_number(x, where, text);
    if (n >= MT_REPORT_ALL)
        report_from_wrong(x, where, text);
    return (uint32_t)n;
}

/* "x,y,z" as its place in the order; x->failed if it is not one. */
static uint64_t cta_order(struct reading *x, const char *where, const char *text)
{
    unsigned long long a, b, c;
    int used = 0;
    if (sscanf(text, "%llu,%llu,%llu%n", &a, &b, &c, &used) != 3 || text[used] || a > UINT32_MAX ||
        b > 0xffff || c > 0xffff)
        report_from_wrong(x, where, text);
    else
        return (uint64_t)c << 48 | (uint64_t)b << 32 | (uint64_t)a;
    return 0;
}

static uint64_t report_from_value(struct reading *x, const char *where, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        report_from_wrong(x, where, key);
    return (uint64_t)json_integer_value(v);
}

/* ---- volumes ---- */

static struct mt_report_launch *launch_of(struct reading *x, const char *kernel, uint32_t superstep)
{
    uint32_t number = mt_report_kernel(x->r, kernel);
    uint64_t *at = number == UINT32_MAX ? NULL : mt_pairmap_get(&x->index, superstep, number, 0);
    if (at && *at)
        return &x->r->launches.at[*at - 1];
    struct mt_report_launch *l = at ? MT_REPORT_ADD(x->r->launches) : NULL;
    if (!l) {
        no_memory(x);
        return NULL;
    }
    *at = x->r->launches.n;
    l->kernel = number;
    l->superstep = superstep;
    return l;
}

static void add_volume(struct reading *x, const char *where, const json_t *o, int comm,
                       struct mt_report_volume *v)
{
    *(comm ? &v->comm_load : &v->load) += report_from_value(x, where, o, "Load");
    *(comm ? &v->comm_store : &v->store) += report_from_value(x, where, o, "Store");
}

static void add_senders(struct reading *x, const char *where, const json_t *o, int comm,
                        struct mt_report_volume *v)
{
    (void)comm;
    v->same_launch += report_from_value(x, where, o, mt_sender_names[MT_FROM_SAME_LAUNCH]);
    v->same_cta += report_from_value(x, where, o, mt_sender_names[MT_FROM_SAME_CTA]);
}

static void kernel_section(struct reading *x, json_t *section, const char *name, int comm,
                           void (*add)(struct reading *, const char *, const json_t *, int,
                                       struct mt_report_volume *))
{
    const char *kernel, *step;
    json_t *steps, *leaf;
    json_object_foreach(section, kernel, steps) json_object_foreach(steps, step, leaf)
    {
        struct mt_report_launch *l = launch_of(x, kernel, report_from_superstep(x, name, step));
        if (!l || x->failed)
            return;
        add(x, name, leaf, comm, &l->volume);
    }
}

/* CCV, CDV (ctas), SCV, SDV. Launches without a kernel section come from here. */
static void part_section(struct reading *x, json_t *section, const char *name, int comm, int ctas)
{
    const char *kernel, *step, *key;
    json_t *steps, *parts, *leaf;
    json_object_foreach(section, kernel, steps) json_object_foreach(steps, step, parts)
    {
        uint32_t s = report_from_superstep(x, name, step);
        if (x->failed || !launch_of(x, kernel, s))
            return;
        json_object_foreach(parts, key, leaf)
        {
            struct mt_report_part *p = ctas ? MT_REPORT_ADD(x->r->ctas) : MT_REPORT_ADD(x->r->sms);
            if (!p) {
                no_memory(x);
                return;
            }
            p->superstep = s;
            p->key = ctas ? cta_order(x, name, key) : report_from_number(x, name, key);
            add_volume(x, name, leaf, comm, &p->volume);
            if (x->failed)
                return;
        }
    }
}

static int launch_order(const void *a, const void *b)
{
    const struct mt_report_launch *p = a, *q = b;
    if (p->superstep != q->superstep)
        return p->superstep < q->superstep ? -1 : 1;
    return p->kernel < q->kernel ? -1 : p->kernel > q->kernel;
}

/* Launches in order, with their numbers of CTAs and SMs. */
static void settle_launches(struct reading *x)
{
    struct mt_report *r = x->r;
    size_t cta = 0, sm = 0;
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
    }
}

/* ---- transfers ---- */

static struct mt_report_end end_at(struct reading *x, const char *kernel, const char *cta, const char *step)
{
    struct mt_report_end end = {.kernel = mt_report_kernel(x->r, kernel),
                                .superstep = report_from_superstep(x, "transfers", step)};
    if (end.kernel == UINT32_MAX)
        no_memory(x);
    end.cta = end.kernel == MT_REPORT_HOST ? MT_REPORT_NO_CTA : cta_order(x, "transfers", cta);
    return end;
}

/* All that one end sent. */
static void transfers_of(struct reading *x, const struct mt_report_end *src, json_t *to)
{
    const char *kernel, *cta, *step;
    json_t *ctas, *steps, *leaf;
    json_object_foreach(to, kernel, ctas) json_object_foreach(ctas, cta, steps)
        json_object_foreach(steps, step, leaf)
    {
        struct mt_report_transfer *t = MT_REPORT_ADD(x->r->transfers);
        if (!t) {
            no_memory(x);
            return;
        }
        t->src = *src;
        t->dst = end_at(x, kernel, cta, step);
        t->size = report_from_value(x, "transfers", leaf, "Size");
        t->count = report_from_value(x, "transfers", leaf, "cnt");
        if (x->failed)
            return;
    }
}

static void transfers_section(struct reading *x, json_t *section)
{
    const char *kernel, *cta, *step;
    json_t *ctas, *steps, *to;
    json_object_foreach(section, kernel, ctas) json_object_foreach(ctas, cta, steps)
        json_object_foreach(steps, step, to)
    {
        struct mt_report_end src = end_at(x, kernel, cta, step);
        if (!x->failed)
            transfers_of(x, &src, to);
        if (x->failed)
            return;
    }
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

static void report_from_head(struct reading *x, struct mt_report_from *f, json_t *o)
{
    struct mt_report *r = x->r;
    const json_t *options = json_object_get(o, "options");
    const char *same = json_string_value(json_object_get(options, "same-cta"));
    f->inputs = report_from_texts(json_object_get(o, "inputs"), &r->ninputs);
    f->notes = report_from_texts(json_object_get(o, "notes"), &r->nnotes);
    if (!f->inputs || !f->notes)
        no_memory(x);
    r->inputs = f->inputs;
    r->notes = f->notes;
    r->from_json = 1;
    const json_t *complete = json_object_get(o, "complete");
    r->complete = json_is_null(complete) ? -1 : json_is_true(complete);
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
    if (report_from_gaps(r, o) != 0)
        no_memory(x);
    r->host_accesses = report_from_total(o, "host_accesses");
}

static void report_from_sections(struct reading *x, json_t *o)
{
    static const struct {
        const char *name;
        int comm, kind; /* 0 kernels, 1 CTAs, 2 SMs */
        unsigned has;
    } known[] = {{"KDV", 0, 0, MT_REPORT_DATA_VOLUMES}, {"KCV", 1, 0, MT_REPORT_COMM_VOLUMES},
                 {"CDV", 0, 1, MT_REPORT_CTAS},         {"CCV", 1, 1, MT_REPORT_CTAS},
                 {"SDV", 0, 2, MT_REPORT_SMS},          {"SCV", 1, 2, MT_REPORT_SMS}};
    for (size_t i = 0; i < sizeof known / sizeof *known && !x->failed; i++) {
        json_t *section = json_object_get(o, known[i].name);
        if (!json_is_object(section))
            continue;
        x->r->has |= known[i].has;
        if (known[i].kind == 0)
            kernel_section(x, section, known[i].name, known[i].comm, add_volume);
        else
            part_section(x, section, known[i].name, known[i].comm, known[i].kind == 1);
    }
    json_t *senders = json_object_get(o, mt_section_names[MT_SENDERS]);
    if (json_is_object(senders) && x->r->has & MT_REPORT_COMM_VOLUMES && !x->failed) {
        x->r->has |= MT_REPORT_SENDERS;
        kernel_section(x, senders, "senders", 1, add_senders);
    }
    json_t *transfers = json_object_get(o, "transfers");
    if (json_is_object(transfers) && !x->failed) {
        x->r->has |= MT_REPORT_TRANSFERS;
        transfers_section(x, transfers);
    }
    if (!x->failed)
        settle_launches(x);
}

/* ---- what the page shows as it is in the file ---- */

enum { DEEPEST = 40 }; /* of a file that mt-extract did not write; what lies below becomes null */

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

int mt_report_from(struct mt_report *r, struct mt_report_from *f, const char *path)
{
    struct reading x = {.r = r, .path = path};
    json_error_t error;
    int other = strcmp(path, "-") == 0 ? 0 : mt_kind_expect(path, NULL, 0, MT_KIND_COMM);
    if (other)
        return other;
    json_t *o = strcmp(path, "-") == 0 ? json_loadf(stdin, 0, &error) : json_load_file(path, 0, &error);
    f->json = o;
    if (!o) {
        mt_cli_say("%s: %s (line %d)", path, error.text, error.line);
        return error.line > 0 ? MT_EXIT_INPUT : MT_EXIT_USAGE;
    }
    const char *format = json_string_value(json_object_get(o, "format"));
    if (!format || strcmp(format, "memtrace-comm") != 0)
        return mt_cli_refuse("%s: is not a comm.json: there is no \"format\": \"memtrace-comm\" in it", path);
    report_from_head(&x, f, o);
    if (!x.failed)
        report_from_sections(&x, o);
    r->more = copy_members;
    r->more_arg = o;
    mt_pairmap_free(&x.index);
    if (x.failed) {
        r->has = 0; /* nothing to show */
        return x.failed;
    }
    return r->complete ? 0 : MT_EXIT_INPUT;
}

void mt_report_from_free(struct mt_report_from *f)
{
    json_decref(f->json);
    free(f->inputs);
    free(f->notes);
}
