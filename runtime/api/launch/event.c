/* Events, on both devices. */
#define _GNU_SOURCE
#include "event.h"
#include "api/streams/capture.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "ipc.h"
#include "api/tables/map.h"
#include "api/streams/queue.h"
#include "api/memory/sync.h"
#include "trace/events.h"
#include "trace/devices.h"
#include "base/fork.h"
#include "base/fd.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Events between processes on the CPU device, and the shared files after all handles ---- */

#define MAGIC "MTIPCEV1"
#define PAGE 4096u
#define PAUSE_NS 200000 /* between two looks at an event of another process */

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
    uint64_t in = h->offset % PAGE; /* its first page */
    if (!fstat(fd, &st) && st.st_dev == h->device && st.st_ino == h->inode &&
        (uint64_t)st.st_size >= h->offset && (uint64_t)st.st_size - h->offset >= h->bytes)
        p = mmap(NULL, in + h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(h->offset - in));
    close(fd);
    return !p || p == MAP_FAILED ? NULL : (char *)p + in;
}

void mt_ipc_unmap(const struct mt_ipc_handle *h, void *p)
{
    munmap((char *)p - h->offset % PAGE, h->offset % PAGE + h->bytes);
}

/* ---- the shared state ---- */

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

/* which record it is */
static uint64_t shared_event_record(struct mt_shared_event *e)
{
    e->pid = getpid();
    return atomic_fetch_add(&e->issued, 1) + 1;
}

/* NULL: no memory. Never unmapped, as operations that were queued may look at it; *file is the caller's. */
static void shared_event_reach(struct mt_shared_event *e, uint64_t record)
{
    uint64_t now = e->done;
    while (now < record && !atomic_compare_exchange_weak(&e->done, &now, record))
        ;
}

/* A process that has ended: gone, or not yet waited for by its parent. */
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

static int shared_event_done(struct mt_shared_event *e, uint64_t record)
{
    if (e->done >= record)
        return 1;
    int32_t pid = e->pid;
    return pid != getpid() && has_ended(pid);
}

/* 1 when `record` is reached, or never will be because its process is gone. */
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
    if (!e ||
        !mt_fd_is(&e->shared_file)) /* none, not made for it, another process's, or closed by the program */
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (mt_ipc_name(&h, MAGIC, e->shared_file.fd, PAGE))
        return mt_fail(cudaErrorMapBufferObjectFailed);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return cudaSuccess;
}

cudaError_t impl_cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t handle)
{
    struct mt_ipc_handle h;
    MT_RETURN_IF_FAILED();
    memcpy(&h, &handle, sizeof h);
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    void *p = memcmp(h.magic, MAGIC, sizeof h.magic) || h.bytes != PAGE ? NULL : mt_ipc_map(&h);
    if (!p)
        return mt_fail(cudaErrorInvalidResourceHandle);
    struct mt_event *e = mt_event_add(NULL, cudaEventDisableTiming | cudaEventInterprocess);
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
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the marks of events */
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

struct mt_event *mt_event_add(cudaEvent_t handle, unsigned flags)
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

void mt_event_remove(struct mt_event *e)
{
    if (!e || !mt_map_take(&events, e->handle))
        return;
    mt_mark_release(e->mark);
    if (e->shared_file.ino)
        mt_fd_close(&e->shared_file);
    free(e->nodes);
    free(e);
}

struct event_search {
    int device;
    struct mt_event *found;
};

static void event_look(void *event, void *ctx)
{
    struct event_search *l = ctx;
    if (((struct mt_event *)event)->device == l->device)
        l->found = event;
}

void mt_events_reset(int device)
{
    struct event_search l;
    do {
        l = (struct event_search){device, NULL};
        mt_map_each(&events, event_look, &l);
        mt_event_remove(l.found);
    } while (l.found);
}

/* ---- the CPU device ---- */

cudaError_t impl_cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags & ~(unsigned)FLAGS ||
        (flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming)))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_event *e = mt_event_add(NULL, flags);
    if (!e)
        return mt_fail(cudaErrorMemoryAllocation);
    if (flags & cudaEventInterprocess && !(e->shared = shared_event_new(&e->shared_file))) {
        mt_event_remove(e);
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
    mt_event_remove(e);
    return cudaSuccess;
}

