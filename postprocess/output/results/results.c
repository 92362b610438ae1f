/* Writes the results of all analyses to tables, comm.json and text. */
#define _GNU_SOURCE

#include "results.h"
#include "summary.h"
#include "base/text.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "sql.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Communication, and what the companions (the JSON lines files beside traces) say: table rows and text. */

static void comm_launch(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_launch_event *e = x->r->events[i];
    mt_tuples_number(w, i);
    mt_tuples_text(w, x->r->comm->launches[i].kernel);
    if (e) {
        mt_tuples_text(w, e->mangled);
        mt_tuples_text(w, e->signature);
        mt_tuples_maybe(w, (int64_t)e->seq >= 0, e->seq); /* a host program is not a call */
        mt_tuples_number(w, e->stream);
        for (int k = 0; k < 3; k++)
            mt_tuples_number(w, e->grid[k]);
        for (int k = 0; k < 3; k++)
            mt_tuples_number(w, e->block[k]);
        mt_tuples_number(w, e->shared);
        mt_tuples_text(w, e->file);
        mt_tuples_maybe(w, e->file && *e->file, e->line);
        mt_tuples_maybe(w, e->begin_ns || e->end_ns, e->begin_ns);
        mt_tuples_maybe(w, e->begin_ns || e->end_ns, e->end_ns);
        mt_tuples_number(w, e->untraced);
    } else {
        mt_tuples_null(w, 16);
    }
    mt_tuples_number(w, x->r->comm->launches[i].selected != 0);
}

MT_ROWS(launches, comm_launch, x->r->comm->nlaunches)

static void comm_cta_volume(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_actor *a = &c->actors[i];
    if (!i || !c->launches[a->launch].selected) /* actor 0 is unused */
        return;
    mt_tuples_number(w, a->launch);
    mt_tuples_cta(w, a->cta);
    mt_tuples_numbers(w, MT_NUMBERS(a->smid, a->load, a->store, mt_actor_comm_load(a), a->comm_store));
    for (int s = 0; s < MT_SENDER_KINDS; s++)
        mt_tuples_number(w, a->from[s]);
}

MT_ROWS(cta_volumes, comm_cta_volume, x->r->comm->nactors)

static void comm_host_volume(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_host_actor *h = &x->r->comm->hosts[i];
    mt_tuples_number(w, i + 1); /* + 1, so that a place is true to SQL; CTAs have NULL */
    mt_tuples_number(w, h->superstep);
    mt_tuples_text(w, mt_comm_location_name(x->r->comm, h->place));
    mt_tuples_numbers(w, MT_NUMBERS(h->load, h->store, h->comm_load, h->comm_store));
}

MT_ROWS(host_volumes, comm_host_volume, x->r->comm->nhosts)

static void results_comm_end(struct mt_tuples *w, const struct mt_comm *c, uint32_t id)
{
    if (id & MT_ENTRY_HOST) {
        mt_tuples_null(w, 4);
        mt_tuples_number(w, (uint64_t)(id & MT_ENTRY_MAX) + 1);
    } else {
        mt_tuples_number(w, c->actors[id].launch);
        mt_tuples_cta(w, c->actors[id].cta);
        mt_tuples_null(w, 1);
    }
}

static void results_comm_transfer(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_transfer *t = &c->transfers[((const size_t *)x->data)[i]];
    results_comm_end(w, c, t->src);
    results_comm_end(w, c, t->dst);
    mt_tuples_numbers(w, MT_NUMBERS(t->size, t->count, mt_transfer_unordered(c, t)));
}

MT_ROWS_OF_LIST(transfers, results_comm_transfer, mt_transfers_sort(x->r->comm), x->r->comm->ntransfers)

/* ---- sites ---- */

struct numbered {
    const struct mt_site_event *site;
    size_t from; /* index in the order of the inputs */
};

MT_ORDER_FUNCTION(comm_site_order, struct numbered,
                  MT_ORDER_DIFFER(x, y, site->id) MT_ORDER_DIFFER(x, y, from))

/* Collects the sites of all companions of kernels. NULL: no memory. */
static struct numbered *comm_sites(const struct mt_comm_result *r, size_t *count)
{
    size_t n = 0;
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        n += c && !c->engine[0] ? c->nsites : 0;
    }
    struct numbered *list = malloc((n + 1) * sizeof *list);
    n = 0;
    for (size_t i = 0; list && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && !c->engine[0] && k < c->nsites; k++, n++)
            list[n] = (struct numbered){&c->sites[k], n};
    }
    if (list)
        qsort(list, n, sizeof *list, comm_site_order);
    *count = n;
    return list;
}

static void comm_site(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct numbered *list = x->data;
    const struct mt_site_event *s = list[i].site;
    if (i && s->id == list[i - 1].site->id)
        return; /* streams of one process share their sites */
    mt_tuples_number(w, s->id);
    mt_tuples_text(w, s->file);
    mt_tuples_number(w, s->line);
    mt_tuples_number(w, s->column);
    mt_tuples_text(w, s->function);
    mt_tuples_text(w, s->op);
    mt_tuples_number(w, s->size);
    mt_tuples_text(w, s->var);
    mt_tuples_text(w, s->at);
}

MT_ROWS_OF_LIST(sites, comm_site, comm_sites(x->r, &x->n), x->n)

