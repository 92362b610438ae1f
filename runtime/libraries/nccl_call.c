/* NCCL's calls: their arguments, groups, and how they become operations of streams. */
#include "nccl.h"
#include <stdlib.h>
#include <string.h>

int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaStreamIsCapturing(void *stream, int *status);

/* ---- what a call reads and writes */

struct nccl_call {
    struct mt_library_call call;
    struct mt_nccl_comm *c;
    struct mt_nccl_job *job;
    unsigned part;
    int rank, n;
    struct mt_nccl_do what;
};

/* Bytes of `n` pieces, but for the one that is there already. */
static void call_note(struct mt_library_notes *notes, int type, const void *p, size_t piece, int n, int but)
{
    const char *at = p;
    if (but < 0)
        __mt_library_note(notes, type, at, piece * (size_t)n, 1, 0);
    else {
        __mt_library_note(notes, type, at, piece * (size_t)but, 1, 0);
        __mt_library_note(notes, type, at + piece * (size_t)(but + 1), piece * (size_t)(n - but - 1), 1, 0);
    }
}

/* How many pieces are at `send` and `recv`, of this rank. */
static void call_pieces(const struct nccl_call *k, int *send, int *recv)
{
    int root = k->rank == k->what.root, n = k->n;
    *send = *recv = 1;
    switch (k->what.what) {
    case MT_NCCL_BROADCAST:
        *send = root;
        *recv = !root || k->what.send != k->what.recv;
        break;
    case MT_NCCL_REDUCE:
        *recv = root;
        break;
    case MT_NCCL_ALLGATHER:
        *recv = n;
        break;
    case MT_NCCL_REDUCESCATTER:
        *send = n;
        break;
    case MT_NCCL_ALLTOALL:
        *send = *recv = n;
        break;
    case MT_NCCL_GATHER:
        *recv = root ? n : 0;
        break;
    case MT_NCCL_SCATTER:
        *send = root ? n : 0;
        break;
    case MT_NCCL_SEND:
        *recv = 0;
        break;
    case MT_NCCL_RECV:
        *send = 0;
        break;
    default:
        break;
    }
}

static void call_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct nccl_call *k = (const struct nccl_call *)call;
    const struct mt_nccl_do *d = &k->what;
    size_t bytes = d->count * mt_nccl_size(d->type), own = (size_t)k->rank * bytes;
    int send, recv, there = -1;
    call_pieces(k, &send, &recv);
    if (d->op >= MT_NCCL_OPS && d->made.device)
        __mt_library_note(notes, MT_LIBRARY_READ, d->made.device, mt_nccl_size(d->type), 1, 0);
    if (send)
        call_note(notes, MT_LIBRARY_READ, d->send, bytes, send, -1);
    if ((d->what == MT_NCCL_ALLGATHER || d->what == MT_NCCL_GATHER) && recv &&
        d->send == (char *)d->recv + own)
        there = k->rank;
    if (d->what == MT_NCCL_SCATTER && send && d->recv == (char *)d->send + own)
        recv = 0;
    if (recv)
        call_note(notes, MT_LIBRARY_WRITE, d->recv, bytes, recv, there);
}

static int call_run(struct mt_library_call *call)
{
    struct nccl_call *k = (struct nccl_call *)call;
    return mt_nccl_part_run(k->c, k->job, k->part, call);
}

static void call_drop(struct mt_library_call *call)
{
    struct nccl_call *k = (struct nccl_call *)call;
    mt_nccl_part_drop(k->c, k->job, k->part);
}

/* Where a part goes, and where the program called it. */
struct target {
    void *stream;
    const void *site;
};

static int call_submit(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part, const struct target *t)
{
    static const char *const ops[] = {"allreduce", "broadcast", "reduce",  "allgather", "reducescatter",
                                      "alltoall",  "gather",    "scatter", "send",      "recv"};
    const struct mt_nccl_do *d = &j->parts[part].what;
    int message = d->what >= MT_NCCL_SEND;
    struct nccl_call k = {.call = {.bytes = sizeof k,
                                   .name = d->name,
                                   .library = "nccl",
                                   .ranges = call_ranges,
                                   .run = call_run,
                                   .drop = call_drop,
                                   .site = t->site,
                                   .collective = {.comm = c->id,
                                                  .op = ops[d->what],
                                                  .rank = c->rank,
                                                  .ranks = c->n,
                                                  .root = message ? -1 : d->root,
                                                  .peer = message ? d->root : -1,
                                                  .count = d->count,
                                                  .size = (uint32_t)mt_nccl_size(d->type)}},
                          .c = c,
                          .job = j,
                          .part = part,
                          .rank = c->rank,
                          .n = c->n,
                          .what = *d};
    return __mt_library_submit(t->stream, &k.call) ? MT_NCCL_CUDA : MT_NCCL_OK;
}

