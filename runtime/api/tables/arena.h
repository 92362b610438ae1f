/* Small blocks of device memory, apart from the program's own heap: a kernel that writes past its block hits
 * other device memory, as on a GPU, and not malloc's own data. Thread-safe. */
#ifndef MT_API_ARENA_H
#define MT_API_ARENA_H
#include <stddef.h>
#include <stdint.h>
#include "base/file.h"

#define MT_ARENA_UNIT 512u                       /* bytes; block sizes are multiples of it */
#define MT_ARENA_SEGMENT (2u << 20)              /* bytes of address space reserved at a time */
#define MT_ARENA_MOST (MT_ARENA_SEGMENT * 3 / 4) /* largest block of an arena */

struct mt_segment;
/* Allocates `bytes` (1 to MT_ARENA_MOST), aligned to `align` (a power of two, MT_ARENA_UNIT to 64 KiB).
 * Returns NULL if out of memory; *from is for mt_arena_put. */
void *mt_arena_get(size_t bytes, size_t align, struct mt_segment **from);
/* Frees a block of mt_arena_get; `bytes` as there. */
void mt_arena_put(struct mt_segment *from, void *p, size_t bytes);
/* Moves the segment that contains `p` onto a shared file, which it owns, and sets *file and the place of p in
 * it. Returns 0 or an errno value. Nobody may write to its blocks meanwhile. */
int mt_arena_share(struct mt_segment *s, const void *p, const struct mt_fd **file, uint64_t *offset);
/* Moves whole pages with their contents onto an unnamed shared file. Returns 0 or an errno value. */
int mt_memory_share(void *base, size_t bytes, struct mt_fd *file);
#endif
