/* Allocations by launch, and buffers that take turns: a kernel reads one and writes the other, and its next
 * launch does it the other way round. */
#include "summary.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static void traffic_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_traffic_grid *g = &x->r->locality->traffic.launches;
    const struct mt_traffic_cell *c = &g->cells[i];
    mt_tuples_buffer(w, x->r->locality, c->alloc);
    mt_tuples_numbers(
        w, MT_NUMBERS((uint64_t)c->superstep << g->step_bits, 1ull << g->step_bits, c->load, c->store));
    for (int type = MT_LOAD; type <= MT_UNKNOWN; type++)
        mt_tuples_number(w, c->accesses[type]);
}

int mt_rows_of_traffic(struct mt_rowset *x)
{
    x->row = traffic_row;
    x->n = x->r->locality->traffic.launches.count;
    return 0;
}

static void traffic_reallocation(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_alloc_event *a = &x->r->locality->allocs[i];
    if (a->like < 2 || strcmp(a->kind, "realloc") != 0 || !*a->file)
        return;
    mt_tuples_text(w, a->file);
    mt_tuples_numbers(w, MT_NUMBERS(a->line, a->like, a->total));
}

int mt_rows_of_reallocations(struct mt_rowset *x)
{
    x->row = traffic_reallocation;
    x->n = x->r->locality->nallocs;
    return 0;
}

/* ---- JSON ---- */

/* superstep, bytes loaded and stored, accesses by type */
static void traffic_write_launch(struct mt_json *j, const struct mt_traffic_cell *c, unsigned step_bits)
{
    mt_json_array(j, NULL, 1);
    mt_json_u64(j, NULL, (uint64_t)c->superstep << step_bits);
    mt_json_u64(j, NULL, c->load);
    mt_json_u64(j, NULL, c->store);
    for (int type = 0; type < 4; type++)
        mt_json_u64(j, NULL, c->accesses[type]);
    mt_json_end(j);
}

/* superstep, piece, bytes loaded and stored */
static void traffic_write_piece(struct mt_json *j, const struct mt_traffic_cell *c, unsigned step_bits)
{
    mt_json_array(j, NULL, 1);
    mt_json_u64(j, NULL, (uint64_t)c->superstep << step_bits);
    mt_json_u64(j, NULL, c->piece);
    mt_json_u64(j, NULL, c->load);
    mt_json_u64(j, NULL, c->store);
    mt_json_end(j);
}

/* The allocation of launches[*i]; moves *i and *k behind its cells. */
static void traffic_write_alloc(struct mt_json *j, const struct mt_locality *m, size_t *i, size_t *k)
{
    const struct mt_traffic *t = &m->traffic;
    const uint64_t alloc = t->launches.cells[*i].alloc;
    const struct mt_alloc_event *a = alloc < m->nallocs ? &m->allocs[alloc] : NULL;
    char label[MT_ALLOC_LABEL];
    mt_json_object(j, mt_alloc_label(label, m, alloc), 0);
    if (a) {
        mt_json_u64(j, "id", a->id);
        mt_json_u64(j, "bytes", a->bytes);
        mt_json_u64(j, "piece", 1ull << (mt_traffic_piece_bits(a->bytes) + t->heat.piece_bits));
    }
    mt_json_array(j, "launches", 0);
    for (; *i < t->launches.count && t->launches.cells[*i].alloc == alloc; ++*i)
        traffic_write_launch(j, &t->launches.cells[*i], t->launches.step_bits);
    mt_json_end(j);
    mt_json_array(j, "heat", 0);
    for (; *k < t->heat.count && t->heat.cells[*k].alloc == alloc; ++*k)
        traffic_write_piece(j, &t->heat.cells[*k], t->heat.step_bits);
    mt_json_end(j);
    mt_json_end(j);
}

int mt_traffic_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    const struct mt_traffic *t = &m->traffic;
    if (!m->nallocs) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_TRAFFIC], NULL);
        return 0;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_TRAFFIC], 0);
    mt_json_u64(j, "launch_step", 1ull << t->launches.step_bits);
    mt_json_u64(j, "heat_step", 1ull << t->heat.step_bits);
    mt_json_object(j, "allocations", 0);
    for (size_t i = 0, k = 0; i < t->launches.count;)
        traffic_write_alloc(j, m, &i, &k);
    mt_json_end(j);
    mt_json_end(j);
    return 0;
}

/* ---- text ---- */

