/* See unordered.h. */
#include "unordered.h"
#include "analysis/base/runs.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096, PAGE_BITS = 12, WORDS = (1 << PAGE_BITS) / 64, MOST_PAGES = 1 << 17 };

struct mt_unordered_page {
    uint64_t number;
    uint64_t bits[3][WORDS]; /* by MT_LOAD, MT_STORE, MT_ATOMIC */
};

/* ---- the order ---- */

MT_ORDER_POINTED_2(unordered_by_n, struct mt_order_event, n, op)
MT_ORDER_POINTED_2(unordered_by_op, struct mt_order_event, op, n)

static int unordered_collect(struct mt_check_unordered *u, const struct mt_companion *c)
{
    size_t room[MT_UNORDERED_STREAMS] = {0}, rooms = 0;
    for (size_t i = 0; i < c->norders; i++) {
        const struct mt_order_event *e = &c->orders[i];
        if (e->stream >= MT_UNORDERED_STREAMS)
            continue;
        if (mt_grow((void *)&u->orders[e->stream], &room[e->stream], u->norders[e->stream] + 1,
                    sizeof(void *)) != 0 ||
            mt_grow((void *)&u->by_op, &rooms, u->nops + 1, sizeof(void *)) != 0)
            return -1;
        u->orders[e->stream][u->norders[e->stream]++] = e;
        u->by_op[u->nops++] = e;
    }
    return 0;
}

int mt_check_unordered_init(struct mt_check_unordered *u, struct mt_source *s, struct mt_findings *findings,
                            struct mt_buffers *buffers)
{
    memset(u, 0, sizeof *u);
    u->findings = findings;
    u->buffers = buffers;
    const struct mt_companion *c = mt_findings_companion(findings, s);
    if (c && unordered_collect(u, c) != 0)
        return -1;
    for (int i = 0; i < MT_UNORDERED_STREAMS; i++)
        if (u->norders[i])
            qsort(u->orders[i], u->norders[i], sizeof(void *), unordered_by_n);
    if (u->nops)
        qsort(u->by_op, u->nops, sizeof(void *), unordered_by_op);
    return 0;
}

static const struct mt_order_event *unordered_find(const struct mt_check_unordered *u, uint64_t op)
{
    size_t at = MT_FIRST(i, u->nops, u->by_op[i]->op >= op);
    return op && at < u->nops && u->by_op[at]->op == op ? u->by_op[at] : NULL;
}

/* How many operations of that stream come before it. */
static uint64_t unordered_after(const struct mt_order_event *e, uint64_t stream)
{
    for (size_t i = 0; i < e->nafter; i++)
        if (e->after[i].stream == stream)
            return e->after[i].n;
    return e->stream == stream ? e->n - 1 : 0;
}

/* The last operation of the stream that does not come after it. */
static uint64_t unordered_until(const struct mt_check_unordered *u, const struct mt_order_event *e,
                                uint64_t stream)
{
    const struct mt_order_event **list = u->orders[stream];
    /* Counts only grow along a stream. */
    size_t n = MT_FIRST(i, u->norders[stream], unordered_after(list[i], e->stream) >= e->n);
    return n ? list[n - 1]->n : 0;
}

/* ---- operations ---- */

static void unordered_drop(struct mt_check_unordered *u, struct mt_unordered_op *o)
{
    u->pages -= o->npages;
    free(o->pages);
    mt_pairmap_free(&o->at);
    free(o);
}

static int unordered_is_over(const struct mt_check_unordered *u, const struct mt_unordered_op *o)
{
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        if (t != o->order->stream && o->until[t] > u->done[t])
            return 0;
    return 1;
}

static void unordered_sweep(struct mt_check_unordered *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->nopen; i++)
        if (unordered_is_over(u, u->open[i]))
            unordered_drop(u, u->open[i]);
        else
            u->open[n++] = u->open[i];
    u->nopen = n;
}

