/* Results of host programs: cache misses, transfers of cache lines between threads, bytes by source line. */
#define _GNU_SOURCE
#include "summary.h"
#include "memtrace/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- Cache misses of a host program's threads, by source line ---- */

MT_ORDER_BY(misses_by_number, struct mt_miss,
            MT_ORDER_DIFFER(y, x, misses) MT_ORDER_DIFFER(y, x, accesses)
                MT_ORDER_TEXT(((const struct mt_sites *)arg)->lines.names[x->line],
                              ((const struct mt_sites *)arg)->lines.names[y->line])
                    MT_ORDER_TEXT(x->kernel, y->kernel))

static void host_misses_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_miss *m = &((const struct mt_miss *)x->data)[i];
    mt_tuples_text(w, m->kernel);
    mt_tuples_place(w, x->r->sites->lines.names[m->line]);
    mt_tuples_numbers(w, MT_NUMBERS(m->accesses, m->misses, m->store_misses, m->fetched, m->used));
}

MT_ROWS_OF_LIST(misses, host_misses_row,
                mt_sorted_copy(x->r->locality->misses.list, x->r->locality->misses.count,
                               sizeof(struct mt_miss), misses_by_number, (void *)(uintptr_t)x->r->sites),
                x->r->locality->misses.count)

int mt_misses_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_misses *x = &r->locality->misses;
    if (!x->known)
        return 0; /* not written for traces of kernels */
    mt_json_object(j, mt_locality_names[MT_LOCALITY_MISSES], 0);
    mt_json_u64(j, "bytes", x->options.cache_bytes);
    mt_json_u64(j, "ways", x->options.cache_ways);
    mt_json_u64(j, "line_size", 1ull << x->options.line_bits);
    int rc = mt_relation_json(j, r, MT_REL_misses, MT_REL_NONE, 1);
    mt_json_end(j);
    return rc;
}

int mt_misses_text(struct mt_text *t)
{
    const struct mt_misses *x = &t->r->locality->misses;
    char title[200];
    if (!x->known)
        return 0;
    snprintf(title, sizeof title,
             "Misses of a cache that each thread has (%u bytes, %u ways, lines of %llu bytes), and how much "
             "of the bytes fetched is used",
             x->options.cache_bytes, x->options.cache_ways, 1ull << x->options.line_bits);
    return mt_text_table(t, title,
                         "SELECT place(file, line) AS line, accesses AS '>accesses', misses AS '>misses', "
                         "percent(misses, accesses) AS '>part', store_misses AS '>by stores', fetched AS "
                         "'>bytes fetched', used AS '>used', percent(used, fetched) AS '>part' FROM misses");
}

const char mt_misses_sentences[] =
    "WITH t AS (SELECT sum(misses) AS missed, sum(accesses) AS everything FROM misses) "
    "SELECT 'misses', 'misses', 80, worth AND missed > everything / 50 AND used < fetched / 2, "
    "printf('%s of %s miss a cache of %s', share(missed, everything), many(everything, 'access', "
    "'accesses'), bytes(cache_size)) || "
    "iif(worth, printf('; worst: %s, where %s of the accesses miss and %s of the bytes fetched are used.', "
    "mark(place(file, line), coalesce(file || ':' || line, file)), share(misses, accesses), "
    "share(used, fetched)), '.') "
    "FROM (SELECT *, rowid AS id, misses >= 64 AND fetched - used >= fetched / 4 AS worth FROM misses), t, "
    "run WHERE missed ORDER BY fetched - used DESC, id LIMIT 1";

/* ---- Modified cache lines passed between threads of a host program ---- */

MT_ORDER_BY(bounces_by_times, struct mt_bounce,
            MT_ORDER_DIFFER(y, x, times) MT_ORDER_DIFFER(x, y, superstep) MT_ORDER_DIFFER(x, y, line[0])
                MT_ORDER_DIFFER(x, y, line[1]) MT_ORDER_DIFFER(x, y, alloc) MT_ORDER_DIFFER(x, y, type))