static void comm_allocation(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    size_t n;
    const struct mt_alloc_event *a = &mt_source_allocs(x->r->source, &n)[i];
    if (i && a->id == a[-1].id)
        return; /* a companion is untrusted input */
    mt_tuples_numbers(w, MT_NUMBERS(a->id, a->base, a->bytes));
    mt_tuples_text(w, a->kind);
    mt_tuples_text(w, a->name);
    mt_tuples_text(w, a->file);
    mt_tuples_number(w, a->line);
    mt_tuples_number(w, a->seq);
    mt_tuples_maybe(w, a->free_seq != MT_SEQ_NONE, a->free_seq);
}

int mt_rows_of_allocations(struct mt_rowset *x)
{
    x->row = comm_allocation;
    mt_source_allocs(x->r->source, &x->n);
    return 0;
}

/* ---- copies ---- */

MT_ORDER_POINTED(by_seq, struct mt_copy_event,
                 MT_ORDER_DIFFER(x, y, seq) MT_ORDER_DIFFER(x, y, kind) MT_ORDER_DIFFER(x, y, dst))

const struct mt_copy_event **mt_copies_of(const struct mt_comm_result *r, size_t *n)
{
    size_t room = 0;
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        room += c ? c->ncopies : 0;
    }
    const struct mt_copy_event **list = malloc((room + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && k < c->ncopies; k++)
            list[(*n)++] = &c->copies[k];
    }
    *n = list ? mt_order_once(list, *n, sizeof *list, by_seq) : 0;
    return list;
}

static void comm_copy(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d", "set"};
    const struct mt_copy_event *c = ((const struct mt_copy_event *const *)x->data)[i];
    mt_tuples_number(w, c->seq);
    mt_tuples_text(w, c->kind <= MT_COPY_SET ? kinds[c->kind] : "?");
    mt_tuples_number(w, c->dst);
    mt_tuples_maybe(w, c->kind != MT_COPY_SET, c->src);
    mt_tuples_numbers(w, MT_NUMBERS(c->width * c->height, c->height));
    mt_tuples_maybe(w, c->stream >= 0, (uint64_t)c->stream);
    mt_tuples_maybe(w, c->begin_ns != 0, c->begin_ns);
    mt_tuples_text(w, c->file && *c->file ? c->file : NULL);
    mt_tuples_maybe(w, c->file && *c->file, c->line);
}

MT_ROWS_OF_LIST(copies, comm_copy, mt_copies_of(x->r, &x->n), x->n)

/* ---- ranges ---- */

struct ranges {
    struct mt_tuples *w;
    uint64_t launch;
};

static int comm_range(void *arg, uint64_t word, uint32_t type, const struct mt_touched_range *range)
{
    struct ranges *r = arg;
    mt_tuples_number(r->w, r->launch);
    mt_tuples_cta(r->w, word);
    mt_tuples_number(r->w, type);
    mt_tuples_number(r->w, range->start);
    mt_tuples_number(r->w, range->end);
    return mt_tuples_next(r->w);
}

int mt_tuples_ranges(struct mt_tuples *w, uint64_t launch, struct mt_touched *ranges)
{
    struct ranges r = {w, launch};
    return mt_touched_end(ranges, comm_range, &r);
}

/* The rows come from a pass of their own. */
MT_ROWS(ranges, NULL, 0)

/* ---- meta ---- */

struct meta {
    size_t n, room;
    struct meta_row {
        char key[40], *value;
    } *rows;
    int failed;
};

__attribute__((format(printf, 3, 4))) static void comm_say(struct meta *m, const char *key,
                                                           const char *format, ...)
{
    va_list args;
    if (m->failed || mt_grow(&m->rows, &m->room, m->n + 1, sizeof *m->rows) != 0) {
        m->failed = 1;
        return;
    }
    struct meta_row *row = &m->rows[m->n];
    char *text = NULL;
    snprintf(row->key, sizeof row->key, "%s", key);
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    row->value = text ? mt_text_visible_copy(text, strlen(text)) : NULL; /* paths and notes are untrusted */
    free(text);
    m->failed = !row->value;
    m->n += !m->failed;
}

static void comm_say_list(struct meta *m, const char *word, const char *const *list, size_t from, size_t n)
{
    char key[40];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s %zu", word, from + i);
        comm_say(m, key, "%s", list[i]);
    }
}

static void comm_say_options(struct meta *m, const struct mt_comm_result *r)
{
    for (int i = 0; i < MT_LOCALITY_SECTIONS; i++)
        if (r->chosen >> i & 1)
            comm_say(m, mt_locality_names[i], "1");
    if (r->chosen & (1u << MT_LOCALITY_REUSE | 1u << MT_LOCALITY_SHARING))
        comm_say(m, "line_size", "%llu", 1ull << r->locality->options.analysis.line_bits);
    if (r->chosen & 1u << MT_LOCALITY_REUSE)
        comm_say(m, "sample", "%llu", 1ull << r->locality->reuse.sample_bits);
    if (r->chosen & 1u << MT_LOCALITY_PLACEMENT)
        comm_say(m, "placement_devices", "%u", r->placement->devices);
}

static void comm_meta_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct meta *m = x->data;
    mt_tuples_text(w, m->rows[i].key);
    mt_tuples_text(w, m->rows[i].value);
}

static void comm_meta_end(struct mt_rowset *x)
{
    struct meta *m = x->data;
    for (size_t i = 0; i < m->n; i++)
        free(m->rows[i].value);
    free(m->rows);
    free(m);
}

