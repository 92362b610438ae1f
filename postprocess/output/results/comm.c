/* Communication, and what the companions (the JSON lines files beside traces) say: table rows and text. */
#define _GNU_SOURCE
#include "results.h"
#include "summary.h"
#include <stdarg.h>
#include "base/text.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

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

static void comm_end(struct mt_tuples *w, const struct mt_comm *c, uint32_t id)
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

static void comm_transfer(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_transfer *t = &c->transfers[((const size_t *)x->data)[i]];
    comm_end(w, c, t->src);
    comm_end(w, c, t->dst);
    mt_tuples_numbers(w, MT_NUMBERS(t->size, t->count, mt_transfer_unordered(c, t)));
}

MT_ROWS_OF_LIST(transfers, comm_transfer, mt_transfers_sort(x->r->comm), x->r->comm->ntransfers)

/* ---- sites ---- */

struct numbered {
    const struct mt_site_event *site;
    size_t from; /* index in the order of the inputs */
};

static int comm_site_order(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    if (x->site->id != y->site->id)
        return x->site->id < y->site->id ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

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
    size_t room = 0, kept = 0;
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
    if (list)
        qsort(list, *n, sizeof *list, by_seq);
    for (size_t i = 0; list && i < *n; i++)
        if (!kept || by_seq(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
    *n = kept;
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

/* ---- text ---- */

int mt_comm_text(struct mt_text *t)
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

int mt_transfers_text(struct mt_text *t)
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

int mt_estimates_text(struct mt_text *t)
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
