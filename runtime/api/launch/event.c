/* Events, on both devices. */
#define _GNU_SOURCE
#include "launch.h"
#include "api/streams/stream.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/memory/memory.h"
#include "trace/events.h"
#include "trace/devices.h"
#include "base/fork.h"
#include "base/file.h"
#include "api/device/device.h"
#include "device/gpu.h"
#include "trace/selection.h"
#include "trace/site.h"
#include "trace/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Events between processes on the CPU device, and the shared files that handles name ---- */

#define EVENT_MAGIC "MTIPCEV1"
#define PAGE 4096u
#define PAUSE_NS 200000 /* between two looks at another process's event */

int mt_ipc_name(struct mt_ipc_handle *h, const char *magic, int fd, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, sizeof h->magic);
    h->device = st.st_dev;
    h->inode = st.st_ino;
    h->bytes = bytes;
    h->pid = getpid();
    h->fd = fd;
    return 0;
}

void *mt_ipc_map(const struct mt_ipc_handle *h)
{
    char path[64];
    struct stat st;
    void *p = NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    uint64_t in = h->offset % PAGE; /* offset in its first page */
    if (!fstat(fd, &st) && st.st_dev == h->device && st.st_ino == h->inode &&
        (uint64_t)st.st_size >= h->offset && (uint64_t)st.st_size - h->offset >= h->bytes)
        p = mmap(NULL, in + h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(h->offset - in));
    close(fd);
    return !p || p == MAP_FAILED ? NULL : (char *)p + in;
}

static void ipc_unmap(const struct mt_ipc_handle *h, void *p)
{
    munmap((char *)p - h->offset % PAGE, h->offset % PAGE + h->bytes);
}

/* ---- the shared state ---- */

/* Makes the shared state. Returns NULL if out of memory. Never unmapped, as queued operations may read it;
 * the caller owns *file. */
static struct mt_shared_event *shared_event_new(struct mt_fd *file)
{
    int made = memfd_create("memtrace-event", MFD_CLOEXEC);
    void *p = made < 0 || ftruncate(made, PAGE)
                  ? MAP_FAILED
                  : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (p != MAP_FAILED && !mt_fd_take(file, made))
        return p;
    if (p != MAP_FAILED)
        munmap(p, PAGE);
    else if (made >= 0)
        close(made);
    return NULL;
}

/* Returns the number of the record. */
static uint64_t shared_event_record(struct mt_shared_event *e)
{
    e->pid = getpid();
    return atomic_fetch_add(&e->issued, 1) + 1;
}

static void shared_event_reach(struct mt_shared_event *e, uint64_t record)
{
    uint64_t now = e->done;
    while (now < record && !atomic_compare_exchange_weak(&e->done, &now, record))
        ;
}

/* Returns whether a process has ended: gone, or a zombie. */
static int has_ended(int32_t pid)
{
    char path[48], text[512] = "";
    if (kill(pid, 0) && errno == ESRCH)
        return 1;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const char *name_end = n > 0 ? strrchr(text, ')') : NULL;
    return name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}

/* Returns 1 if `record` is reached, or will never be because its process has ended. */
static int shared_event_done(struct mt_shared_event *e, uint64_t record)
{
    if (e->done >= record)
        return 1;
    int32_t pid = e->pid;
    return pid != getpid() && has_ended(pid);
}

static void shared_event_wait(struct mt_shared_event *e, uint64_t record)
{
    while (!shared_event_done(e, record))
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

/* ---- handles ---- */

cudaError_t impl_cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t event)
{
    struct mt_ipc_handle h;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    struct mt_event *e = mt_event_get(event);
    if (!e || !mt_fd_is(&e->shared_file)) /* no file, not an interprocess event, another process's, or closed
                                             by the program */
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (mt_ipc_name(&h, EVENT_MAGIC, e->shared_file.fd, PAGE))
        return mt_fail(cudaErrorMapBufferObjectFailed);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return cudaSuccess;
}

static struct mt_event *event_add(cudaEvent_t handle, unsigned flags);