int mt_rows_of_meta(struct mt_rowset *x)
{
    const struct mt_comm_result *r = x->r;
    const struct mt_companion *c = r->ninputs ? mt_source_companion(r->source, 0) : NULL;
    const char *program = c ? strrchr(c->program, '/') : NULL;
    size_t notes;
    int ignored;
    const char *const *note = mt_source_notes(r->source, &notes, &ignored);
    struct meta *m = calloc(1, sizeof *m);
    if (!m)
        return -1;
    x->row = comm_meta_row;
    x->end = comm_meta_end;
    x->data = m;
    comm_say(m, "format", "memtrace-comm");
    comm_say(m, "version", "1");
    comm_say(m, "tool", "mt-extract " MEMTRACE_VERSION);
    comm_say(m, "complete", "%s", r->complete > 0 ? "1" : r->complete ? "not known" : "0");
    comm_say(m, "tag", "%s",
             r->tag             ? r->tag
             : program          ? program + 1
             : c && *c->program ? c->program
                                : r->inputs[0]);
    comm_say_list(m, "input", r->inputs, 0, r->ninputs);
    comm_say_list(m, "note", note, 0, notes);
    comm_say_list(m, "note", r->notes, notes, r->nnotes);
    comm_say_options(m, r);
    x->n = m->n;
    if (m->failed)
        comm_meta_end(x);
    return m->failed ? -1 : 0;
}

/* Writes volumes by kernel, summed over its selected launches. */
static int comm_text(struct mt_text *t)
{
    int rc = mt_text_table(
        t,
        MT_EITHER("Bytes by kernel: all, and communication (comm.). Communication by writer: another CTA of "
                  "the same launch, another CTA of an earlier launch, the same CTA of an earlier "
                  "launch",
                  "Bytes by program: all, and communication (comm.). Communication by writer: another "
                  "thread, another thread of an earlier program, the same thread of an earlier program"),
        "SELECT kernel(kernel) AS kernel, count(*) AS '>launches', sum(load) AS '>loaded', sum(store) AS "
        "'>stored', sum(comm_load) AS '>comm. loaded', sum(comm_store) AS '>comm. stored', "
        "sum(from_same_launch) AS '>same launch', sum(from_earlier_launch) AS '>earlier launch', "
        "sum(from_same_cta) AS '>same CTA' FROM launch_volumes v GROUP BY v.kernel ORDER BY sum(load) + "
        "sum(store) DESC, v.kernel");
    if (rc != 0 || !t->r->comm->options.host)
        return rc;
    return mt_text_table(t, "Bytes of host code by source line: all, and communication (comm.)",
                         "SELECT place AS line, sum(load) AS '>loaded', sum(store) AS '>stored', "
                         "sum(comm_load) AS '>comm. loaded', sum(comm_store) AS '>comm. stored' FROM "
                         "host_volumes v, run WHERE superstep >= host_first AND superstep < host_end GROUP "
                         "BY place HAVING sum(load) + sum(store) > 0 ORDER BY sum(load) + sum(store) DESC, "
                         "min(v.rowid)");
}

/* The text lists only the largest transfers, since there may be very many. */
static int comm_text_ctas(struct mt_text *t)
{
    char statement[2000];
    const size_t n = t->r->comm->ntransfers;
    snprintf(statement, sizeof statement,
             "SELECT kernel(ifnull(a.kernel, '" MT_HOST_NAME "')) AS 'from', ifnull(src_launch, p.superstep) "
             "AS '>launch', iif(src_host, iif(run.host, p.place, '-'), cta(src_x, src_y, src_z)) AS CTA, "
             "kernel(ifnull(b.kernel, '" MT_HOST_NAME "')) AS 'to', ifnull(dst_launch, q.superstep) AS "
             "'>launch', iif(dst_host, iif(run.host, q.place, '-'), cta(dst_x, dst_y, dst_z)) AS CTA, "
             "bytes AS '>bytes', accesses AS '>accesses', iif(unordered AND NOT timed, 'unordered', '') AS "
             "note FROM run, (SELECT rowid AS nth, bytes AS most FROM transfers ORDER BY bytes DESC, "
             "nth LIMIT %zu) JOIN transfers t ON t.rowid = nth "
             "LEFT JOIN launches a ON a.id = src_launch LEFT JOIN launches b ON b.id = dst_launch "
             "LEFT JOIN host_volumes p ON p.id = src_host LEFT JOIN host_volumes q ON q.id = dst_host "
             "ORDER BY most DESC, nth",
             t->rows);
    int rc = mt_text_table(t, MT_EITHER("Between CTAs, largest first", "Between threads, largest first"),
                           statement);
    if (rc == 0 && n > t->rows)
        fprintf(t->f, "  ... and %zu more\n", n - t->rows);
    return rc;
}

/* Writes transfers by kernel, and the largest ones between CTAs. */
static int transfers_text(struct mt_text *t)
{
    if (mt_text_table(
            t,
            MT_EITHER(
                "Transfers: bytes that CTAs of one kernel (or the host) wrote and CTAs of another loaded",
                "Transfers: bytes that one thread wrote and another loaded"),
            "SELECT kernel(ifnull(source, '" MT_HOST_NAME
            "')) AS 'from', kernel(ifnull(reader, '" MT_HOST_NAME
            "')) AS 'to', bytes AS '>bytes', accesses AS '>accesses', transfers AS '>pairs of CTAs' FROM "
            "sends s ORDER BY bytes DESC, s.rowid") != 0)
        return -1;
    if (t->r->estimates->n)
        fputs("  a sample: bytes that an untraced CTA wrote count for an earlier writer, or for none\n",
              t->f);
    return comm_text_ctas(t);
}

