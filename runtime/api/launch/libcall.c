/* Library calls (cuBLAS and others) as operations of a stream. The trace shows them as launches of one CTA:
 * they read and write blocks, known from the arguments. libmemtrace-libraries.so does the computation. */
#define _GNU_SOURCE
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/file.h"
#include "base/fork.h"
#include "launch.h"
#include "library.h"
#include "trace/events.h"
#include "base/attach.h"
#include "base/options.h"
#include "api/streams/stream.h"
#include "api/device/device.h"
#include "device/gpu.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#include "base/report.h"
#include "trace/selection.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Memory that several processes map, for library calls (library.h). */

#define EXPORT __attribute__((visibility("default")))
#define MAGIC "MTSHARE1"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
_Static_assert(sizeof(struct mt_ipc_handle) <= MT_LIBRARY_HANDLE, "a handle has room");

EXPORT int __mt_library_share(size_t bytes, void *handle)
{
    struct mt_ipc_handle h;
    int fd = mt_fd_up(memfd_create("memtrace-library", MFD_CLOEXEC));
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) || mt_ipc_name(&h, MAGIC, fd, bytes)) {
        close(fd);
        return -1;
    }
    memset(handle, 0, MT_LIBRARY_HANDLE);
    memcpy(handle, &h, sizeof h);
    return 0;
}

EXPORT void *__mt_library_map(const void *handle)
{
    struct mt_ipc_handle h;
    memcpy(&h, handle, sizeof h);
    return memcmp(h.magic, MAGIC, sizeof h.magic) ? NULL : mt_ipc_map(&h);
}

EXPORT void __mt_library_unshare(const void *handle)
{
    struct mt_ipc_handle h;
    memcpy(&h, handle, sizeof h);
    struct mt_fd d = {h.fd, (dev_t)h.device, (ino_t)h.inode};
    if (h.pid != getpid())
        return;
    pthread_mutex_lock(&lock); /* a second call must not close a file that has reused the descriptor */
    mt_fd_close(&d);
    pthread_mutex_unlock(&lock);
}

EXPORT const void *__mt_library_site(void)
{
    return mt_host_site_take();
}

EXPORT void __mt_library_communicator(uint64_t comm, int rank, int ranks, int device)
{
    mt_event_communicator(comm, rank, ranks, device);
}

enum { BATCH = 64, RUN_MAX = 1 << 20 };

struct libcall_piece {
    uint64_t base, count;
    int64_t stride;
    uint32_t bytes;
    int type;
};

/* Accesses announced by a call under way. */
enum { FINE, NOT_THERE, NO_ROOM };
struct mt_library_notes {
    const char *name;
    int anywhere, counted; /* on a GPU: any address is accepted; no pieces are kept */
    int wrong;
    struct libcall_piece *pieces;
    size_t n, room;
    uint64_t records, sums[6]; /* sums: as mt_launch_line.recorded */
};

/* Accesses of a call on a GPU, whose records the trace takes later. */
struct libcall_known {
    struct mt_gpu_known known;
    struct mt_library_notes notes;
};

struct libcall_op {
    struct mt_op op;
    struct mt_trace *trace;
    struct mt_library_notes *later; /* notes of a call under way */
    struct mt_launch_line line;
    struct mt_library_call call; /* followed by the rest of its block */
};

/* ---- records, in batches */

struct libcall_batch {
    struct mt_trace *trace;
    unsigned n;
    union {
        struct mt_raw_record records[BATCH];
        struct mt_access_run runs[BATCH];
    } room;
};

static void libcall_flush(struct libcall_batch *b)
{
    if (b->n && mt_trace_compact())
        mt_trace_append_runs(b->trace, b->room.runs, b->n, 0);
    else if (b->n)
        mt_trace_append(b->trace, b->room.records, b->n);
    b->n = 0;
}

static void libcall_record(struct libcall_batch *b, const struct libcall_piece *p, uint64_t from,
                           uint32_t count)
{
    uint32_t meta = mt_rec_meta(p->type == MT_LIBRARY_READ ? MT_LOAD : MT_STORE, p->bytes);
    uint64_t base = p->base + from * (uint64_t)p->stride;
    if (mt_trace_compact())
        b->room.runs[b->n++] = (struct mt_access_run){
            .base = base, .stride = p->stride, .meta = meta, .count = count, .warp = MT_RUN_NO_WARP};
    else
        b->room.records[b->n++] = (struct mt_raw_record){{meta, base, 0}};
    if (b->n == BATCH)
        libcall_flush(b);
}