cudaError_t impl_cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t handle)
{
    struct mt_ipc_handle h;
    MT_RETURN_IF_FAILED();
    memcpy(&h, &handle, sizeof h);
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    void *p = memcmp(h.magic, EVENT_MAGIC, sizeof h.magic) || h.bytes != PAGE ? NULL : mt_ipc_map(&h);
    if (!p)
        return mt_fail(cudaErrorInvalidResourceHandle);
    struct mt_event *e = event_add(NULL, cudaEventDisableTiming | cudaEventInterprocess);
    if (!e) {
        munmap(p, PAGE);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    e->shared = p;
    *out = e->handle;
    return cudaSuccess;
}

#define FLAGS (cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess)

static struct mt_map events = MT_MAP_INIT;
MT_FORK_TABLE(events);
static _Atomic uint64_t next_id;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the marks of events */
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

/* Adds an event of the current device. handle NULL: an event of the CPU device, which is its own handle.
 * Returns NULL if out of memory. */
static struct mt_event *event_add(cudaEvent_t handle, unsigned flags)
{
    struct mt_event *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->handle = handle ? handle : (cudaEvent_t)e;
    e->flags = flags;
    e->device = mt_device_current();
    e->id = atomic_fetch_add(&next_id, 1);
    if (mt_map_set(&events, e->handle, e)) {
        free(e);
        return NULL;
    }
    return e;
}

struct mt_event *mt_event_get(cudaEvent_t handle)
{
    return mt_map_get(&events, handle);
}

static void event_remove(struct mt_event *e)
{
    if (!e || !mt_map_take(&events, e->handle))
        return;
    mt_mark_release(e->mark);
    if (e->shared_file.ino)
        mt_fd_close(&e->shared_file);
    free(e->nodes);
    free(e);
}

static int event_is_of(const void *event, int device)
{
    return ((const struct mt_event *)event)->device == device;
}

void mt_events_reset(int device)
{
    for (struct mt_event *e; (e = mt_map_any(&events, event_is_of, device));)
        event_remove(e);
}

/* ---- the CPU device ---- */

cudaError_t impl_cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags & ~(unsigned)FLAGS ||
        (flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming)))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_event *e = event_add(NULL, flags);
    if (!e)
        return mt_fail(cudaErrorMemoryAllocation);
    if (flags & cudaEventInterprocess && !(e->shared = shared_event_new(&e->shared_file))) {
        event_remove(e);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = e->handle;
    return cudaSuccess;
}

