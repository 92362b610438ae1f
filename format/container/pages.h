/* Memory in pages, without malloc: the traced program may be inside its malloc, or have replaced mmap. */
#ifndef MT_CONTAINER_PAGES_H
#define MT_CONTAINER_PAGES_H
#include "syscall.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifdef __SANITIZE_THREAD__ /* ThreadSanitizer must see pages change owners */
static inline long mt_pages_call(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == __NR_munmap)
        return munmap((void *)a, (size_t)b);
    void *p = mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
    return p == MAP_FAILED ? -1 : (long)p;
}
#else
#define mt_pages_call mt_base_syscall
#endif

/* Returns zeroed memory, or NULL. Untouched pages cost address space only. */
static inline void *mt_pages(size_t bytes)
{
    long p =
        mt_pages_call(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p < 0 && p > -4096 ? NULL : (void *)p;
}

/* Frees memory; `bytes` as requested, `p` may be NULL. */
static inline void mt_pages_free(void *p, size_t bytes)
{
    if (p)
        mt_pages_call(__NR_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}
#endif