/* ---- groups */

struct waiting {
    struct mt_nccl_comm *c;
    void *stream;
    struct mt_nccl_do what;
    const void *site;
    int taken;
};
struct finishing {
    int (*finish)(void *);
    void *arg;
};
static _Thread_local struct group {
    int depth, status;
    struct waiting *calls;
    struct finishing *ends;
    size_t ncalls, call_room, nends, end_room;
} group;

int mt_nccl_noted(int status)
{
    if (group.depth && status && !group.status)
        group.status = status;
    return status;
}

/* Room for one more. 0, or -1. */
static int call_grow(void *list, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return 0;
    size_t more = *room ? 2 * *room : 16;
    void *p = realloc(*(void **)list, more * size);
    if (!p)
        return -1;
    *(void **)list = p;
    *room = more;
    return 0;
}

int mt_nccl_later(int (*finish)(void *), void *arg)
{
    if (!group.depth || call_grow(&group.ends, &group.end_room, group.nends, sizeof *group.ends)) {
        int status = finish(arg);
        free(arg);
        return status;
    }
    group.ends[group.nends++] = (struct finishing){finish, arg};
    return MT_NCCL_OK;
}

int mt_nccl_group_begin(void)
{
    group.depth++;
    return MT_NCCL_OK;
}

/* What comes in while they finish comes behind: a split makes a communicator, for which all of it have to
 * wait. */
static int call_finish_ends(void)
{
    int first = MT_NCCL_OK;
    for (size_t i = 0; i < group.nends; i++) {
        int status = group.ends[i].finish(group.ends[i].arg);
        free(group.ends[i].arg);
        first = first ? first : status;
    }
    group.nends = 0;
    return first;
}

/* The calls from `first` on that go together with it: itself, or with a message all messages of its
 * communicator. */
static int call_together(const struct waiting *first, const struct waiting *w)
{
    int message = first->what.what >= MT_NCCL_SEND;
    return !w->taken && (w == first || (message && w->c == first->c && w->what.what >= MT_NCCL_SEND));
}

static int call_captured(void *stream)
{
    int status = 0;
    return !cudaStreamIsCapturing(stream, &status) && status == 1;
}

/* One job, with the device of its communicator. */
static int call_put(size_t at)
{
    struct waiting *first = &group.calls[at];
    unsigned n = 0, i = 0;
    for (size_t k = at; k < group.ncalls; k++)
        n += (unsigned)call_together(first, &group.calls[k]);
    struct mt_nccl_job *j = mt_nccl_job_new(n);
    struct target *to = malloc(n * sizeof *to);
    if (!j || !to) {
        free(j);
        free(to);
        return MT_NCCL_SYSTEM;
    }
    for (size_t k = at; i < n; k++) {
        struct waiting *w = &group.calls[k];
        if (!call_together(first, w))
            continue;
        j->parts[i] = (struct mt_nccl_part){.what = w->what, .first = 1};
        for (unsigned before = 0; before < i; before++)
            j->parts[i].first &= to[before].stream != w->stream;
        j->streams += j->parts[i].first;
        to[i++] = (struct target){w->stream, w->site};
        w->taken = w != first;
    }
    first->taken = 1;
    j->captured = call_captured(to[0].stream);
    if (!j->captured)
        mt_nccl_job_queue(first->c, j);
    int status = MT_NCCL_OK;
    for (i = 0; i < n; i++) {
        int e = call_submit(first->c, j, i, &to[i]);
        if (e && !j->captured)
            mt_nccl_part_drop(first->c, j, i);
        status = status ? status : e;
    }
    free(to);
    return status;
}

/* Collectives first: ranks may have them in another order with messages. */
static int call_put_all(void)
{
    int status = MT_NCCL_OK, before, known = !cudaGetDevice(&before);
    for (int messages = 0; messages < 2; messages++)
        for (size_t i = 0; i < group.ncalls; i++) {
            struct waiting *w = &group.calls[i];
            if (w->taken || (w->what.what >= MT_NCCL_SEND) != messages)
                continue;
            int e = cudaSetDevice(w->c->device) ? MT_NCCL_CUDA : call_put(i);
            status = status ? status : e;
        }
    if (known)
        cudaSetDevice(before);
    return status;
}

int mt_nccl_group_end(void)
{
    if (!group.depth)
        return mt_nccl_fail(MT_NCCL_USAGE, "ncclGroupEnd: not in a group call");
    if (group.depth > 1) {
        group.depth--;
        return MT_NCCL_OK;
    }
    int status = call_finish_ends();
    status = group.status ? group.status : status;
    if (!status)
        status = call_put_all();
    group.depth = 0;
    group.status = MT_NCCL_OK;
    group.ncalls = 0;
    free(group.calls);
    free(group.ends);
    group.calls = NULL;
    group.ends = NULL;
    group.call_room = group.end_room = 0;
    return status;
}