static void libcall_write(const struct mt_library_notes *n, struct mt_trace *t)
{
    struct libcall_batch b = {.trace = t};
    uint64_t most = mt_trace_compact() ? RUN_MAX : 1;
    for (const struct libcall_piece *p = n->pieces; p < n->pieces + n->n; p++)
        for (uint64_t i = 0, some; i < p->count; i += some) {
            some = p->count - i < most ? p->count - i : most;
            libcall_record(&b, p, i, (uint32_t)some);
        }
    libcall_flush(&b);
}

/* ---- notes */

/* Appends `p` to `last` if it continues it. Returns whether it did. */
static int libcall_joins(struct libcall_piece *last, const struct libcall_piece *p)
{
    int64_t step = last->count > 1 ? last->stride : (int64_t)(p->base - last->base);
    if (p->type != last->type || p->bytes != last->bytes || (p->count > 1 && p->stride != step) ||
        p->base != last->base + last->count * (uint64_t)step)
        return 0;
    last->stride = step;
    last->count += p->count;
    return 1;
}

static void libcall_keep(struct mt_library_notes *n, const struct libcall_piece *p)
{
    n->records += p->count;
    n->sums[2 * p->type] += p->count;
    n->sums[2 * p->type + 1] += p->count * p->bytes;
    if (n->counted || (n->n && libcall_joins(&n->pieces[n->n - 1], p)))
        return;
    if (n->n == n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        struct libcall_piece *more = realloc(n->pieces, room * sizeof *more);
        if (!more) {
            mt_report("%s: no memory for what it reads and writes", n->name);
            n->wrong = NO_ROOM;
            return;
        }
        n->pieces = more;
        n->room = room;
    }
    n->pieces[n->n++] = *p;
}

/* Returns whether all pieces are in one memory block. */
static int libcall_inside(uint64_t base, size_t bytes, size_t count, int64_t stride)
{
    struct mt_block b;
    uint64_t span;
    uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (__builtin_mul_overflow(step, count - 1, &span))
        return 0;
    base -= stride < 0 ? span : 0;
    uint64_t reach = mt_heap_reach((const void *)(uintptr_t)base, -1, &b);
    return span <= reach && bytes <= reach - span;
}

EXPORT void __mt_library_refuse(struct mt_library_notes *n, const char *why)
{
    if (!n->wrong)
        mt_report("%s: %s", n->name, why);
    n->wrong = NOT_THERE;
}

EXPORT int __mt_library_note(struct mt_library_notes *n, int type, const void *p, size_t bytes, size_t count,
                             int64_t stride)
{
    uint64_t base = (uint64_t)(uintptr_t)p;
    if (!bytes || !count || n->wrong)
        return n->wrong ? -1 : 0;
    if (count > 1 && stride == (int64_t)bytes && !__builtin_mul_overflow(bytes, count, &bytes))
        count = 1;
    if (!n->anywhere && !libcall_inside(base, bytes, count, stride)) {
        mt_report("%s: %s %zu times %zu bytes from %#llx on, which is not memory of the device", n->name,
                  type == MT_LIBRARY_READ ? "reads" : "writes", count, bytes, (unsigned long long)base);
        n->wrong = NOT_THERE;
        return -1;
    }
    for (size_t i = 0; bytes > MT_RAW_MAX_SIZE && i < count; i++)
        for (size_t at = 0; at < bytes && !n->wrong; at += MT_RAW_MAX_SIZE) {
            uint32_t some = bytes - at < MT_RAW_MAX_SIZE ? (uint32_t)(bytes - at) : MT_RAW_MAX_SIZE;
            libcall_keep(n, &(struct libcall_piece){base + i * (uint64_t)stride + at, 1, 0, some, type});
        }
    if (bytes <= MT_RAW_MAX_SIZE)
        libcall_keep(n, &(struct libcall_piece){base, count, stride, (uint32_t)bytes, type});
    return n->wrong ? -1 : 0;
}

/* Ends a call with the accesses it noted. */
static void libcall_over(struct libcall_op *o, struct mt_library_notes *n, cudaError_t e)
{
    int taken = !o->line.in_parts || o->line.traced_ctas;
    o->line.status = e;
    if (!e && taken) {
        o->line.records = o->trace ? n->records : 0;
        memcpy(o->line.recorded, n->sums, sizeof n->sums);
        libcall_write(n, o->trace);
    }
    if (e == cudaErrorLaunchFailure)
        mt_trace_miss(o->trace, "a library's call failed, and what it touched until then is not known");
    if (!mt_device_is_gpu())
        mt_trace_end(o->trace, &o->line);
    if (e)
        mt_fail_sticky(o->op.stream->device, e);
}