int mt_traffic_text(struct mt_text *text)
{
    const struct mt_locality *m = text->r->locality;
    const struct mt_traffic_grid *g = &m->traffic.launches;
    char label[MT_ALLOC_LABEL];
    struct mt_table t;
    mt_table_init(
        &t,
        MT_EITHER("Allocations and launches: in how many each was read and written",
                  "Allocations and runs: in how many each was read and written"),
        MT_EITHER("allocation|>bytes|>read in|>written in|>bytes loaded|>bytes stored|>first|>last launch",
                  "allocation|>bytes|>read in|>written in|>bytes loaded|>bytes stored|>first|>last run"));
    for (size_t i = 0; i < g->count;) {
        const size_t first = i;
        uint64_t sum[4] = {0};
        for (; i < g->count && g->cells[i].alloc == g->cells[first].alloc; i++) {
            sum[0] += g->cells[i].load != 0;
            sum[1] += g->cells[i].store != 0;
            sum[2] += g->cells[i].load;
            sum[3] += g->cells[i].store;
        }
        mt_table_row(&t, sum[2] + sum[3]);
        mt_table_text(&t, mt_alloc_label(label, m, g->cells[first].alloc));
        if (g->cells[first].alloc < m->nallocs)
            mt_table_u64(&t, mt_alloc_bytes(&m->allocs[g->cells[first].alloc]));
        else
            mt_table_text(&t, "-");
        for (int k = 0; k < 4; k++)
            mt_table_u64(&t, sum[k]);
        mt_table_u64(&t, (uint64_t)g->cells[first].superstep << g->step_bits);
        mt_table_u64(&t, (uint64_t)g->cells[i - 1].superstep << g->step_bits);
    }
    return mt_table_print(&t, text->f, text->rows);
}

/* ---- sentence ---- */

/* The pair that changed roles most often. */
struct turns {
    uint64_t alloc[2];         /* indices */
    size_t rank, times, pairs; /* its kernel's; 0: there are none; how many pairs there are */
};

enum { FLIPS = 64 }; /* buffers that change between two launches, of which pairs are made */

/* A buffer in a launch. */
struct use {
    uint64_t rank, launch, alloc;
    int reads, writes;
};

MT_ORDER_3(turns_use_order, struct use, rank, launch, alloc)

struct pair {
    uint64_t rank, a, b;
};

MT_ORDER_3(turns_pair_order, struct pair, a, b, rank)

struct pairs {
    struct pair *list;
    size_t n, room;
};

static struct use *turns_uses(const struct mt_comm_result *r, const uint32_t *rank, size_t *count)
{
    const struct mt_traffic_grid *g = &r->locality->traffic.launches;
    struct use *list = malloc((g->count + 1) * sizeof *list);
    *count = 0;
    if (g->step_bits)
        return list; /* neighbouring launches are one: nothing is known */
    for (size_t i = 0; list && i < g->count; i++) {
        const struct mt_traffic_cell *c = &g->cells[i];
        if (c->alloc < r->locality->nallocs && c->superstep < r->comm->nlaunches)
            list[(*count)++] =
                (struct use){rank[c->superstep], c->superstep, c->alloc, c->load != 0, c->store != 0};
    }
    if (*count)
        qsort(list, *count, sizeof *list, turns_use_order);
    return list;
}

static size_t turns_launch_end(const struct use *list, size_t n, size_t from)
{
    size_t i = from;
    while (i < n && list[i].rank == list[from].rank && list[i].launch == list[from].launch)
        i++;
    return i;
}

/* Buffers that one launch only reads and the other one only writes, in the order of allocation. */
static size_t turns_flips(const struct use *reader, const struct use *reader_end, const struct use *writer,
                          const struct use *writer_end, uint64_t out[FLIPS])
{
    size_t n = 0;
    while (n < FLIPS && reader < reader_end && writer < writer_end) {
        uint64_t a = reader->alloc, b = writer->alloc;
        if (a == b && reader->reads && !reader->writes && writer->writes && !writer->reads)
            out[n++] = a;
        reader += a <= b;
        writer += b <= a;
    }
    return n;
}