cudaError_t impl_cudaEventCreate(cudaEvent_t *out)
{
    return impl_cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t impl_cudaEventDestroy(cudaEvent_t handle)
{
    struct mt_event *e = mt_event_get(handle);
    if (!e)
        return mt_fail(cudaErrorInvalidResourceHandle);
    event_remove(e);
    return cudaSuccess;
}

/* ---- recording and waiting, as operations ---- */

static int event_reach(struct mt_op *op)
{
    struct mt_event_op *o = (struct mt_event_op *)op;
    mt_event_event("record", o->id, o->stream);
    op->reaches->time_ns = mt_now_ns();
    if (o->shared)
        shared_event_reach(o->shared, o->record);
    return MT_OP_DONE;
}

static int event_reached(struct mt_op *op)
{
    struct mt_event_op *o = (struct mt_event_op *)op;
    mt_event_event("wait", o->id, o->stream);
    return MT_OP_DONE;
}

/* Returns a reference to the event's current mark, or NULL if there is none yet. */
static struct mt_mark *mark_of(struct mt_event *e)
{
    pthread_mutex_lock(&lock);
    struct mt_mark *m = e->mark ? mt_mark_hold(e->mark) : NULL;
    pthread_mutex_unlock(&lock);
    return m;
}

static int renew_record(struct mt_op *op)
{
    struct mt_event_op *o = (struct mt_event_op *)op;
    struct mt_event *e = mt_event_get(o->handle);
    struct mt_mark *m = mt_mark_new();
    op->reaches = m;
    if (!m || !e)
        return cudaErrorMemoryAllocation;
    o->id = e->id;
    o->shared = e->shared;
    o->record = e->shared ? shared_event_record(e->shared) : 0;
    pthread_mutex_lock(&lock);
    struct mt_mark *before = e->mark;
    e->mark = mt_mark_hold(m);
    __atomic_store_n(&e->capture, NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    mt_mark_release(before);
    return cudaSuccess;
}

static int renew_wait(struct mt_op *op)
{
    struct mt_event_op *o = (struct mt_event_op *)op;
    struct mt_event *e = mt_event_get(o->handle);
    if (!e)
        return cudaErrorInvalidResourceHandle;
    o->id = e->id;
    op->after = mark_of(e);
    return cudaSuccess;
}

static void event_bind(struct mt_op *op, struct mt_stream *s)
{
    ((struct mt_event_op *)op)->stream = mt_stream_number_of(s);
}

static struct mt_op *event_make(cudaEvent_t handle, enum mt_op_kind kind)
{
    struct mt_event_op *o = mt_op_new(sizeof *o, kind, kind == MT_OP_RECORD ? event_reach : event_reached);
    if (!o)
        return NULL;
    o->op.always = 1; /* others wait for it */
    o->op.renew = kind == MT_OP_RECORD ? renew_record : renew_wait;
    o->op.bind = event_bind;
    o->handle = handle;
    o->id = 0;
    o->stream = -1;
    o->shared = NULL;
    o->record = 0;
    return &o->op;
}

struct mt_op *mt_event_record_op(cudaEvent_t e)
{
    return event_make(e, MT_OP_RECORD);
}

struct mt_op *mt_event_wait_op(cudaEvent_t e)
{
    return event_make(e, MT_OP_WAIT);
}

static cudaError_t event_put(struct mt_stream *s, struct mt_op *op)
{
    cudaError_t e = op ? (cudaError_t)op->renew(op) : cudaErrorMemoryAllocation;
    if (e) {
        mt_op_free(op);
        return mt_fail(e);
    }
    event_bind(op, s);
    mt_op_enqueue(s, op);
    return cudaSuccess;
}

/* Returns whether its last record was in a captured stream. */
static int is_captured(const struct mt_event *e)
{
    return __atomic_load_n(&e->capture, __ATOMIC_RELAXED) != NULL;
}

/* ---- entry points ---- */

static cudaError_t event_find(cudaEvent_t handle, cudaStream_t stream, struct mt_event **e,
                              struct mt_stream **s)
{
    MT_RETURN_IF_FAILED();
    *e = mt_event_get(handle);
    *s = mt_stream_get(stream);
    if (!*e || !*s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    return mt_capture_check(*s, MT_CALL_ASYNC);
}

/* cudaEventRecord in a captured stream. */
static cudaError_t capture_record(struct mt_stream *s, struct mt_event *e)
{
    cudaError_t rc = cudaSuccess;
    pthread_mutex_lock(&mt_capture_lock);
    e->nnodes = 0;
    if (!s->capture || s->capture->invalid)
        rc = cudaErrorStreamCaptureInvalidated;
    else if (mt_tips_add(&e->nodes, &e->nnodes, s->tips, s->ntips))
        rc = cudaErrorMemoryAllocation;
    if (!rc) {
        __atomic_store_n(&e->capture, s->capture, __ATOMIC_RELAXED);
        e->capture_id = s->capture->id;
    }
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(rc);
}

cudaError_t impl_cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned flags)
{
    struct mt_event *e;
    struct mt_stream *s;
    cudaError_t rc = event_find(handle, stream, &e, &s);
    if (rc)
        return rc;
    if (e->device != s->device)
        return mt_fail(cudaErrorInvalidResourceHandle);
    /* An external node belongs to a graph. */
    if (flags & ~(unsigned)cudaEventRecordExternal || (flags && !mt_capturing(s)))
        return mt_fail(cudaErrorInvalidValue);
    if (mt_capturing(s))
        return flags ? mt_op_submit(s, mt_event_record_op(handle)) : capture_record(s, e);
    return event_put(s, mt_event_record_op(handle));
}

cudaError_t impl_cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    return impl_cudaEventRecordWithFlags(handle, stream, 0);
}

/* A record of another process, polled by a thread. */
struct foreign {
    struct mt_shared_event *shared;
    uint64_t record;
};

static void wait_foreign(void *data)
{
    struct foreign *f = data;
    shared_event_wait(f->shared, f->record);
    free(f);
}

static cudaError_t put_foreign(struct mt_stream *s, struct mt_shared_event *shared)
{
    struct foreign *f = malloc(sizeof *f);
    if (!f)
        return mt_fail(cudaErrorMemoryAllocation);
    *f = (struct foreign){shared, shared->issued};
    int done = shared_event_done(shared, f->record);
    struct mt_op *op = done ? NULL : mt_host_op(wait_foreign, NULL, NULL, f);
    if (op)
        mt_op_enqueue(s, op);
    else
        free(f);
    return op || done ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags)
{
    struct mt_event *e;
    struct mt_stream *s;
    cudaError_t rc = event_find(handle, stream, &e, &s);
    if (rc)
        return rc;
    if (flags & ~(unsigned)cudaEventWaitExternal || (flags && !mt_capturing(s)))
        return mt_fail(cudaErrorInvalidValue);
    if (flags)
        return mt_op_submit(s, mt_event_wait_op(handle));
    if (mt_capturing(s) || is_captured(e))
        return mt_capture_wait(s, e);
    if (e->shared && e->shared->pid != getpid() && (rc = put_foreign(s, e->shared)))
        return rc;
    return event_put(s, mt_event_wait_op(handle));
}

/* Gets a reference to the mark of an event for a query. */
static cudaError_t event_ask(cudaEvent_t handle, struct mt_event **e, struct mt_mark **m)
{
    MT_RETURN_IF_FAILED();
    *e = mt_event_get(handle);
    *m = NULL;
    if (!*e)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (is_captured(*e))
        return mt_capture_asked(*e);
    *m = mark_of(*e);
    return cudaSuccess;
}

cudaError_t impl_cudaEventQuery(cudaEvent_t handle)
{
    struct mt_event *e;
    struct mt_mark *m = NULL;
    cudaError_t rc = event_ask(handle, &e, &m);
    if (!rc && m && !mt_mark_done(m))
        rc = cudaErrorNotReady;
    if (!rc && e->shared && !shared_event_done(e->shared, e->shared->issued))
        rc = cudaErrorNotReady;
    mt_mark_release(m);
    return rc ? rc : mt_failed_sync();
}

cudaError_t impl_cudaEventSynchronize(cudaEvent_t handle)
{
    struct mt_event *e = NULL;
    struct mt_mark *m = NULL;
    cudaError_t rc = mt_in_host_function() ? mt_fail(cudaErrorNotPermitted) : event_ask(handle, &e, &m);
    if (rc)
        return rc;
    if (m)
        mt_mark_wait(m);
    if (e && e->shared)
        shared_event_wait(e->shared, e->shared->issued);
    mt_mark_release(m);
    mt_synced();
    return mt_failed_sync();
}

/* Gets the time of a mark. Returns 0 with *ns set, or CUDA's error. */
static cudaError_t time_of(const struct mt_event *e, struct mt_mark *m, uint64_t *ns)
{
    if (!m || e->flags & cudaEventDisableTiming)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (!mt_mark_done(m))
        return cudaErrorNotReady;
    *ns = m->time_ns;
    return cudaSuccess;
}

cudaError_t impl_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    struct mt_event *a, *b;
    struct mt_mark *from = NULL, *to = NULL;
    uint64_t begin = 0, finish = 0;
    if (!ms)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = event_ask(start, &a, &from);
    if (!e)
        e = event_ask(end, &b, &to);
    if (!e && a->device != b->device)
        e = mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t first = e ? e : time_of(a, from, &begin), second = e ? e : time_of(b, to, &finish);
    /* A permanent error takes precedence over cudaErrorNotReady. */
    e = first && first != cudaErrorNotReady ? first : second ? second : first;
    if (!e)
        *ms = (float)((double)((int64_t)(finish - begin)) * 1e-6);
    mt_mark_release(from);
    mt_mark_release(to);
    return e;
}

