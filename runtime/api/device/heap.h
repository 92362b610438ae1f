/* Memory of the CPU device: what kernels may touch and what cudaMemcpy may name. All of it lies in the
 * process's own address space, so device pointers are host pointers. Thread-safe. */
#ifndef MT_API_HEAP_H
#define MT_API_HEAP_H
#include <stddef.h>
#include <stdint.h>
#include "base/fd.h"
#include "trace/site.h"

/* Under MEMTRACE_CHECK: bytes that belong to nobody after a block; more after a large one. */
#define MT_HEAP_GAP (16u << 10)
enum mt_heap_kind {
    MT_HEAP_DEVICE, /* cudaMalloc and its kind */
    MT_HEAP_MANAGED,
    MT_HEAP_HOST,       /* cudaMallocHost, cudaHostAlloc */
    MT_HEAP_REGISTERED, /* the program's own, cudaHostRegister */
    MT_HEAP_SYMBOL,     /* device variables; flags: enum mt_var_kind */
    MT_HEAP_IPC,        /* another process's, cudaIpcOpenMemHandle */
};

struct mt_block {
    uint64_t base, bytes;
    enum mt_heap_kind kind;
    int device;           /* whose memory it is; of the host's: that was current */
    uint64_t readers;     /* bit: that device may touch it; 0: the device and those whose peer it is */
    unsigned flags;       /* as given to the API; device memory: its pool, 0 for none */
    uint64_t mapped_base; /* mapping after it, 0: small or not ours */
    uint64_t mapped_bytes;
    struct mt_segment *segment;              /* of a small block (arena.h), or NULL */
    struct mt_fd shared;                     /* the file that a large one lies on; ino 0: none */
    uint32_t serial;                         /* among those that were shared; 0: it was not */
    int64_t id;                              /* of its `alloc` line, + 1; 0: it has none, or is not known */
    int condemned;                           /* to be freed when a stream is so far */
    const struct mt_host_site *site, *freed; /* of the calls that made and freed it, or NULL */
    struct mt_block *next;                   /* heap.c's own */
};

/* `bytes` > 0 of fresh memory, aligned to 512. NULL: the device's memory is used up. */
void *mt_heap_alloc(int device, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Puts memory that is not ours into the table. 0, EEXIST when part of it is there, ENOMEM. */
int mt_heap_adopt(int device, void *base, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Frees the block that begins at `base` when its kind is in `kinds` (bits 1 << kind). 1, or 0:
 * no such block. */
int mt_heap_free(void *base, unsigned kinds);
/* The same in two steps: from the first one on nobody else can free it,
 * kernels may use it until the second. */
int mt_heap_condemn(void *base, unsigned kinds);
int mt_heap_free_condemned(void *base);
/* Puts the block that begins at `base` on a shared file: its descriptor, which stays ours, where in it, and a
 * number that no other block had. 0; EINVAL: no device memory begins there; ENOTSUP: the program has closed
 * it; another errno. */
struct mt_heap_file {
    uint64_t offset, bytes;
    int fd;
    uint32_t serial;
};
int mt_heap_share(void *base, struct mt_heap_file *f);
/* The block that holds `p`. 1 and *out, or 0. */
int mt_heap_find(const void *p, struct mt_block *out);
/* The block that begins at `p` has this `alloc` line; id -1: none. */
void mt_heap_identify(const void *p, int64_t id);
/* Bytes from `p` to the end of its block, and *out; 0: nothing holds `p`. Memory of cuMemMap goes on in what
 * is mapped right behind it, as accesses across such borders are allowed; with a device of 0 or more only in
 * what that may touch. */
uint64_t mt_heap_reach(const void *p, int device, struct mt_block *out);
/* The last block that begins at or below `address` and the first one above; bytes 0: there is none. */
void mt_heap_around(uint64_t address, struct mt_block *below, struct mt_block *above);
/* Under MEMTRACE_CHECK=1: the block, freed some time ago, that held `address`. 1 and *out, or 0. */
int mt_heap_find_freed(uint64_t address, struct mt_block *out);
/* Counts changes of the table, from 1. */
extern _Atomic uint64_t mt_heap_generation;
uint64_t mt_heap_used(int device);
/* The device whose own memory is at `p`; -1: it is everybody's, or nobody's. */
int mt_heap_owner(const void *p);
/* May kernels of the device touch the block? */
int mt_heap_reaches(int device, const struct mt_block *b);
/* These may, and no others: the block that begins at `base`; all of this pool. */
void mt_heap_open(const void *base, uint64_t readers);
void mt_heap_open_pool(unsigned pool, uint64_t readers);
/* Frees all blocks of the device but symbols and registered memory. */
void mt_heap_reset(int device);
#endif