static void host_bounces_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_bounce *b = &((const struct mt_bounce *)x->data)[i];
    mt_tuples_text(w, b->kernel);
    mt_tuples_buffer(w, x->r->locality, b->alloc);
    for (int k = 0; k < 2; k++)
        mt_tuples_place(w, x->r->sites->lines.names[b->line[k]]);
    mt_tuples_text(w, mt_access_types[b->type]);
    mt_tuples_numbers(w, MT_NUMBERS(b->times, b->same, b->thread[0] >> 32, b->thread[1] >> 32, b->address));
}

MT_ROWS_OF_LIST(bounces, host_bounces_row,
                mt_sorted_copy(x->r->locality->bounces.list, x->r->locality->bounces.count,
                               sizeof(struct mt_bounce), bounces_by_times, NULL),
                x->r->locality->bounces.count)

int mt_bounces_json(struct mt_json *j, const struct mt_comm_result *r)
{
    if (!r->locality->bounces.known)
        return 0; /* not written for traces without an order of threads */
    return mt_relation_json(j, r, MT_REL_bounces, MT_REL_NONE, 0);
}

int mt_bounces_text(struct mt_text *t)
{
    if (!t->r->locality->bounces.known)
        return 0;
    return mt_text_table(
        t, "Modified cache lines that pass from one thread to another: by last store and next access",
        "SELECT label AS buffer, place(from_file, from_line) AS 'last store', place(to_file, "
        "to_line) AS 'next access', word(type) AS type, times AS '>times', same_bytes AS "
        "'>common bytes', times - same_bytes AS '>other bytes', from_thread AS '>thread', "
        "to_thread AS '>thread' FROM bounces");
}

const char mt_bounces_sentences[] =
    "WITH t AS (SELECT sum(times) AS times FROM bounces), top AS (SELECT * FROM bounces ORDER BY rowid LIMIT "
    "1), "
    "b AS (SELECT sum(b.times) AS times, sum(b.times - b.same_bytes) AS others FROM bounces b, top WHERE "
    "b.label = top.label) "
    "SELECT 'bounces', 'bounces', 90, others > b.times / 2, printf('%s of %s between threads %s in %s, %s "
    "of them false sharing, mostly from %s to %s.', grouped(b.times), many(t.times, 'cache-line transfer', "
    "'cache-line transfers'), CASE b.times WHEN 1 THEN 'is' ELSE 'are' END, mark(label, ''), share(others, "
    "b.times), "
    "mark(place(from_file, from_line), from_file || ':' || from_line), mark(place(to_file, to_line), to_file "
    "|| ':' || to_line)) FROM t, top, b WHERE b.times";

/* ---- Heap of a host program: who holds it when it is largest, and at the end ---- */

static void heap_place(struct mt_tuples *w, const struct mt_alloc_event *a)
{
    char place[MT_TUPLES_FILE];
    snprintf(place, sizeof place, "%s:%llu", a->file, (unsigned long long)a->line);
    mt_tuples_place(w, *a->file ? place : "?");
}

struct heap_row {
    const struct mt_alloc_event *first;
    uint64_t blocks, bytes, peak_blocks, peak_bytes, end_blocks, end_bytes;
};

struct heap_event {
    uint64_t seq;
    const struct mt_alloc_event *a;
    int freed;
};

struct heap {
    struct heap_row *rows; /* by index of the first allocation of a call; blocks 0: none */
    struct heap_event *events;
    const struct mt_alloc_event *at; /* allocation that reaches the peak; NULL: there is none */
    uint64_t bytes, blocks, nth, allocations;
    size_t nevents, n; /* n: of rows, in the order of the output at the end */
};