/* Writes estimates for a sampled trace; nothing for other traces. */
static int estimates_text(struct mt_text *t)
{
    if (!t->r->estimates->n)
        return 0;
    return mt_text_table(
        t, "Estimates: bytes if all CTAs were traced (MEMTRACE_SAMPLE); no other table is scaled",
        "SELECT kernel(kernel) AS kernel, launches AS '>launches', traced_launches AS '>traced', ctas AS "
        "'>CTAs', traced_ctas AS '>traced', counted_load AS '>loaded', counted_store AS '>stored', "
        "ifnull(all_load, '-') AS "
        "'>estimate loaded', ifnull(all_store, '-') AS '>estimate stored' FROM samples s ORDER BY "
        "counted_load + counted_store DESC, s.rowid");
}

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
    return of <= MT_OF_RANGES || of == MT_OF_ONCHIP
               ? 0
               : 1u << (of - MT_OF_RANGES - 1); /* bits in the same order */
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

static int results_no_memory(struct mt_tuples *w)
{
    snprintf(w->why, sizeof w->why, "out of memory");
    return -1;
}

int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r)
{
    struct mt_rowset x = {.r = r};
    int rc = mt_tuples_begin(w, number);
    if (rc == 0 && mt_rows_of_tables[number](&x) != 0)
        return results_no_memory(w);
    for (size_t i = 0; i < x.n && rc == 0; i++) {
        x.row(w, &x, i);
        rc = w->at ? mt_tuples_next(w) : 0;
    }
    mt_rows_end(&x);
    return rc == 0 ? mt_tuples_end(w) : rc;
}

/* Functions that write the results of each analysis. */
static const struct {
    int (*json)(struct mt_json *, const struct mt_comm_result *);
    int (*text)(struct mt_text *);
} results[MT_LOCALITY_OF_RUNS] = {
#define MT_ANALYSIS(NAME, name, ...) {mt_##name##_json, mt_##name##_text},
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
};

int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r, int by_launch)
{
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].json(j, r);
    return rc || !(r->chosen >> MT_LOCALITY_PLACEMENT & 1) ? rc : mt_placement_write(j, r, by_launch);
}

int mt_results_text(FILE *f, const struct mt_comm_result *r, size_t rows, const struct mt_onchip *shared)
{
    struct mt_sql sql;
    struct mt_text t = {f, r, rows, &sql};
    char why[300];
    int rc = mt_sql_open(&sql, why, sizeof why);
    sql.r = r;
    if (rc == 0 && r->sections & ~(1u << MT_TRANSFERS))
        rc = comm_text(&t);
    rc = rc ? rc : estimates_text(&t);
    if (rc == 0 && r->sections & 1u << MT_TRANSFERS)
        rc = transfers_text(&t);
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].text(&t);
    if (rc == 0 && r->chosen >> MT_LOCALITY_PLACEMENT & 1)
        rc = mt_placement_text(&t);
    rc = rc || !shared ? rc : mt_shared_text(&t, shared);
    mt_sql_close(&sql);
    return rc;
}

/* ---- Rows of a table in comm.json: nested objects and arrays from the words of the table's path; the
 * innermost object has the columns, as their `json` says ---- */

enum { WORDS = 9 };

struct rows {
    struct mt_json *j;
    struct mt_tuples t; /* the next row, valid if `there` is set */
    struct mt_rowset x;
    size_t i; /* index of the next row */
    int there, failed;
    unsigned n, base, open; /* number of words; how many of them the caller has opened; how many are open */
    struct word {
        const char *text;
        unsigned star; /* number of the star, 0 for other words */
        int column;    /* column that is the star's key; -1: the star stands for elements of an array */
        int flat;
        char *key; /* key of the previous row */
    } word[WORDS];
    struct rows
        *beside; /* rows of another table inside the same objects; the paths share the first `common` words */
    unsigned common;
};

static void rows_next(struct rows *w)
{
    for (w->there = 0; !w->there && w->i < w->x.n; w->i++) {
        w->t.at = w->t.places = 0;
        w->x.row(&w->t, &w->x, w->i);
        w->there = w->t.at != 0;
    }
}

/* ---- members ---- */

static int results_rows_same(const struct mt_relation *r, unsigned i, unsigned k)
{
    return k < r->n && strcmp(r->columns[i].json, r->columns[k].json) == 0;
}

/* Returns the text of the columns that share the i-th one's name ("file:line", "x,y,z"), or NULL if unknown.
 */
static const char *rows_text(char room[MT_TUPLES_FILE + 64], const struct mt_tuples *t, unsigned i)
{
    const struct mt_relation *r = t->now;
    const struct mt_value *v = t->value;
    size_t n = 0;
    if (v[i].null || (r->columns[i].type == MT_TEXT && !results_rows_same(r, i, i + 1)))
        return v[i].null ? NULL : v[i].text;
    for (unsigned k = i; results_rows_same(r, i, k) && !v[k].null; k++) {
        if (k > i)
            room[n++] = r->columns[k - 1].type == MT_TEXT ? ':' : ',';
        if (r->columns[k].type == MT_TEXT)
            snprintf(room + n, MT_TUPLES_FILE - n, "%s", v[k].text); /* a file name from mt_tuples_place */
        else
            snprintf(room + n, 32, "%" PRId64, v[k].number);
        n += strlen(room + n);
    }
    return room;
}

