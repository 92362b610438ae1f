/* Small blocks of the device's memory, apart from the program's own heap: a kernel that writes past its block
 * hits other device memory, as on a GPU, and not what malloc keeps between blocks. Thread-safe. */
#ifndef MT_API_ARENA_H
#define MT_API_ARENA_H
#include <stddef.h>
#include <stdint.h>
#include "base/fd.h"

#define MT_ARENA_UNIT 512u                       /* bytes; blocks are whole units */
#define MT_ARENA_SEGMENT (2u << 20)              /* bytes of address space taken at a time */
#define MT_ARENA_MOST (MT_ARENA_SEGMENT * 3 / 4) /* larger blocks do not come from here */

struct mt_segment;
/* `bytes` from 1 to MT_ARENA_MOST, aligned to `align` (a power of two, MT_ARENA_UNIT to 64 KiB). *from is
 * what mt_arena_put wants back. NULL: no memory. */
void *mt_arena_get(size_t bytes, size_t align, struct mt_segment **from);
/* Takes back what mt_arena_get gave; `bytes` as then. */
void mt_arena_put(struct mt_segment *from, void *p, size_t bytes);
/* Puts the segment that holds `p` on a shared file, which stays its own, and says where in it p is. 0, or an
 * errno value. Nobody may write to its blocks meanwhile. */
int mt_arena_share(struct mt_segment *s, const void *p, const struct mt_fd **file, uint64_t *offset);
/* Memory, whole pages, as it is but on an unnamed shared file. 0, or an errno value. */
int mt_memory_share(void *base, size_t bytes, struct mt_fd *file);
#endif
