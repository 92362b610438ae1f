/* Events between processes on the CPU device, and the shared files after all handles. */
#define _GNU_SOURCE
#include "ipc.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "event.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
    if (!fstat(fd, &st) && st.st_dev == h->device && st.st_ino == h->inode &&
        (uint64_t)st.st_size >= h->bytes)
        p = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- the shared state ---- */

struct mt_shared_event *mt_shared_event_new(struct mt_fd *file)
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

uint64_t mt_shared_event_record(struct mt_shared_event *e)
{
    e->pid = getpid();
    return atomic_fetch_add(&e->issued, 1) + 1;
}

void mt_shared_event_reach(struct mt_shared_event *e, uint64_t record)
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

int mt_shared_event_done(struct mt_shared_event *e, uint64_t record)
{
    if (e->done >= record)
        return 1;
    int32_t pid = e->pid;
    return pid != getpid() && has_ended(pid);
}

void mt_shared_event_wait(struct mt_shared_event *e, uint64_t record)
{
    while (!mt_shared_event_done(e, record))
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
