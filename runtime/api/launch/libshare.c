/* What calls of a library need between processes: memory that several of them map (library.h). */
#define _GNU_SOURCE
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/fd.h"
#include "base/fork.h"
#include "ipc.h"
#include "library.h"
#include "trace/events.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    pthread_mutex_lock(&lock); /* a second call must not close what has the number by then */
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