/* Can something run beside it? */
static int unordered_begin(struct mt_check_unordered *u, const struct mt_order_event *e, const char *kernel,
                           struct mt_finding_side by, uint64_t step)
{
    struct mt_unordered_op *o = e && e->stream < MT_UNORDERED_STREAMS ? calloc(1, sizeof *o) : NULL;
    int any = 0;
    if (!o)
        return e && e->stream < MT_UNORDERED_STREAMS ? -1 : 0;
    *o = (struct mt_unordered_op){.order = e, .kernel = kernel, .by = by, .step = step};
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        if (t != e->stream && u->norders[t]) {
            o->until[t] = unordered_until(u, e, t);
            any |= o->until[t] > unordered_after(e, t);
        }
    if (e->n > u->done[e->stream])
        u->done[e->stream] = e->n;
    if (any && u->pages < MOST_PAGES) {
        u->now = o;
        return 0;
    }
    u->left_out += (uint64_t)any;
    free(o);
    return 0;
}

/* ---- what they touch ---- */

static struct mt_unordered_page *unordered_page(struct mt_check_unordered *u, uint64_t number)
{
    struct mt_unordered_op *o = u->now;
    uint64_t *at = mt_pairmap_get(&o->at, number, 0, o->npages);
    if (!at || (*at == o->npages && mt_grow(&o->pages, &o->page_room, o->npages + 1, sizeof *o->pages) != 0))
        return NULL;
    if (*at == o->npages) {
        memset(&o->pages[o->npages], 0, sizeof *o->pages);
        o->pages[o->npages++].number = number;
        u->pages++;
    }
    return &o->pages[*at];
}

static int unordered_touch(struct mt_check_unordered *u, uint64_t address, uint64_t n, uint32_t type)
{
    for (uint64_t i = 0, here; i < n && u->pages < MOST_PAGES; i += here) {
        uint64_t in = (address + i) & ((1 << PAGE_BITS) - 1), left = (1 << PAGE_BITS) - in;
        struct mt_unordered_page *p = unordered_page(u, (address + i) >> PAGE_BITS);
        if (!p)
            return -1;
        here = n - i < left ? n - i : left;
        for (uint64_t b = in; b < in + here;) {
            uint64_t bits = in + here - b < 64 - b % 64 ? in + here - b : 64 - b % 64;
            p->bits[type][b / 64] |= (bits == 64 ? UINT64_MAX : (1ull << bits) - 1) << b % 64;
            b += bits;
        }
    }
    return 0;
}

int mt_check_unordered_runs(struct mt_check_unordered *u, const struct mt_access_run *runs, size_t n)
{
    struct mt_piece p;
    for (size_t i = 0; u->now && i < n; i++) {
        uint32_t type = mt_run_type(&runs[i]), at = 0;
        if (mt_rec_space(type) != MT_IN_GLOBAL || type > MT_ATOMIC || u->pages >= MOST_PAGES)
            continue;
        while (mt_run_piece(&runs[i], &at, &p))
            if (unordered_touch(u, p.address, p.bytes, type) != 0)
                return -1;
    }
    return 0;
}

/* ---- two of them ---- */

static const char *const ops[] = {"load", "store", "atomic"};

struct meeting {
    uint64_t bytes, first;
    int here, other; /* kinds of access, of the first byte */
};

/* Bytes of a word at which these kinds of access do not go together. */
static uint64_t unordered_word(const struct mt_unordered_page *a, const struct mt_unordered_page *b, int w)
{
    uint64_t sa = a->bits[MT_STORE][w], sb = b->bits[MT_STORE][w], la = a->bits[MT_LOAD][w],
             lb = b->bits[MT_LOAD][w], aa = a->bits[MT_ATOMIC][w], ab = b->bits[MT_ATOMIC][w];
    return (sa & (sb | lb | ab)) | (sb & (la | aa)) | (aa & lb) | (ab & la);
}

static int unordered_kind(const struct mt_unordered_page *p, int w, int bit)
{
    return p->bits[MT_STORE][w] >> bit & 1    ? MT_STORE
           : p->bits[MT_ATOMIC][w] >> bit & 1 ? MT_ATOMIC
                                              : MT_LOAD;
}

static void unordered_pages(struct meeting *m, const struct mt_unordered_page *a,
                            const struct mt_unordered_page *b)
{
    for (int w = 0; w < WORDS; w++) {
        uint64_t bad = unordered_word(a, b, w);
        if (bad && (!m->bytes || (a->number << PAGE_BITS) + (uint64_t)w * 64 < m->first)) {
            int bit = __builtin_ctzll(bad);
            m->first = (a->number << PAGE_BITS) + (uint64_t)w * 64 + (uint64_t)bit;
            m->here = unordered_kind(a, w, bit);
            m->other = unordered_kind(b, w, bit);
        }
        m->bytes += (uint64_t)__builtin_popcountll(bad);
    }
}