/* Memory shared between processes on the CPU device. An exported allocation becomes an unnamed shared file,
 * mapped at the same address; a handle names the process and its file, and another process of the same user
 * maps it. */

#define MEMORY_MAGIC "MTIPCME1"
_Static_assert(sizeof(struct mt_ipc_handle) <= sizeof(cudaIpcMemHandle_t), "a handle has room");

/* Memory opened by this process. */
struct opened {
    struct mt_ipc_handle handle;
    void *base;
    unsigned uses;
    struct opened *next;
};
static pthread_mutex_t ipc_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(ipc_lock, MT_FORK_CAPTURES);
static struct opened *all;

cudaError_t impl_cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
    struct mt_ipc_handle h;
    struct mt_heap_file f;
    MT_RETURN_IF_FAILED();
    if (!out || !p)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait_all(MT_ALL_DEVICES); /* nothing may write while the memory moves */
    int rc = mt_heap_share(p, &f);
    if (rc || mt_ipc_name(&h, MEMORY_MAGIC, f.fd, f.bytes))
        return mt_fail(rc == EINVAL    ? cudaErrorInvalidValue
                       : rc == ENOTSUP ? cudaErrorNotSupported
                                       : cudaErrorMapBufferObjectFailed);
    h.offset = f.offset;
    h.serial = f.serial;
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return cudaSuccess;
}