/* ---- recording and waiting, as operations ---- */

struct event_op {
    struct mt_op op;
    cudaEvent_t handle;
    uint64_t id;
    int64_t stream;
    struct mt_shared_event *shared; /* and which record of it this is */
    uint64_t record;
};

static int event_reach(struct mt_op *op)
{
    struct event_op *o = (struct event_op *)op;
    mt_event_event("record", o->id, o->stream);
    op->reaches->time_ns = mt_now_ns();
    if (o->shared)
        shared_event_reach(o->shared, o->record);
    return MT_OP_DONE;
}

static int event_reached(struct mt_op *op)
{
    struct event_op *o = (struct event_op *)op;
    mt_event_event("wait", o->id, o->stream);
    return MT_OP_DONE;
}

/* The event's mark now, as a reference; NULL: none yet. */
static struct mt_mark *mark_of(struct mt_event *e)
{
    pthread_mutex_lock(&lock);
    struct mt_mark *m = e->mark ? mt_mark_hold(e->mark) : NULL;
    pthread_mutex_unlock(&lock);
    return m;
}

static int renew_record(struct mt_op *op)
{
    struct event_op *o = (struct event_op *)op;
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
    struct event_op *o = (struct event_op *)op;
    struct mt_event *e = mt_event_get(o->handle);
    if (!e)
        return cudaErrorInvalidResourceHandle;
    o->id = e->id;
    op->after = mark_of(e);
    return cudaSuccess;
}

static struct mt_op *event_make(cudaEvent_t handle, enum mt_op_kind kind)
{
    struct event_op *o = mt_op_new(sizeof *o, kind, kind == MT_OP_RECORD ? event_reach : event_reached);
    if (!o)
        return NULL;
    o->op.always = 1; /* others wait for it */
    o->op.renew = kind == MT_OP_RECORD ? renew_record : renew_wait;
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

cudaEvent_t mt_event_of(const struct mt_op *op)
{
    return ((const struct event_op *)op)->handle;
}

void mt_event_bind(struct mt_op *op, const struct mt_stream *s)
{
    ((struct event_op *)op)->stream = mt_stream_number_of(s);
}

static cudaError_t event_put(struct mt_stream *s, struct mt_op *op)
{
    cudaError_t e = op ? (cudaError_t)op->renew(op) : cudaErrorMemoryAllocation;
    if (e) {
        mt_op_free(op);
        return mt_fail(e);
    }
    mt_event_bind(op, s);
    mt_op_enqueue(s, op);
    return cudaSuccess;
}

/* Recorded last in a stream that was captured. */
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

cudaError_t impl_cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned flags)
{
    struct mt_event *e;
    struct mt_stream *s;
    cudaError_t rc = event_find(handle, stream, &e, &s);
    if (rc)
        return rc;
    if (e->device != s->device)
        return mt_fail(cudaErrorInvalidResourceHandle);
    /* An external node is one of a graph. */
    if (flags & ~(unsigned)cudaEventRecordExternal || (flags && !mt_capturing(s)))
        return mt_fail(cudaErrorInvalidValue);
    if (mt_capturing(s))
        return flags ? mt_op_submit(s, mt_event_record_op(handle)) : mt_capture_record(s, e);
    return event_put(s, mt_event_record_op(handle));
}

cudaError_t impl_cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    return impl_cudaEventRecordWithFlags(handle, stream, 0);
}

/* Another process's record is waited for by a thread that looks at it now and then. */
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

/* The mark of an event that may be asked about, as a reference in *m. */
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

/* The time of a mark: 0 and *ns, or why there is none. */
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
    /* What will never do says more than what is not there yet. */
    e = first && first != cudaErrorNotReady ? first : second ? second : first;
    if (!e)
        *ms = (float)((double)((int64_t)(finish - begin)) * 1e-6);
    mt_mark_release(from);
    mt_mark_release(to);
    return e;
}
