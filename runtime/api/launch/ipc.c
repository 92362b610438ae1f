/* Memory of one process in another on the CPU device. An exported allocation becomes an unnamed shared file,
 * mapped where it was; a handle says whose file it is and which, and another process of the same user maps
 * it, too. */
#define _GNU_SOURCE
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/device/device.h"
#include "ipc.h"
#include "api/tables/map.h"
#include "api/streams/stream.h"
#include "base/fork.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "MTIPCME1"
_Static_assert(sizeof(struct mt_ipc_handle) <= sizeof(cudaIpcMemHandle_t), "a handle has room");

/* What this process has opened. */
struct opened {
    struct mt_ipc_handle handle;
    void *base;
    unsigned uses;
    struct opened *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
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
    if (rc || mt_ipc_name(&h, MAGIC, f.fd, f.bytes))
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
            mt_ipc_unmap(h, o->base);
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
    if (memcmp(h.magic, MAGIC, sizeof h.magic))
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (h.pid == getpid()) /* a process cannot open what is its own */
        return mt_fail(cudaErrorDeviceUninitialized);
    pthread_mutex_lock(&lock);
    cudaError_t e = open_locked(&h, out);
    pthread_mutex_unlock(&lock);
    return mt_fail(e);
}

cudaError_t impl_cudaIpcCloseMemHandle(void *p)
{
    struct opened *gone = NULL;
    int known = 0;
    MT_RETURN_IF_FAILED();
    mt_stream_wait_all(MT_ALL_DEVICES); /* kernels may use it */
    pthread_mutex_lock(&lock);
    for (struct opened **at = &all; *at && !known; at = &(*at)->next)
        if ((*at)->base == p) {
            known = 1;
            if (!--(*at)->uses) {
                gone = *at;
                *at = gone->next;
            }
            break;
        }
    pthread_mutex_unlock(&lock);
    if (gone && mt_heap_free(gone->base, 1u << MT_HEAP_IPC))
        mt_ipc_unmap(&gone->handle, gone->base);
    free(gone);
    return known ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}