static cudaError_t open_locked(const struct mt_ipc_handle *h, void **out)
{
    struct opened *o;
    for (o = all; o; o = o->next)
        if (o->handle.inode == h->inode && o->handle.device == h->device && o->handle.serial == h->serial) {
            o->uses++;
            *out = o->base;
            return cudaSuccess;
        }
    if (!(o = calloc(1, sizeof *o)))
        return cudaErrorMemoryAllocation;
    o->handle = *h;
    o->uses = 1;
    o->base = mt_ipc_map(h);
    if (!o->base || mt_heap_adopt(mt_device_current(), o->base, h->bytes, MT_HEAP_IPC, 0)) {
        cudaError_t e = o->base ? cudaErrorMapBufferObjectFailed : cudaErrorInvalidResourceHandle;
        if (o->base)
            ipc_unmap(h, o->base);
        free(o);
        return e;
    }
    o->next = all;
    all = o;
    *out = o->base;
    return cudaSuccess;
}

cudaError_t impl_cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
    struct mt_ipc_handle h;
    MT_RETURN_IF_FAILED();
    memcpy(&h, &handle, sizeof h);
    if (!out || flags != cudaIpcMemLazyEnablePeerAccess)
        return mt_fail(cudaErrorInvalidValue);
    if (memcmp(h.magic, MEMORY_MAGIC, sizeof h.magic))
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (h.pid == getpid()) /* a process cannot open its own memory */
        return mt_fail(cudaErrorDeviceUninitialized);
    pthread_mutex_lock(&ipc_lock);
    cudaError_t e = open_locked(&h, out);
    pthread_mutex_unlock(&ipc_lock);
    return mt_fail(e);
}

cudaError_t impl_cudaIpcCloseMemHandle(void *p)
{
    struct opened *gone = NULL;
    int known = 0;
    MT_RETURN_IF_FAILED();
    mt_stream_wait_all(MT_ALL_DEVICES); /* kernels may use it */
    pthread_mutex_lock(&ipc_lock);
    for (struct opened **at = &all; *at && !known; at = &(*at)->next)
        if ((*at)->base == p) {
            known = 1;
            if (!--(*at)->uses) {
                gone = *at;
                *at = gone->next;
            }
            break;
        }
    pthread_mutex_unlock(&ipc_lock);
    if (gone && mt_heap_free(gone->base, 1u << MT_HEAP_IPC))
        ipc_unmap(&gone->handle, gone->base);
    free(gone);
    return known ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}

/* Recorders of streams, events and synchronisation. On a GPU they also register streams and events. */

/* ---- streams ---- */

static cudaError_t record_sync_created(cudaError_t e, cudaStream_t *out, unsigned flags, int priority)
{
    mt_host_site_take();
    if (!e && !mt_stream_get(*out))
        mt_stream_add(*out, flags, priority);
    return e;
}

cudaError_t rec_cudaStreamCreate(cudaStream_t *out)
{
    return record_sync_created(MT_NEXT(cudaStreamCreate)(out), out, 0, 0);
}

cudaError_t rec_cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return record_sync_created(MT_NEXT(cudaStreamCreateWithFlags)(out, flags), out, flags, 0);
}

cudaError_t rec_cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    return record_sync_created(MT_NEXT(cudaStreamCreateWithPriority)(out, flags, priority), out, flags,
                               priority);
}

cudaError_t rec_cudaStreamDestroy(cudaStream_t stream)
{
    mt_host_site_take();
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaStreamDestroy)(stream);
    struct mt_stream *s = mt_stream_get(stream);
    int own = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    if (own && s && s->trace && mt_gpu())
        mt_gpu()->stream_ends(stream, s->trace);
    cudaError_t e = MT_NEXT(cudaStreamDestroy)(stream);
    if (!e && own && mt_device_is_gpu())
        mt_stream_remove(s);
    return e;
}

/* ---- ranges marked by the program ---- */

