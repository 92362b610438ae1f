/* Buffers that take turns: a kernel reads one and writes the other, and its next launch does it the other way
 * round. */
#define _GNU_SOURCE
#include "summary.h"
#include "output/rows/sorted.h"
#include "numbers.h"
#include "table.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdio.h>
#include <stdlib.h>

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

int mt_turns_sentence(const struct mt_comm_result *r, const uint32_t *rank, const char *const *kernels,
                      char **sentence)
{
    struct turns t = {.times = 0};
    char label[2][MT_ALLOC_LABEL];
    *sentence = NULL;
    if (turns_find(r, rank, &t) != 0)
        return -1;
    if (!t.times)
        return 0;
    char *kernel = mt_kernel_short(kernels[t.rank]);
    for (int i = 0; i < 2; i++)
        mt_alloc_label(label[i], r->locality, t.alloc[i]);
    if (asprintf(sentence,
                 "%s and %s (%s each) take turns: %s reads one and writes the other, and its next launch the "
                 "other way round, %s%s%s.",
                 label[0], label[1], mt_number_bytes(r->locality->allocs[t.alloc[0]].bytes).text,
                 kernel ? kernel : "?", mt_number_many(t.times, "time", "times").text,
                 t.pairs > 1 ? "; so do others: " : "",
                 t.pairs > 1 ? mt_number_many(t.pairs - 1, "pair", "pairs").text : "") < 0)
        *sentence = NULL;
    free(kernel);
    return *sentence ? 0 : -1;
}
