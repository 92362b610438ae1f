/* The local range: one reserved stretch of address space for everything that device code can address
 * outside of global memory: stacks of device threads, shared memory, kernel arguments. */
#define _GNU_SOURCE
#include "local.h"
#include "scheduler.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOCAL_MAX ((size_t)1 << 38) /* 256 GiB of address space; halved until the kernel grants it */
#define LOCAL_MIN ((size_t)1 << 28)
/* Reserved at both ends and unused: device memory may lie next to the range, and an access just outside of
 * it must not pass for one to a stack. */
#define LOCAL_EDGE ((size_t)1 << 20)
#define GUARD_MAX 12288 /* each guard page costs two of the process's 65,530 mappings */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *base;
static size_t bytes_reserved, used, page;
static unsigned guards;

int mt_local_init(void)
{
    pthread_mutex_lock(&lock);
    int rc = base ? 0 : ENOMEM;
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t want = LOCAL_MAX; !base && want >= LOCAL_MIN; want /= 2) {
        void *p = mmap(NULL, want, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            madvise(p, want, MADV_DONTDUMP);
            base = (char *)p + LOCAL_EDGE;
            bytes_reserved = want - 2 * LOCAL_EDGE;
            rc = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

uint64_t mt_local_base(void)
{
    return (uint64_t)(uintptr_t)base;
}

uint64_t mt_local_bytes(void)
{
    return bytes_reserved;
}

void *mt_local_alloc(size_t bytes, unsigned count, size_t *stride, int *guarded)
{
    char *first = NULL;
    size_t step;
    int whole = 0;
    if (!base || bytes == 0 || bytes > bytes_reserved || count == 0)
        return NULL;
    bytes = (bytes + page - 1) & ~(page - 1);
    step = bytes + page;
    pthread_mutex_lock(&lock);
    if (step > (bytes_reserved - used) / count)
        goto out;
    char *p = base + used;
    whole = guards + count > GUARD_MAX; /* too many mappings: no guards in between */
    if (whole) {
        if (mprotect(p + page, count * step - page, PROT_READ | PROT_WRITE))
            goto out;
    } else {
        for (unsigned i = 0; i < count; i++)
            if (mprotect(p + i * step + page, bytes, PROT_READ | PROT_WRITE))
                goto out;
        guards += count;
    }
    used += count * step;
    first = p + page;
out:
    pthread_mutex_unlock(&lock);
    if (stride)
        *stride = step;
    if (guarded)
        *guarded = !whole;
    return first;
}

int mt_local_skip(size_t bytes)
{
    pthread_mutex_lock(&lock);
    int fits = base && bytes <= bytes_reserved - used;
    used += fits ? bytes : 0;
    pthread_mutex_unlock(&lock);
    return fits ? 0 : -1;
}

void mt_local_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    if (base)
        mprotect(base, used, PROT_NONE);
    used = 0;
    guards = 0;
}

/* Stacks of device threads, in the local range. A worker takes them in slabs and keeps them. A stack
 * without a guard page has a word at its low end that shows an overflow when the thread ends. */

#define SLAB 32

static size_t stack_bytes = (size_t)64 << 10;

void mt_cpu_set_stack(size_t bytes)
{
    if (bytes)
        stack_bytes = bytes < 16384 ? 16384 : (bytes + 4095) & ~(size_t)4095;
}

size_t mt_stack_bytes(void)
{
    return stack_bytes;
}

/* Returns the stack size of a warp that runs as vectors, with its lanes' variables in one frame. Untouched
 * address space takes no memory. */
static size_t stack_of_warp(void)
{
    return stack_bytes * MT_WARP;
}

_Atomic int mt_stack_unguarded;

static struct mt_stack *stack_make(char *low, size_t bytes, unsigned colour, int guarded)
{
    /* Stacks are a multiple of the page size apart; without an offset their tops would share a few cache
     * sets. */
    struct mt_stack *s = (struct mt_stack *)(low + bytes - 64 - colour % 61 * 64);
    s->low = low;
    s->canary = NULL;
    s->warp = 0;
    if (!guarded) {
        s->canary = (uint64_t *)low;
        *s->canary = MT_CANARY;
        atomic_store_explicit(&mt_stack_unguarded, 1, memory_order_relaxed);
    }
    return s;
}

static int stack_add_slab(struct mt_worker *w, int warp)
{
    size_t stride, bytes = warp ? stack_of_warp() : stack_bytes;
    int guarded;
    struct mt_stacks *of = &w->stacks[warp];
    struct mt_stack **list = realloc(of->free, (of->made + SLAB) * sizeof *list);
    if (!list)
        return -1;
    of->free = list; /* room for all */
    char *p = mt_local_alloc(bytes, SLAB, &stride, &guarded);
    if (!p)
        return -1;
    for (unsigned i = SLAB; i-- > 0;) {
        struct mt_stack *s = stack_make(p + i * stride, bytes, of->made++ * 7, guarded);
        s->warp = warp;
        mt_stack_give(w, s);
    }
    return 0;
}

struct mt_stack *mt_stack_take(struct mt_worker *w, int warp)
{
    struct mt_stacks *of = &w->stacks[warp];
    if (MT_UNLIKELY(!of->nfree) && stack_add_slab(w, warp))
        return NULL;
    return of->free[--of->nfree];
}

struct mt_stack *mt_stack_for_loops(void)
{
    size_t bytes = stack_of_warp();
    int guarded;
    char *p = mt_local_alloc(bytes, 1, NULL, &guarded);
    return p ? stack_make(p, bytes, 0, guarded) : NULL;
}