cudaError_t rec_cudaProfilerStart(void)
{
    mt_selection_profiler(1);
    return MT_NEXT(cudaProfilerStart)();
}

cudaError_t rec_cudaProfilerStop(void)
{
    mt_selection_profiler(0);
    return MT_NEXT(cudaProfilerStop)();
}

/* ---- synchronisation ---- */

/* Taken before the wait, which does not cover later launches of other threads. */
static struct mt_gpu_point record_sync_point(cudaStream_t stream, int all)
{
    struct mt_stream *s = all || !mt_device_is_gpu() ? NULL : mt_stream_get(stream);
    const struct mt_trace *trace = s ? __atomic_load_n(&s->trace, __ATOMIC_ACQUIRE) : NULL;
    if (!mt_device_is_gpu() || !mt_gpu())
        return (struct mt_gpu_point){0};
    return mt_gpu()->point(mt_stream_named(all ? NULL : stream), trace, all);
}

static cudaError_t record_sync_synced(cudaError_t e, const char *what, int64_t id,
                                      const struct mt_gpu_point *p)
{
    mt_host_site_take();
    if (mt_device_is_gpu() && mt_gpu())
        mt_gpu()->synced(p, e);
    if (e)
        return e;
    mt_event_sync(what, id);
    if (mt_device_is_gpu())
        mt_trace_flush(0);
    return e;
}

cudaError_t rec_cudaDeviceSynchronize(void)
{
    struct mt_gpu_point p = record_sync_point(NULL, 1);
    return record_sync_synced(MT_NEXT(cudaDeviceSynchronize)(), "device", 0, &p);
}

cudaError_t rec_cudaStreamSynchronize(cudaStream_t stream)
{
    struct mt_gpu_point p = record_sync_point(stream, 0);
    return record_sync_synced(MT_NEXT(cudaStreamSynchronize)(stream), "stream", mt_stream_number(stream), &p);
}

cudaError_t rec_cudaEventSynchronize(cudaEvent_t event)
{
    struct mt_event *e = mt_event_get(event);
    struct mt_gpu_point p = e ? e->point : (struct mt_gpu_point){0};
    return record_sync_synced(MT_NEXT(cudaEventSynchronize)(event), "event", e ? (int64_t)e->id : -1, &p);
}

/* ---- events ---- */

static cudaError_t event_created(cudaError_t e, cudaEvent_t *out, unsigned flags)
{
    mt_host_site_take();
    if (!e && !mt_event_get(*out))
        event_add(*out, flags);
    return e;
}

cudaError_t rec_cudaEventCreate(cudaEvent_t *out)
{
    return event_created(MT_NEXT(cudaEventCreate)(out), out, 0);
}

cudaError_t rec_cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    return event_created(MT_NEXT(cudaEventCreateWithFlags)(out, flags), out, flags);
}

cudaError_t rec_cudaEventDestroy(cudaEvent_t event)
{
    struct mt_event *known = mt_device_is_gpu() ? mt_event_get(event) : NULL;
    mt_host_site_take();
    cudaError_t e = MT_NEXT(cudaEventDestroy)(event);
    if (!e)
        event_remove(known);
    return e;
}

static cudaError_t record_sync_note(cudaError_t e, const char *op, cudaEvent_t event, cudaStream_t stream)
{
    struct mt_event *known = mt_device_is_gpu()
                                 ? mt_event_get(event)
                                 : NULL; /* on the CPU device the event's operation does this */
    mt_host_site_take();
    if (!e && known)
        mt_event_event(op, known->id, mt_stream_number(stream));
    return e;
}

static void set_point(cudaEvent_t event, cudaStream_t stream)
{
    struct mt_event *e = mt_device_is_gpu() ? mt_event_get(event) : NULL;
    if (e)
        e->point = record_sync_point(stream, 0);
}

cudaError_t rec_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    set_point(event, stream);
    return record_sync_note(MT_NEXT(cudaEventRecord)(event, stream), "record", event, stream);
}

cudaError_t rec_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    set_point(event, stream);
    return record_sync_note(MT_NEXT(cudaEventRecordWithFlags)(event, stream, flags), "record", event, stream);
}

cudaError_t rec_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return record_sync_note(MT_NEXT(cudaStreamWaitEvent)(stream, event, flags), "wait", event, stream);
}
