/* What NCCL's functions do, as bytes that go between ranks. */
#include "library.h"
#include "nccl.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16384 /* elements that are reduced at a time */ };

/* What all ranks of a collective, or both ends of a message, must have in common. */
struct sign {
    uint32_t what, type, op;
    int32_t root;
    uint64_t count, bytes;
};

struct moves {
    struct mt_nccl_comm *c;
    const struct mt_nccl_do *d;
    size_t n;
    struct mt_nccl_item items[4 * MT_NCCL_RANKS];
};

static void do_out(struct moves *m, int peer, const void *p, size_t bytes)
{
    m->items[m->n++] = (struct mt_nccl_item){.peer = peer, .out = 1, .p = (char *)p, .bytes = bytes};
}

static void do_in(struct moves *m, int peer, void *p, size_t bytes)
{
    m->items[m->n++] = (struct mt_nccl_item){.peer = peer, .p = p, .bytes = bytes};
}

static int do_move(struct moves *m)
{
    int status = mt_nccl_exchange(m->c, m->d->name, m->items, m->n);
    m->n = 0;
    return status;
}

static int do_is_root(const struct moves *m)
{
    return m->c->rank == m->d->root;
}

/* Do all call the same? */
static int do_sign(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    const struct sign mine = {d->what, (uint32_t)d->type, (uint32_t)d->op, d->root, d->count, 0};
    struct sign theirs[MT_NCCL_RANKS];
    for (int r = 0; r < m->c->n; r++)
        if (r != m->c->rank) {
            do_out(m, r, &mine, sizeof mine);
            do_in(m, r, &theirs[r], sizeof mine);
            m->items[m->n - 1].same = &mine;
        }
    return do_move(m);
}

/* ---- without reduction */

/* Piece r of `send` goes to rank r (each: of one of its own, else all of it), and what comes from it to piece
 * r of `recv`. NULL: nothing goes, or comes. */
static int do_spread(struct moves *m, const char *send, int each, char *recv, const char *from,
                     const char *to)
{
    size_t bytes = m->d->count * mt_nccl_size(m->d->type);
    int me = m->c->rank;
    for (int r = 0; r < m->c->n; r++) {
        const char *out = send ? send + (each ? (size_t)r * bytes : 0) : NULL;
        char *in = recv ? recv + (size_t)r * bytes : NULL;
        if (r == me) {
            if (out && in && in != out)
                memmove(in, out, bytes);
            continue;
        }
        if (out && to[r])
            do_out(m, r, out, bytes);
        if (in && from[r])
            do_in(m, r, in, bytes);
    }
    return do_move(m);
}

static int do_broadcast(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    size_t bytes = d->count * mt_nccl_size(d->type);
    if (!do_is_root(m)) {
        do_in(m, d->root, d->recv, bytes);
        return do_move(m);
    }
    for (int r = 0; r < m->c->n; r++)
        if (r != d->root)
            do_out(m, r, d->send, bytes);
    int status = do_move(m);
    if (!status && d->recv != d->send)
        memmove(d->recv, d->send, bytes);
    return status;
}

static int do_scatter(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    size_t bytes = d->count * mt_nccl_size(d->type);
    if (!do_is_root(m)) {
        do_in(m, d->root, d->recv, bytes);
        return do_move(m);
    }
    const char *own = (const char *)d->send + (size_t)d->root * bytes;
    for (int r = 0; r < m->c->n; r++)
        if (r != d->root)
            do_out(m, r, (const char *)d->send + (size_t)r * bytes, bytes);
    int status = do_move(m);
    if (!status && d->recv != own)
        memmove(d->recv, own, bytes);
    return status;
}

static int do_gather(struct moves *m)
{
    char all[MT_NCCL_RANKS], root[MT_NCCL_RANKS] = {0};
    memset(all, 1, sizeof all);
    root[m->d->root] = 1;
    return do_spread(m, m->d->send, 0, do_is_root(m) ? m->d->recv : NULL, all, root);
}

static int do_all(struct moves *m, int each)
{
    char all[MT_NCCL_RANKS];
    memset(all, 1, sizeof all);
    return do_spread(m, m->d->send, each, m->d->recv, all, all);
}

/* ---- with reduction: each rank owns a part of the result, and gets all ranks' data for it */

struct reduction {
    struct moves *m;
    char *room;                      /* n blocks: what comes, or what goes where a scalar is multiplied */
    char *scaled;                    /* n blocks */
    size_t size, at;                 /* of an element; how far in each part */
    size_t begin[MT_NCCL_RANKS + 1]; /* parts, as elements */
};

static void do_parts(struct reduction *x)
{
    const struct mt_nccl_do *d = x->m->d;
    int n = x->m->c->n;
    for (int r = 0; r <= n; r++)
        x->begin[r] = d->what == MT_NCCL_REDUCE ? (r > d->root ? d->count : 0)
                      : d->what == MT_NCCL_REDUCESCATTER
                          ? d->count * (size_t)r
                          : d->count / (size_t)n * (size_t)r +
                                ((size_t)r < d->count % (size_t)n ? (size_t)r : d->count % (size_t)n);
}

