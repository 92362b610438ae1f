/* Unnamed shared files between processes of one user: how a handle names one. */
#ifndef MT_API_IPC_H
#define MT_API_IPC_H
#include "base/fd.h"
#include <stdatomic.h>
#include <stdint.h>

/* What a cudaIpc handle holds. The file's numbers show a descriptor that was closed and used anew. */
struct mt_ipc_handle {
    char magic[8];
    uint64_t device, inode, offset, bytes;
    int32_t pid, fd;
    uint32_t serial; /* of what it names, in that process */
};
/* Names this process's file, from its beginning. 0, or -1. */
int mt_ipc_name(struct mt_ipc_handle *h, const char *magic, int fd, uint64_t bytes);
/* Maps what a handle names. NULL: it is gone, or another user's. */
void *mt_ipc_map(const struct mt_ipc_handle *h);
void mt_ipc_unmap(const struct mt_ipc_handle *h, void *p);

/* An event between processes: how often it was recorded, how far that is, and by whom last. */
struct mt_shared_event {
    _Atomic uint64_t issued, done;
    _Atomic int32_t pid;
};
#endif