/* Pairs of equal size of what became written and what became read. 0, or -1 without memory. */
static int turns_pair(struct pairs *p, const struct mt_comm_result *r, uint64_t rank, const uint64_t *written,
                      size_t nwritten, uint64_t *read, size_t nread)
{
    const struct mt_alloc_event *allocs = r->locality->allocs;
    for (size_t i = 0; i < nwritten; i++)
        for (size_t k = 0; k < nread; k++) {
            uint64_t a = written[i], b = read[k];
            if (b == UINT64_MAX || allocs[a].bytes != allocs[b].bytes)
                continue;
            read[k] = UINT64_MAX;
            if (mt_grow(&p->list, &p->room, p->n + 1, sizeof *p->list) != 0)
                return -1;
            p->list[p->n++] = (struct pair){rank, a < b ? a : b, a < b ? b : a};
            break;
        }
    return 0;
}

/* The pair that did it most often; of equal ones the larger buffers. */
static struct turns turns_most(struct pairs *p, const struct mt_alloc_event *allocs)
{
    struct turns most = {.times = 0};
    if (p->n)
        qsort(p->list, p->n, sizeof *p->list, turns_pair_order);
    for (size_t i = 0, first; i < p->n;) {
        for (first = i; i < p->n && turns_pair_order(&p->list[i], &p->list[first]) == 0;)
            i++;
        const struct pair *x = &p->list[first];
        most.pairs += !first || x[-1].a != x->a || x[-1].b != x->b;
        if (i - first > most.times ||
            (i - first == most.times && allocs[x->a].bytes > allocs[most.alloc[0]].bytes)) {
            most.times = i - first;
            most.rank = (size_t)x->rank;
            most.alloc[0] = x->a;
            most.alloc[1] = x->b;
        }
    }
    return most;
}

static int turns_find(const struct mt_comm_result *r, const uint32_t *rank, struct turns *out)
{
    struct pairs p = {.list = NULL};
    size_t n, before = 0, at = 0, end;
    struct use *list = turns_uses(r, rank, &n);
    int rc = list ? 0 : -1;
    for (; rc == 0 && at < n; before = at, at = end) {
        uint64_t written[FLIPS], read[FLIPS];
        end = turns_launch_end(list, n, at);
        if (!at || list[before].rank != list[at].rank)
            continue;
        size_t nw = turns_flips(list + before, list + at, list + at, list + end, written),
               nr = turns_flips(list + at, list + end, list + before, list + at, read);
        rc = turns_pair(&p, r, list[at].rank, written, nw, read, nr);
    }
    if (rc == 0)
        *out = turns_most(&p, r->locality->allocs);
    free(list);
    free(p.list);
    return rc;
}

static void traffic_turns(struct mt_summary *s)
{
    const struct mt_comm_result *r = s->r;
    struct turns t = {.times = 0};
    char label[2][MT_ALLOC_LABEL];
    s->failed |= turns_find(r, s->rank, &t) != 0;
    if (!t.times)
        return;
    char *kernel = mt_kernel_short(s->kernels[t.rank]);
    for (int i = 0; i < 2; i++)
        mt_alloc_label(label[i], r->locality, t.alloc[i]);
    mt_summary_say(s, 110, 0,
                   MT_EITHER("%s and %s (%s each) take turns: %s reads one and writes the other, and its "
                             "next launch the other way round, %s%s%s.",
                             "%s and %s (%s each) take turns: %s reads one and writes the other, and its "
                             "next run the other way round, %s%s%s."),
                   label[0], label[1], mt_number_bytes(r->locality->allocs[t.alloc[0]].bytes).text,
                   kernel ? kernel : "?", mt_number_many(t.times, "time", "times").text,
                   t.pairs > 1 ? "; so do others: " : "",
                   t.pairs > 1 ? mt_number_many(t.pairs - 1, "pair", "pairs").text : "");
    free(kernel);
}

/* A call that reallocates again and again. */
static void traffic_growing(struct mt_summary *s)
{
    enum { MANY = 16 };
    const struct mt_locality *m = s->r->locality;
    const struct mt_alloc_event *top = NULL;
    for (size_t i = 0; i < m->nallocs; i++) {
        const struct mt_alloc_event *a = &m->allocs[i];
        if (a->like >= MANY && strcmp(a->kind, "realloc") == 0 && (!top || a->total > top->total))
            top = a;
    }
    if (top && *top->file)
        mt_summary_say(s, 85, 0,
                       "realloc at %s:%" PRIu64
                       " is called %s times, for %s in all: does it grow in small steps?",
                       mt_location_short(top->file), top->line, mt_number_count(top->like).text,
                       mt_number_bytes(top->total).text);
}

void mt_traffic_sentence(struct mt_summary *s)
{
    traffic_turns(s);
    traffic_growing(s);
}