static void rows_member(const struct rows *w, unsigned i, const char *name)
{
    char room[MT_TUPLES_FILE + 64];
    const struct mt_column *c = &w->t.now->columns[i];
    const struct mt_value *v = &w->t.value[i];
    const char *mark = strpbrk(c->json, ":?"), how = mark && mark > c->json ? mark[-1] : 0;
    if (mark && *mark == '?' && (v->null || (c->type == MT_BOOLEAN && !v->number)))
        return;
    if (v->null || c->type == MT_TEXT || results_rows_same(w->t.now, i, i + 1)) {
        const char *text = rows_text(room, &w->t, i);
        mt_json_text(w->j, name, how == 'n' && strcmp(text, "?") == 0 ? NULL : text);
    } else if (c->type == MT_REAL)
        mt_json_real(w->j, name, v->real);
    else if (c->type == MT_BOOLEAN)
        mt_json_bool(w->j, name, v->number != 0);
    else if (how == 'x')
        mt_json_hex(w->j, name, (uint64_t)v->number);
    else
        mt_json_i64(w->j, name, v->number);
}

/* Returns the column's member name in the object of a star, or NULL if it is not in that object. */
static const char *rows_name(const struct mt_column *c, unsigned star, int last)
{
    const char *mark = strpbrk(c->json, ":?");
    if (!*c->json || *c->json == '/' || strcmp(c->json, ".") == 0)
        return NULL;
    return mark ? (unsigned)(*c->json - '0') == star ? mark + 1 : NULL : last ? c->json : NULL;
}

/* Returns 1 if a column before the i-th has written the member whose name is these n bytes. */
static int rows_earlier(const struct rows *w, unsigned i, const char *name, size_t n, unsigned star, int last)
{
    for (unsigned k = 0; k < i; k++) {
        const char *other = rows_name(&w->t.now->columns[k], star, last);
        if (other && strncmp(other, name, n) == 0)
            return 1;
    }
    return 0;
}

/* Writes the members in the object of a star whose names begin with these n bytes; `last`: includes members
 * without a star. Lists come last. */
static void rows_members(const struct rows *w, unsigned star, int last, const char *begin, size_t n)
{
    char key[64];
    for (int list = 0; list < 2; list++)
        for (unsigned i = 0; i < w->t.now->n; i++) {
            const char *name = rows_name(&w->t.now->columns[i], star, last), *rest = name + n, *dot;
            if (!name || strncmp(name, begin, n) != 0)
                continue;
            dot = strchr(rest, '.');
            if ((dot && isdigit((unsigned char)dot[1])) != list ||
                rows_earlier(w, i, name, dot ? (size_t)(dot + 1 - name) : strlen(name) + 1, star, last))
                continue;
            snprintf(key, sizeof key, "%.*s", (int)(dot ? dot - rest : (int)strlen(rest)), rest);
            const char *of = isdigit((unsigned char)*rest) ? NULL : key;
            if (!dot) {
                rows_member(w, i, of);
            } else if (w->t.value[i].null) {
                mt_json_text(w->j, of, NULL);
            } else {
                (list ? mt_json_array : mt_json_object)(w->j, of, 1);
                rows_members(w, star, last, name, (size_t)(dot + 1 - name));
                mt_json_end(w->j);
            }
        }
}

/* ---- objects and arrays ---- */

/* Returns the key of the k-th word, or NULL for an element of an array. */
static const char *rows_key(const struct rows *w, char room[MT_TUPLES_FILE + 64], unsigned k)
{
    const struct word *x = &w->word[k];
    if (!x->star) {
        snprintf(room, MT_TUPLES_FILE, "%.*s", (int)strcspn(x->text, "/"), x->text);
        return room;
    }
    const char *key = x->column < 0 ? NULL : rows_text(room, &w->t, (unsigned)x->column);
    return x->column < 0 || key ? key : "?";
}

/* Opens the object or array of the k-th word. */
static void rows_open(struct rows *w, unsigned k)
{
    char room[MT_TUPLES_FILE + 64];
    struct word *x = &w->word[k];
    const char *key = rows_key(w, room, k);
    const struct mt_relation *r = w->t.now;
    if (k + 1 == w->n && strcmp(r->columns[r->n - 1].json, ".") == 0) {
        rows_member(w, r->n - 1, key);
        return;
    }
    if (k + 1 < w->n && w->word[k + 1].star && w->word[k + 1].column < 0)
        mt_json_array(w->j, key, x->flat);
    else
        mt_json_object(w->j, key, x->flat);
    free(x->key);
    x->key = key ? strdup(key) : NULL;
    w->failed |= key && !x->key;
    w->open = k + 1;
    if (x->star)
        rows_members(w, x->star, k + 1 == w->n, "", 0);
}

static void rows_close(struct rows *w, unsigned to);

static void rows_row(struct rows *w)
{
    char room[MT_TUPLES_FILE + 64];
    unsigned k = w->base;
    for (; k < w->open && k + 1 < w->n; k++) {
        const char *key = rows_key(w, room, k);
        if (!key || !w->word[k].key || strcmp(key, w->word[k].key) != 0)
            break;
    }
    rows_close(w, k);
    for (; k < w->n; k++)
        rows_open(w, k);
    rows_next(w);
}

