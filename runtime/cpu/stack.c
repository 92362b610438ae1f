/* Stacks of device threads, in the local range. A worker takes them in slabs and keeps them; a stack whose
 * guard page could not be made has a word at its low end that shows an overflow when the thread ends. */
#include <stdlib.h>
#include "local.h"
#include "scheduler.h"

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

/* Of a warp that runs as vectors, whose lanes' variables lie in one frame. It is address space: what is not
 * touched has no memory. */
static size_t stack_of_warp(void)
{
    return stack_bytes * MT_WARP;
}

_Atomic int mt_stack_unguarded;

static struct mt_stack *stack_make(char *low, size_t bytes, unsigned colour, int guarded)
{
    /* Stacks lie a multiple of the page size apart; without an offset their tops would
     * share a few cache sets. */
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
    of->free = list; /* room for all there are */
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