/* Elements of rank r's part that are next. */
static size_t do_some(const struct reduction *x, int r)
{
    size_t length = x->begin[r + 1] - x->begin[r], left = x->at < length ? length - x->at : 0;
    return left < BLOCK ? left : BLOCK;
}

static const char *do_mine(struct reduction *x, int r)
{
    const struct mt_nccl_do *d = x->m->d;
    const char *from = (const char *)d->send + (x->begin[r] + x->at) * x->size;
    char *to = x->scaled + (size_t)r * BLOCK * x->size;
    if (d->op < MT_NCCL_OPS)
        return from;
    mt_nccl_scale(d->type, d->made.device ? d->made.device : d->made.value, from, to, do_some(x, r));
    return to;
}

static int do_reduce_block(struct reduction *x)
{
    struct moves *m = x->m;
    const struct mt_nccl_do *d = m->d;
    int me = m->c->rank, n = m->c->n;
    size_t own = do_some(x, me);
    const void *in[MT_NCCL_RANKS];
    for (int r = 0; r < n; r++) {
        in[r] = r == me ? do_mine(x, r) : x->room + (size_t)r * BLOCK * x->size;
        if (r == me)
            continue;
        if (do_some(x, r))
            do_out(m, r, do_mine(x, r), do_some(x, r) * x->size);
        if (own)
            do_in(m, r, (char *)in[r], own * x->size);
    }
    int status = do_move(m);
    char *to = (char *)d->recv + (x->at + (d->what == MT_NCCL_ALLREDUCE ? x->begin[me] : 0)) * x->size;
    if (!status && own)
        mt_nccl_reduce(d->type, d->op, in, n, to, own);
    for (int r = 0; !status && d->what == MT_NCCL_ALLREDUCE && r < n; r++) {
        if (r == me)
            continue;
        if (own)
            do_out(m, r, to, own * x->size);
        if (do_some(x, r))
            do_in(m, r, (char *)d->recv + (x->begin[r] + x->at) * x->size, do_some(x, r) * x->size);
    }
    return status ? status : do_move(m);
}

static int do_reduce(struct moves *m)
{
    struct reduction x = {.m = m, .size = mt_nccl_size(m->d->type)};
    size_t longest = 0, blocks = (size_t)m->c->n * BLOCK * x.size;
    int status = MT_NCCL_OK;
    do_parts(&x);
    for (int r = 0; r < m->c->n; r++)
        longest = x.begin[r + 1] - x.begin[r] > longest ? x.begin[r + 1] - x.begin[r] : longest;
    x.room = malloc(2 * blocks);
    if (!x.room)
        return mt_nccl_fail(MT_NCCL_SYSTEM, "%s: no memory", m->d->name);
    x.scaled = x.room + blocks;
    for (; x.at < longest && !status; x.at += BLOCK)
        status = do_reduce_block(&x);
    free(x.room);
    return status;
}

int mt_nccl_collective(struct mt_nccl_comm *c, const struct mt_nccl_do *d)
{
    struct moves m = {.c = c, .d = d};
    int status = do_sign(&m);
    if (status)
        return status;
    switch (d->what) {
    case MT_NCCL_BROADCAST:
        return do_broadcast(&m);
    case MT_NCCL_ALLGATHER:
        return do_all(&m, 0);
    case MT_NCCL_ALLTOALL:
        return do_all(&m, 1);
    case MT_NCCL_GATHER:
        return do_gather(&m);
    case MT_NCCL_SCATTER:
        return do_scatter(&m);
    default:
        return do_reduce(&m);
    }
}

/* ---- sends and receives of a group: each has a sign before it */

int mt_nccl_messages(struct mt_nccl_comm *c, const struct mt_nccl_job *j)
{
    struct mt_nccl_item *items = calloc(2 * (size_t)j->n, sizeof *items);
    struct sign *want = calloc(2 * (size_t)j->n, sizeof *want);
    int status =
        items && want ? MT_NCCL_OK : mt_nccl_fail(MT_NCCL_SYSTEM, "%s: no memory", j->parts[0].what.name);
    for (unsigned i = 0; !status && i < j->n; i++) {
        const struct mt_nccl_do *d = &j->parts[i].what;
        int out = d->what == MT_NCCL_SEND;
        size_t bytes = d->count * mt_nccl_size(d->type);
        want[2 * i] = (struct sign){.what = MT_NCCL_SEND, .bytes = bytes};
        items[2 * i] = (struct mt_nccl_item){.peer = d->root,
                                             .out = out,
                                             .p = (char *)&want[2 * i + !out],
                                             .bytes = sizeof *want,
                                             .same = out ? NULL : &want[2 * i]};
        items[2 * i + 1] = (struct mt_nccl_item){
            .peer = d->root, .out = out, .p = out ? (char *)d->send : d->recv, .bytes = bytes};
    }
    if (!status)
        status = mt_nccl_exchange(c, j->parts[0].what.name, items, 2 * (size_t)j->n);
    free(items);
    free(want);
    return status;
}