/* Returns 1 if the row of b lies in w's innermost object. */
static int rows_within(const struct rows *b, const struct rows *w)
{
    char room[MT_TUPLES_FILE + 64];
    int same = b->there;
    for (unsigned k = 0; same && k < w->common; k++)
        same = !w->word[k].star || (w->word[k].key && strcmp(rows_key(b, room, k), w->word[k].key) == 0);
    return same;
}

static void rows_close(struct rows *w, unsigned to)
{
    struct rows *b = w->beside;
    for (; w->open > to; w->open--) {
        if (b && w->open == w->common) {
            rows_open(b, w->common);
            while (rows_within(b, w))
                rows_row(b);
            rows_close(b, w->common);
        }
        mt_json_end(w->j);
    }
}

/* ---- tables ---- */

static void rows_words(struct rows *w, const char *path)
{
    unsigned stars = 0;
    for (size_t n; *path; path += n + (path[n] == '/'), w->n++) {
        struct word *x = &w->word[w->n];
        n = strcspn(path, "/");
        *x = (struct word){
            .text = path, .star = *path == '*' ? ++stars : 0, .column = -1, .flat = path[n - 1] == '-'};
        for (unsigned i = w->t.now->n; x->star && i-- > 0;)
            if (w->t.now->columns[i].json[0] == '/' &&
                (unsigned)(w->t.now->columns[i].json[1] - '0') == x->star)
                x->column = (int)i;
    }
    w->word[w->n - 1].flat = path[-1] != '+';
}

/* Returns 0, or -1 without memory. */
static int rows_begin(struct rows *w, struct mt_json *j, const struct mt_comm_result *r,
                      enum mt_relation_number number)
{
    w->j = j;
    w->x.r = r;
    w->x.by_kernel = 1;
    w->t.now = &mt_relations[number];
    rows_words(w, mt_relations[number].path);
    if (mt_rows_of_tables[number](&w->x) != 0)
        return -1;
    rows_next(w);
    return 0;
}

static void rows_end(struct rows *w)
{
    for (unsigned k = 0; k < w->n; k++)
        free(w->word[k].key);
    mt_rows_end(&w->x);
}

int mt_relation_json(struct mt_json *j, const struct mt_comm_result *r, enum mt_relation_number number,
                     enum mt_relation_number beside, unsigned open)
{
    struct rows w = {.base = open, .open = open}, b = {.n = 0};
    int rc = rows_begin(&w, j, r, number);
    if (rc == 0 && beside != MT_REL_NONE && (rc = rows_begin(&b, j, r, beside)) == 0) {
        w.beside = &b;
        while (w.common < w.n && strncmp(w.word[w.common].text, b.word[w.common].text,
                                         strcspn(b.word[w.common].text, "/")) == 0)
            w.common++;
        b.base = w.common + 1;
    }
    for (; rc == 0 && !w.word[w.base].star; w.base++)
        rows_open(&w, w.base);
    while (rc == 0 && w.there && !w.failed)
        rows_row(&w);
    if (rc == 0)
        rows_close(&w, open);
    rows_end(&w);
    rows_end(&b);
    return rc || w.failed || b.failed ? -1 : 0;
}

/* ---- Tables that only SQL sees: the whole run, and sums of the communication analysis ---- */

static void run_whole(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const uint64_t host_end = c->options.host_end;
    mt_tuples_numbers(w, MT_NUMBERS(c->options.threads != 0, (uint64_t)c->options.host,
                                    (uint64_t)c->options.local, (uint64_t)c->options.strict, c->partial != 0,
                                    x->which, c->nlaunches, c->records, c->host_accesses,
                                    x->r->onchip && x->r->onchip->nplaces, c->options.host_first,
                                    host_end < INT64_MAX ? host_end : INT64_MAX, c->options.threads > 1,
                                    !c->records && x->r->locality->coalescing.masked));
    const unsigned line = x->r->locality->options.analysis.line_bits;
    mt_tuples_maybe(w, line != 0, 1ull << line);
    mt_tuples_maybe(w, x->r->locality->misses.options.cache_bytes != 0,
                    x->r->locality->misses.options.cache_bytes);
}

int mt_rows_of_run(struct mt_rowset *x)
{
    x->row = run_whole;
    x->n = 1;
    x->which = (unsigned)mt_comm_reported_launches(
        x->r->comm); /* computed once, since joins read the row again and again */
    return 0;
}

static void run_launch_volume(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm_launch *l = &x->r->comm->launches[i];
    if (!l->selected)
        return;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, i);
    mt_tuples_number(w, i);
    mt_tuples_text(w, l->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(l->end - l->first, v.load, v.store, v.comm_load, v.comm_store));
    mt_tuples_numbers(w, MT_SENDER_KINDS, v.from);
}

MT_ROWS(launch_volumes, run_launch_volume, x->r->comm->nlaunches)

struct sends {
    const char **kernels; /* kernels by rank */
    struct mt_sent *list;
};

static void run_send(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct sends *s = x->data;
    const struct mt_sent *t = &s->list[i];
    mt_tuples_text(w, t->src == MT_SENT_HOST ? NULL : s->kernels[t->src]);
    mt_tuples_text(w, t->dst == MT_SENT_HOST ? NULL : s->kernels[t->dst]);
    mt_tuples_maybe(w, t->reader != UINT64_MAX, t->reader);
    mt_tuples_numbers(w, MT_NUMBERS(t->bytes, t->accesses, t->transfers));
}