static cudaError_t libcall_result(struct libcall_op *o, struct mt_library_notes *n, int how)
{
    if (how == MT_LIBRARY_GIVEN_UP) { /* its accesses are unknown */
        n->n = n->records = 0;
        memset(n->sums, 0, sizeof n->sums);
        mt_trace_miss(o->trace, "a library's call was given up");
    }
    return how == MT_LIBRARY_FAILED ? cudaErrorLaunchFailure : cudaSuccess;
}

/* Starts a call. Its accesses are determined before, and recorded after it has run. */
static int libcall_start(struct mt_op *op)
{
    struct libcall_op *o = (struct libcall_op *)op;
    int taken = !o->line.in_parts || o->line.traced_ctas;
    struct mt_library_notes *n = calloc(1, sizeof *n);
    if (!mt_device_is_gpu())
        mt_trace_begin(o->trace, &o->line);
    if (!n) {
        libcall_over(o, n, cudaErrorMemoryAllocation);
        return MT_OP_DONE;
    }
    *n = (struct mt_library_notes){.name = o->call.name, .counted = !o->trace || !taken};
    o->later = n;
    o->call.ranges(&o->call, n);
    int how = n->wrong ? MT_LIBRARY_FAILED : o->call.run(&o->call);
    if (how == MT_LIBRARY_LATER) /* another thread has it now */
        return MT_OP_PENDING;
    libcall_over(o, n,
                 n->wrong == NO_ROOM ? cudaErrorMemoryAllocation
                 : n->wrong          ? cudaErrorIllegalAddress
                                     : libcall_result(o, n, how));
    free(n->pieces);
    free(n);
    return MT_OP_DONE;
}

EXPORT void __mt_library_end(struct mt_library_call *c, int how)
{
    struct libcall_op *o = (struct libcall_op *)((char *)c - offsetof(struct libcall_op, call));
    struct mt_library_notes *n = o->later;
    uint64_t outer = mt_event_set_op(o->op.ticket);
    libcall_over(o, n, libcall_result(o, n, how));
    mt_event_set_op(outer);
    free(n->pieces);
    free(n);
    mt_op_finish(&o->op);
}

static void libcall_drop(struct mt_op *op)
{
    struct libcall_op *o = (struct libcall_op *)op;
    if (o->call.drop)
        o->call.drop(&o->call);
}

static struct mt_launch_line libcall_line(const struct mt_library_call *c)
{
    return (struct mt_launch_line){.kernel = c->name,
                                   .mangled = c->name,
                                   .signature = c->name,
                                   .library = c->library,
                                   .grid = {1, 1, 1},
                                   .block = {1, 1, 1},
                                   .collective = {.op = c->collective.op,
                                                  .comm = c->collective.comm,
                                                  .rank = c->collective.rank,
                                                  .ranks = c->collective.ranks,
                                                  .root = c->collective.root,
                                                  .peer = c->collective.peer,
                                                  .count = c->collective.count,
                                                  .size = c->collective.size},
                                   .site = c->site ? c->site : mt_host_site_take()};
}

static void libcall_bind(struct mt_op *op, struct mt_stream *s)
{
    struct libcall_op *o = (struct libcall_op *)op;
    o->trace = NULL;
    o->line.called = mt_event_next();
    o->line.device = s->device;
    if (mt_tracing() && mt_selection_takes(&o->line))
        o->trace = mt_stream_trace(s);
}

static struct libcall_op *libcall_make(const struct mt_library_call *c)
{
    struct libcall_op *o = mt_op_new(sizeof *o - sizeof o->call + c->bytes, MT_OP_LIBRARY, libcall_start);
    if (!o)
        return NULL;
    memcpy(&o->call, c, c->bytes);
    o->trace = NULL;
    o->line = libcall_line(c);
    o->op.site = o->line.site;
    o->op.drop = libcall_drop;
    o->op.bind = libcall_bind;
    return o;
}

/* ---- on a GPU */

__thread int mt_libcall_inside;

static void libcall_hand_on(struct mt_gpu_known *known, struct mt_trace *t)
{
    struct libcall_known *k = (struct libcall_known *)known;
    if (t)
        libcall_write(&k->notes, t);
    free(k->notes.pieces);
    free(k);
}