static int heap_has(const struct mt_alloc_event *a)
{
    static const char *const kinds[] = {"malloc", "calloc", "realloc", "memalign", "new"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (a->first && strcmp(a->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

static void heap_free(struct heap *h)
{
    if (h) {
        free(h->rows);
        free(h->events);
    }
    free(h);
}

MT_ORDER_2(heap_by_seq, struct heap_event, seq, freed)

/* Follows the bytes held; *peak gets the number of events up to the moment of most. */
static void heap_sweep(struct heap *h, size_t *peak)
{
    uint64_t bytes = 0, blocks = 0, nth = 0;
    for (size_t i = 0; i < h->nevents; i++) {
        const struct heap_event *e = &h->events[i];
        bytes += e->freed ? 0 - e->a->bytes : e->a->bytes;
        blocks += e->freed ? UINT64_MAX : 1;
        nth += !e->freed;
        if (!e->freed && bytes > h->bytes) {
            h->bytes = bytes;
            h->blocks = blocks;
            h->nth = nth;
            h->at = e->a;
            *peak = i + 1;
        }
    }
    h->allocations = nth;
}

MT_ORDER_BY(heap_by_bytes, struct heap_row,
            MT_ORDER_DIFFER(y, x, peak_bytes) MT_ORDER_DIFFER(y, x, end_bytes) MT_ORDER_DIFFER(y, x, bytes)
                MT_ORDER_DIFFER(x, y, first->id))

static void heap_count(struct heap *h, const struct mt_alloc_event *allocs, size_t n, size_t peak)
{
    for (size_t i = 0; i < h->nevents; i++) {
        const struct mt_alloc_event *a = h->events[i].a;
        struct heap_row *r = &h->rows[a->first - 1];
        if (h->events[i].freed) {
            r->peak_blocks -= i < peak;
            r->peak_bytes -= i < peak ? a->bytes : 0;
            continue;
        }
        r->first = &allocs[a->first - 1];
        r->blocks++;
        r->bytes += a->bytes;
        r->peak_blocks += i < peak;
        r->peak_bytes += i < peak ? a->bytes : 0;
        r->end_blocks += a->free_seq == MT_SEQ_NONE;
        r->end_bytes += a->free_seq == MT_SEQ_NONE ? a->bytes : 0;
    }
    for (size_t i = 0; i < n; i++)
        if (h->rows[i].blocks)
            h->rows[h->n++] = h->rows[i];
}

/* Returns NULL without memory. */
static struct heap *heap_of(const struct mt_locality *m)
{
    struct heap *h = calloc(1, sizeof *h);
    size_t peak = 0;
    if (h) {
        h->rows = calloc(m->nallocs + 1, sizeof *h->rows);
        h->events = malloc((2 * m->nallocs + 1) * sizeof *h->events);
    }
    if (!h || !h->rows || !h->events) {
        heap_free(h);
        return NULL;
    }
    for (size_t i = 0; i < m->nallocs; i++) {
        const struct mt_alloc_event *a = &m->allocs[i];
        if (!heap_has(a))
            continue;
        h->events[h->nevents++] = (struct heap_event){a->seq, a, 0};
        if (a->free_seq != MT_SEQ_NONE)
            h->events[h->nevents++] = (struct heap_event){a->free_seq, a, 1};
    }
    qsort(h->events, h->nevents, sizeof *h->events, heap_by_seq);
    heap_sweep(h, &peak);
    heap_count(h, m->allocs, m->nallocs, peak);
    qsort_r(h->rows, h->n, sizeof *h->rows, heap_by_bytes, NULL);
    return h;
}

static void heap_end(struct mt_rowset *x)
{
    heap_free(x->data);
}

static void heap_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct heap *h = x->data;
    const struct heap_row *r = &h->rows[i];
    char text[MT_TUPLES_FILE];
    size_t n = 0;
    for (const char *s = r->first->callers; s && *s && n + 3 < sizeof text; s++) {
        text[n++] = *s == '\n' ? ';' : *s;
        if (*s == '\n')
            text[n++] = ' ';
    }
    text[n] = 0;
    mt_tuples_number(w, r->first->id);
    mt_tuples_text(w, r->first->kind);
    heap_place(w, r->first);
    mt_tuples_text(w, text);
    mt_tuples_numbers(
        w, MT_NUMBERS(r->blocks, r->bytes, r->peak_blocks, r->peak_bytes, r->end_blocks, r->end_bytes));
}

static int heap_rows(struct mt_rowset *x)
{
    x->data = heap_of(x->r->locality);
    x->end = x->data ? heap_end : NULL;
    return x->data ? 0 : -1;
}

int mt_rows_of_heap(struct mt_rowset *x)
{
    x->row = heap_row;
    if (heap_rows(x) != 0)
        return -1;
    x->n = ((const struct heap *)x->data)->n;
    return 0;
}

static void heap_peak_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct heap *h = x->data;
    (void)i;
    mt_tuples_numbers(w, MT_NUMBERS(h->bytes, h->blocks, h->nth, h->allocations));
    heap_place(w, h->at);
}

int mt_rows_of_heap_peak(struct mt_rowset *x)
{
    x->row = heap_peak_row;
    if (heap_rows(x) != 0)
        return -1;
    x->n = ((const struct heap *)x->data)->at != NULL;
    return 0;
}

int mt_heap_json(struct mt_json *j, const struct mt_comm_result *r)
{
    struct heap *h = r->comm->options.threads ? heap_of(r->locality) : NULL;
    char place[MT_TUPLES_FILE];
    if (!r->comm->options.threads)
        return 0; /* not written for traces of kernels */
    if (!h)
        return -1;
    if (h->at) {
        mt_json_object(j, "heap_peak", 1);
        mt_json_u64(j, "bytes", h->bytes);
        mt_json_u64(j, "blocks", h->blocks);
        mt_json_u64(j, "nth", h->nth);
        mt_json_u64(j, "allocations", h->allocations);
        snprintf(place, sizeof place, "%s:%llu", h->at->file, (unsigned long long)h->at->line);
        mt_json_text(j, "line", *h->at->file ? place : NULL);
        mt_json_end(j);
    }
    heap_free(h);
    return mt_relation_json(j, r, MT_REL_heap, MT_REL_NONE, 0);
}

int mt_heap_text(struct mt_text *t)
{
    if (!t->r->comm->options.threads)
        return 0;
    return mt_text_table(t, "Heap by who asked for it: when the program held most, and at its end",
                         "SELECT iif(file IS NULL, kind, kind || ' ' || place(file, line)) AS allocation, "
                         "coalesce(callers(callers), '') AS "
                         "'called from', peak_bytes AS '>bytes at the peak', peak_blocks AS '>blocks', "
                         "end_bytes AS '>not freed', "
                         "end_blocks AS '>blocks', bytes AS '>bytes in all', blocks AS '>blocks' FROM heap");
}

/* ---- Bytes by source line, variable and allocation ---- */

struct lines_order {
    const struct mt_lines_cell *cells;
    char *const *names; /* names of the places; NULL: the keys are allocations */
};

/* Compares lines and variables by name, allocations by id. Unknown ones (UINT64_MAX) come first. */
static int lines_by_place(const void *a, const void *b, void *arg)
{
    const struct lines_order *o = arg;
    const struct mt_lines_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    if (o->names)
        MT_ORDER_TEXT(o->names[x->place], o->names[y->place])
    MT_ORDER_DIFFER(x, y, place + 1)
    return mt_order_text(x->kernel, y->kernel);
}

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

const char mt_lines_sentences[] =
    "WITH l AS (SELECT file, line, sum(load + store) AS moved FROM lines GROUP BY file, line), "
    "t AS (SELECT sum(moved) AS everything, count(file) AS known FROM l) "
    "SELECT 'line', 'lines&line=' || file || ':' || line, 50, 0, printf('Line %s moves most of %s: %s, %s of "
    "all bytes.', mark(place(file, line), file || ':' || line), many(known, 'line', 'lines'), bytes(moved), "
    "share(moved, everything)) "
    "FROM l, t WHERE file IS NOT NULL AND known > 1 AND everything ORDER BY moved DESC, file || ':' || line "
    "LIMIT 1";