static void run_sends_end(struct mt_rowset *x)
{
    struct sends *s = x->data;
    if (s) {
        free(s->kernels);
        free(s->list);
    }
    free(s);
}

/* Returns for each launch the rank of its kernel's name; malloc'ed, NULL: no memory. */
static uint32_t *results_kernel_ranks(const struct mt_comm *c)
{
    size_t *order = mt_launches_sorted(c);
    uint32_t *ranks = malloc((c->nlaunches + 1) * sizeof *ranks), rank = 0;
    for (size_t i = 0; order && ranks && i < c->nlaunches; i++) {
        if (i && mt_order_text(c->launches[order[i]].kernel, c->launches[order[i - 1]].kernel) != 0)
            rank++;
        ranks[order[i]] = rank;
    }
    if (!order) {
        free(ranks);
        ranks = NULL;
    }
    free(order);
    return ranks;
}

int mt_rows_of_sends(struct mt_rowset *x)
{
    const struct mt_comm *c = x->r->comm;
    uint32_t *rank = results_kernel_ranks(c);
    struct sends *s = x->data = calloc(1, sizeof *s);
    x->row = run_send;
    x->end = run_sends_end;
    if (rank && s && (s->kernels = malloc((c->nlaunches + 1) * sizeof *s->kernels)))
        s->list = mt_sent_of(c, rank, &x->n);
    for (size_t i = 0; s && s->list && i < c->nlaunches; i++)
        s->kernels[rank[i]] = c->launches[i].kernel;
    free(rank);
    return s && s->list ? 0 : -1;
}

/* Writes CTAs and bytes of a sample and their estimates for all CTAs; the estimates are unknown if no CTA is
 * traced. */
static void run_both(struct mt_tuples *w, uint64_t ctas, uint64_t traced, const struct mt_volume *v,
                     int known)
{
    known &= traced != 0;
    mt_tuples_numbers(w, MT_NUMBERS(ctas, traced, v->load, v->store));
    mt_tuples_maybe(w, known, known ? mt_estimate(v->load, ctas, traced) : 0);
    mt_tuples_maybe(w, known, known ? mt_estimate(v->store, ctas, traced) : 0);
}

static void run_sample(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_estimate *e = &x->r->estimates->list[i];
    struct mt_volume sum = {0};
    uint64_t found = 0;
    for (size_t k = 0; k < c->nlaunches; k++)
        if (strcmp(c->launches[k].kernel, e->kernel) == 0) {
            const struct mt_volume v = mt_volume_of_launch(c, k);
            mt_volume_add(&sum, &v);
            found++;
        }
    mt_tuples_text(w, e->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(e->launches, e->traced_launches));
    /* no estimate if the number of launches differs from the companion's */
    run_both(w, e->ctas, e->traced_ctas, &sum, found == e->traced_launches);
}

MT_ROWS(samples, run_sample, x->r->estimates->n)

static void run_sampled(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const size_t launch = ((const size_t *)x->data)[i];
    const struct mt_launch_event *e = x->r->events[launch];
    const char *kernel = x->r->comm->launches[launch].kernel;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, launch);
    if (!e || !e->has_ctas || !mt_estimates_find(x->r->estimates, kernel))
        return;
    mt_tuples_text(w, kernel);
    mt_tuples_number(w, launch);
    run_both(w, e->ctas, e->traced_ctas, &v, 1);
}

MT_ROWS_OF_LIST(sampled_launches, run_sampled, mt_launches_sorted(x->r->comm), x->r->comm->nlaunches)

int mt_estimates_write(struct mt_json *j, const struct mt_comm_result *r)
{
    return r->estimates->n ? mt_relation_json(j, r, MT_REL_samples, MT_REL_sampled_launches, 0) : 0;
}

static void run_apart(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    mt_tuples_text(w, ((const char *const *)x->data)[i]);
}

/* Returns, by name, the *n kernels of selected launches whose accesses are not grouped as on a GPU (`parted`,
 * `ungrouped`); malloc'ed, NULL: no memory. */