int impl_ncclGroupStart(void)
{
    return mt_nccl_group_begin();
}

int impl_ncclGroupEnd(void)
{
    return mt_nccl_group_end();
}

/* ---- calls */

static int call_check(const struct mt_nccl_comm *c, const struct mt_nccl_do *d)
{
    int reduces =
        d->what == MT_NCCL_ALLREDUCE || d->what == MT_NCCL_REDUCE || d->what == MT_NCCL_REDUCESCATTER;
    int rooted = d->what != MT_NCCL_ALLREDUCE && d->what != MT_NCCL_ALLGATHER &&
                 d->what != MT_NCCL_REDUCESCATTER && d->what != MT_NCCL_ALLTOALL;
    size_t bytes;
    if (!mt_nccl_is_comm(c))
        return mt_nccl_fail(MT_NCCL_ARGUMENT, "%s: the communicator is none", d->name);
    if (rooted && (d->root < 0 || d->root >= c->n))
        return mt_nccl_fail(MT_NCCL_ARGUMENT, "%s: rank %d of %d", d->name, d->root, c->n);
    if (d->type < 0 || d->type >= MT_NCCL_TYPES)
        return mt_nccl_fail(MT_NCCL_ARGUMENT, "%s: data type %d", d->name, d->type);
    int made = d->op - MT_NCCL_OPS;
    if (reduces && (d->op < 0 || made >= MT_NCCL_MADE ||
                    (made >= 0 && (!c->made[made].used || c->made[made].type != d->type))))
        return mt_nccl_fail(MT_NCCL_ARGUMENT, "%s: operation %d", d->name, d->op);
    if (__builtin_mul_overflow(d->count, 8 * MT_NCCL_RANKS, &bytes) || bytes > PTRDIFF_MAX)
        return mt_nccl_fail(MT_NCCL_ARGUMENT, "%s: %zu elements", d->name, d->count);
    return MT_NCCL_OK;
}

static int call_make(struct mt_nccl_do d, struct mt_nccl_comm *c, void *stream)
{
    int status = call_check(c, &d);
    if (status || !d.count)
        return mt_nccl_noted(status);
    if (d.op >= MT_NCCL_OPS)
        d.made = c->made[d.op - MT_NCCL_OPS];
    if (call_grow(&group.calls, &group.call_room, group.ncalls, sizeof *group.calls))
        return mt_nccl_noted(MT_NCCL_SYSTEM);
    mt_nccl_group_begin();
    group.calls[group.ncalls++] = (struct waiting){c, stream, d, __mt_library_site(), 0};
    return mt_nccl_group_end();
}

#define DO(what, ...) call_make((struct mt_nccl_do){"nccl" what, __VA_ARGS__, {0}}, c, stream)

int impl_ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("AllReduce", MT_NCCL_ALLREDUCE, send, recv, count, type, op, -1);
}

int impl_ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("Broadcast", MT_NCCL_BROADCAST, send, recv, count, type, 0, root);
}

int impl_ncclBcast(void *p, size_t count, int type, int root, struct mt_nccl_comm *c, void *stream)
{
    return DO("Bcast", MT_NCCL_BROADCAST, p, p, count, type, 0, root);
}

int impl_ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
                    struct mt_nccl_comm *c, void *stream)
{
    return DO("Reduce", MT_NCCL_REDUCE, send, recv, count, type, op, root);
}

int impl_ncclAllGather(const void *send, void *recv, size_t count, int type, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("AllGather", MT_NCCL_ALLGATHER, send, recv, count, type, 0, -1);
}

int impl_ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
                           struct mt_nccl_comm *c, void *stream)
{
    return DO("ReduceScatter", MT_NCCL_REDUCESCATTER, send, recv, count, type, op, -1);
}

int impl_ncclAlltoAll(const void *send, void *recv, size_t count, int type, struct mt_nccl_comm *c,
                      void *stream)
{
    return DO("AlltoAll", MT_NCCL_ALLTOALL, send, recv, count, type, 0, -1);
}

int impl_ncclGather(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                    void *stream)
{
    return DO("Gather", MT_NCCL_GATHER, send, recv, count, type, 0, root);
}

int impl_ncclScatter(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                     void *stream)
{
    return DO("Scatter", MT_NCCL_SCATTER, send, recv, count, type, 0, root);
}

int impl_ncclSend(const void *send, size_t count, int type, int peer, struct mt_nccl_comm *c, void *stream)
{
    return DO("Send", MT_NCCL_SEND, send, NULL, count, type, 0, peer);
}

int impl_ncclRecv(void *recv, size_t count, int type, int peer, struct mt_nccl_comm *c, void *stream)
{
    return DO("Recv", MT_NCCL_RECV, NULL, recv, count, type, 0, peer);
}