/* Returns the announced accesses, or NULL after a report if they are unknown. */
static struct mt_gpu_known *libcall_know(struct mt_library_call *c)
{
    struct libcall_known *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->notes = (struct mt_library_notes){.name = c->name, .anywhere = 1};
    k->known.write = libcall_hand_on;
    c->ranges(c, &k->notes);
    k->known.records = k->notes.records;
    memcpy(k->known.recorded, k->notes.sums, sizeof k->notes.sums);
    if (!k->notes.wrong)
        return &k->known;
    libcall_hand_on(&k->known, NULL);
    return NULL;
}

/* The library's own kernels are not traced. */
EXPORT int __mt_library_forward(struct mt_library_call *c)
{
    mt_libcall_inside++;
    int status = c->run(c);
    mt_libcall_inside--;
    return status;
}

static int libcall_submit_gpu(cudaStream_t stream, struct mt_library_call *c)
{
    struct mt_stream *s = mt_stream_get(stream);
    struct mt_gpu_launch l = {.stream = mt_stream_named(stream), .line = libcall_line(c)};
    int there = !mt_libcall_inside && mt_tracing() && mt_gpu() && s;
    if (there && mt_gpu()->capturing(l.stream)) {
        __mt_library_miss(c->name);
        there = 0;
    }
    if (!there)
        return __mt_library_forward(c);
    l.line.called = mt_event_next();
    if (mt_selection_takes(&l.line)) {
        l.trace = mt_stream_trace(s);
        l.known = libcall_know(c);
        if (!l.known) {
            mt_report("%s is not traced", c->name);
            mt_trace_miss(l.trace, NULL);
            l.trace = NULL;
        }
    }
    mt_gpu()->launch(&l);
    int status = __mt_library_forward(c);
    mt_gpu()->issued(&l, status ? cudaErrorUnknown : cudaSuccess);
    return status;
}

enum { FETCH_MS = 10000 };

/* Limits the wait: the stream may depend on later actions of the program. */
EXPORT int __mt_library_fetch(void *stream, void *to, const void *from, size_t bytes)
{
    const struct timespec rest = {0, 50000};
    cudaError_t e = cudaErrorNotReady;
    int clean = mt_error_hold();
    if (mt_gpu() && !mt_gpu()->capturing(mt_stream_named(stream)))
        for (int i = 0; i < FETCH_MS * 20 && (e = MT_NEXT(cudaStreamQuery)(stream)) == cudaErrorNotReady; i++)
            nanosleep(&rest, NULL);
    if (!e)
        e = MT_NEXT(cudaMemcpy)(to, from, bytes, cudaMemcpyDefault);
    mt_error_release(clean);
    return e ? -1 : 0;
}

EXPORT void __mt_library_miss(const char *name)
{
    static _Atomic int said;
    char why[200];
    if (mt_libcall_inside || !mt_tracing())
        return;
    snprintf(why, sizeof why, "what %.100s reads and writes on a GPU is not known", name);
    if (!said++)
        mt_report("%s: the trace is not complete (said once)", why);
    mt_trace_miss_anywhere(why);
}

/* ---- submission */

static int libcall_submit(void *stream, struct mt_library_call *c)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return (int)mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = mt_capture_check(s, MT_CALL_ASYNC);
    struct libcall_op *o = e ? NULL : libcall_make(c);
    if (!o)
        return (int)(e ? e : mt_fail(cudaErrorMemoryAllocation));
    if (!mt_capturing(s))
        libcall_bind(&o->op, s);
    return (int)mt_op_submit(s, &o->op);
}

EXPORT int __mt_library_submit(void *stream, struct mt_library_call *c)
{
    int watched = mt_failed_watched();
    if (mt_device_is_gpu())
        return libcall_submit_gpu(stream, c);
    if (watched)
        mt_failed_enter("library", NULL);
    int e = libcall_submit(stream, c);
    if (watched) /* failures are the library's to tell */
        mt_failed_leave(0, NULL);
    return e;
}

/* Written by libmemtrace-attach.so. */
EXPORT char __mt_attach_curand[MT_ATTACH_PATH];

EXPORT const char *__mt_library_curand(void)
{
    return __mt_attach_curand;
}

EXPORT const char *__mt_library_network(uint64_t *timeout)
{
    *timeout = mt_options()->nccl_timeout;
    return mt_options()->network;
}

EXPORT int __mt_library_on_gpu(void)
{
    return mt_device_is_gpu();
}

EXPORT void *__mt_library_toolkit(const char *file)
{
    return mt_device_toolkit(file, RTLD_NOW | RTLD_LOCAL);
}

EXPORT void __mt_library_say(const char *text)
{
    mt_report("%s", text);
}