static int unordered_meet(struct mt_check_unordered *u, const struct mt_unordered_op *a,
                          const struct mt_unordered_op *b)
{
    struct meeting m = {0};
    for (size_t i = 0; i < a->npages; i++) {
        const uint64_t *at = mt_pairmap_find(&b->at, a->pages[i].number, 0);
        if (at)
            unordered_pages(&m, &a->pages[i], &b->pages[*at]);
    }
    struct mt_finding f = {.kind = MT_FINDING_OF_UNORDERED,
                           .kernel = a->kernel,
                           .other_kernel = b->kernel,
                           .here = a->by,
                           .other = b->by,
                           .count = m.bytes,
                           .launches = 1,
                           .alloc = m.bytes ? mt_buffers_find(u->buffers, m.first) : NULL};
    f.here.op = ops[m.here];
    f.other.op = ops[m.other];
    return m.bytes ? mt_findings_add(u->findings, &f) : 0;
}

/* The one under way has ended. */
static int unordered_end(struct mt_check_unordered *u)
{
    struct mt_unordered_op *o = u->now;
    int rc = 0;
    u->now = NULL;
    for (size_t i = 0; o && i < u->nopen && rc == 0; i++) {
        const struct mt_order_event *e = u->open[i]->order;
        if (e->stream != o->order->stream && unordered_after(o->order, e->stream) < e->n &&
            unordered_after(e, o->order->stream) < o->order->n)
            rc = unordered_meet(u, o, u->open[i]);
    }
    if (o && (rc != 0 || mt_grow((void *)&u->open, &u->open_room, u->nopen + 1, sizeof *u->open) != 0)) {
        unordered_drop(u, o);
        return -1;
    }
    if (o)
        u->open[u->nopen++] = o;
    unordered_sweep(u);
    return rc;
}

int mt_check_unordered_launch(struct mt_check_unordered *u, const struct mt_run_launch *launch)
{
    const struct mt_launch_event *l = launch->event;
    if (unordered_end(u) != 0)
        return -1;
    struct mt_finding_side by = {0};
    if (!l)
        return 0;
    by = (struct mt_finding_side){.file = l->file, .line = l->line, .at = l->at, .callers = l->callers};
    return unordered_begin(u, unordered_find(u, l->op), launch->kernel, by, launch->superstep);
}

int mt_check_unordered_copy(struct mt_check_unordered *u, const struct mt_copy_event *c)
{
    struct mt_finding_side by = {.file = c->file, .line = c->line, .at = c->at, .callers = c->callers};
    if (unordered_end(u) != 0 ||
        unordered_begin(u, unordered_find(u, c->op), c->kind == MT_COPY_SET ? "<fill>" : "", by, 0) != 0)
        return -1;
    if (u->now && c->height > MOST_ROWS) {
        u->left_out++;
        return 0;
    }
    for (uint64_t row = 0; u->now && row < c->height && u->pages < MOST_PAGES; row++) {
        int reads = c->kind == MT_COPY_D2H || c->kind == MT_COPY_D2D,
            writes = c->kind == MT_COPY_H2D || c->kind == MT_COPY_D2D || c->kind == MT_COPY_SET;
        if ((reads && unordered_touch(u, c->src + row * c->spitch, c->width, MT_LOAD) != 0) ||
            (writes && unordered_touch(u, c->dst + row * c->dpitch, c->width, MT_STORE) != 0))
            return -1;
    }
    return 0;
}

int mt_check_unordered_finish(struct mt_check_unordered *u)
{
    return unordered_end(u);
}

void mt_check_unordered_free(struct mt_check_unordered *u)
{
    if (u->now)
        unordered_drop(u, u->now);
    for (size_t i = 0; i < u->nopen; i++)
        unordered_drop(u, u->open[i]);
    for (int i = 0; i < MT_UNORDERED_STREAMS; i++)
        free((void *)u->orders[i]);
    free((void *)u->by_op);
    free((void *)u->open);
    memset(u, 0, sizeof *u);
}