static const char **results_kernels_apart(const struct mt_comm *c,
                                          const struct mt_launch_event *const *events, size_t *n)
{
    size_t *order = mt_launches_sorted(c);
    const char **list = malloc((c->nlaunches + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; order && list && i < c->nlaunches; i++) {
        const struct mt_launch_event *e = events ? events[order[i]] : NULL;
        const char *kernel = c->launches[order[i]].kernel;
        if (c->launches[order[i]].selected && e && (e->parted || e->ungrouped) &&
            (!*n || strcmp(list[*n - 1], kernel) != 0))
            list[(*n)++] = kernel;
    }
    if (!order) {
        free(list);
        list = NULL;
    }
    free(order);
    return list;
}

MT_ROWS_OF_LIST(apart, run_apart, results_kernels_apart(x->r->comm, x->r->events, &x->n), x->n)

const char mt_run_sentences[] =
    "WITH k AS (SELECT kernel, count(*) AS n, sum(ctas) AS ctas, sum(load) AS load, sum(store) AS store, "
    "min(launch) AS first FROM launch_volumes GROUP BY kernel), "
    "t AS (SELECT count(*) AS kernels, sum(n) AS runs, sum(load + store) AS moved FROM k) "
    "SELECT 'kernel', 'volumes', 30, 0, CASE WHEN kernels > 1 THEN printf('%s moves most: %s, %s of all "
    "bytes, in %s of %s.', mark(kernel(kernel), kernel), bytes(load + store), share(load + store, moved), "
    "grouped(n), many(runs, 'launch', 'launches')) "
    "WHEN threads THEN printf('The program, %s, loads %s and stores %s in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(ctas, 'thread', 'threads')) "
    "ELSE printf('One kernel, %s, moves all bytes: %s loaded, %s stored in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(n, 'launch', 'launches')) END "
    "FROM k, t, run WHERE moved > 0 ORDER BY load + store DESC, first LIMIT 1; "
    "WITH t AS (SELECT count(*) AS n, sum(load) AS load, sum(comm_load) AS comm, sum(from_same_launch) AS "
    "same, sum(from_earlier_launch) AS earlier, sum(from_same_cta) AS own FROM launch_volumes), "
    "senders AS (SELECT 0 AS kind, same AS sent FROM t, run WHERE NOT strict UNION ALL SELECT 1, earlier "
    "FROM t, run WHERE NOT threads OR all_launches > 1 UNION ALL SELECT 2, own FROM t, run WHERE NOT local "
    "AND (NOT threads OR all_launches > 1)), "
    "said AS (SELECT group_concat(bytes(sent) || coalesce(' (' || share(sent, load) || ')', '') || iif(nth = "
    "1, ' were last written', '') || ' by ' || sender(kind), ', ') AS words FROM (SELECT *, row_number() "
    "OVER (ORDER BY kind) AS nth FROM senders), t), "
    "pairs AS (SELECT *, count(*) OVER () AS n FROM sends WHERE source IS NOT NULL AND reader IS NOT NULL "
    "ORDER BY bytes DESC, launch, source LIMIT 1) "
    "SELECT 'comm', 'transfers', 40, 0, CASE WHEN comm = 0 THEN printf(either('No CTA loads bytes that %s "
    "wrote%s', 'No thread loads bytes that %s wrote%s'), "
    "CASE strict + 2 * local WHEN 0 THEN either('another CTA or an earlier launch', 'another thread') WHEN 1 "
    "THEN either('an earlier launch', 'an earlier run') WHEN 2 THEN either('another CTA', 'another thread') "
    "ELSE sender(1) END, "
    "iif(EXISTS (SELECT 1 FROM sends WHERE source IS NULL AND reader IS NOT NULL), '; all bytes with a known "
    "writer came from the host.', '.')) "
    "ELSE printf(either('Of the bytes that CTAs load, %s%s.', 'Of the bytes that threads load, %s%s.'), "
    "iif(same IS NULL, "
    "bytes(comm) || coalesce(' (' || share(comm, load) || ')', '') || ' are communication', words), "
    "coalesce((SELECT printf('; %s %s to %s', iif(n > 1, 'most go from', 'all of them from'), "
    "mark(kernel(source), source), mark(kernel(reader), reader)) || iif(n > 1, ': ' || bytes(bytes), '') "
    "FROM pairs WHERE n > 1 OR source <> reader), '')) END "
    "FROM t, said, run WHERE t.n AND comm IS NOT NULL AND records + host_accesses; "
    "WITH t AS (SELECT sum(iif(reader IS NULL, bytes, 0)) AS there, sum(iif(reader IS NULL, 0, bytes)) AS "
    "back FROM sends WHERE source IS NULL OR reader IS NULL) "
    "SELECT 'host', 'transfers', 40, 0, 'Host code loads ' || bytes(there) || either(' that CTAs wrote', ' "
    "that threads wrote') || iif(back, either('; CTAs load ', '; threads load ') || bytes(back) || ' that "
    "the host wrote.', '.') "
    "FROM t, run WHERE host AND there AND launches; "
    "WITH k AS (SELECT kernel, sum(load) AS load, sum(store) AS store FROM launch_volumes GROUP BY kernel) "
    "SELECT 'sample', '', 150, 1, printf('A sample: %s of %s CTAs of %s are traced; all of them would load "
    "about %s and store %s. No other figure is scaled. Bytes that an untraced CTA wrote count for an earlier "
    "writer, or for none.', "
    "grouped(traced_ctas), grouped(ctas), mark(kernel(kernel), kernel), bytes(CAST(round(1.0 * load * ctas / "
    "traced_ctas) AS INTEGER)), bytes(CAST(round(1.0 * store * ctas / traced_ctas) AS INTEGER))) "
    "FROM (SELECT * FROM samples JOIN k USING (kernel) WHERE traced_ctas ORDER BY load + store DESC, kernel "
    "DESC LIMIT 1), run WHERE traced_ctas <> ctas AND records + host_accesses; "
    "SELECT 'nothing', 'timeline', 0, 0, CASE WHEN NOT launches THEN either('No launch is in this trace, or "
    "filters left none.', 'No run is in this trace, or filters left none.') "
    "ELSE printf(either('No access of the traced launches %swas recorded: their kernels touch no global "
    "memory, or filters left nothing.', 'No access of the traced runs %swas recorded: the program touches no "
    "memory, or filters left nothing.'), iif(onchip, 'to global memory ', '')) END "
    "FROM run WHERE NOT host_accesses AND (NOT launches OR NOT records) AND NOT totals;";
