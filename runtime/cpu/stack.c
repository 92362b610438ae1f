/* Stacks of device threads, in the local range. A worker takes them in slabs and keeps them; a stack whose
 * guard page could not be had carries a word at its low end that tells an overflow when the thread ends. */
#include "local.h"
#include "scheduler.h"

#define SLAB 32
#define LOOP_MIN ((size_t)1 << 20) /* kernels without waits: one stack per worker, so it can be large */

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

static struct mt_stack *make(char *low, size_t bytes, unsigned colour, int guarded)
{
    /* Stacks lie a multiple of the page size apart; without an offset their tops would share a few cache
     * sets. */
    struct mt_stack *s = (struct mt_stack *)(low + bytes - 64 - colour % 61 * 64);
    s->top = s;
    s->low = low;
    s->canary = NULL;
    s->next = NULL;
    if (!guarded) {
        s->canary = (uint64_t *)low;
        *s->canary = MT_CANARY;
    }
    return s;
}

struct mt_stack *mt_stack_take(struct mt_worker *w)
{
    struct mt_stack *s = w->free_stacks;
    if (!s) {
        size_t stride;
        int guarded;
        char *p = mt_local_alloc(stack_bytes, SLAB, &stride, &guarded);
        if (!p)
            return NULL;
        for (unsigned i = SLAB; i-- > 0;) {
            struct mt_stack *n = make(p + i * stride, stack_bytes, w->colours++ * 7, guarded);
            n->next = w->free_stacks;
            w->free_stacks = n;
        }
        s = w->free_stacks;
    }
    w->free_stacks = s->next;
    return s;
}

struct mt_stack *mt_stack_for_loops(void)
{
    size_t bytes = stack_bytes > LOOP_MIN ? stack_bytes : LOOP_MIN;
    int guarded;
    char *p = mt_local_alloc(bytes, 1, NULL, &guarded);
    return p ? make(p, bytes, 0, guarded) : NULL;
}
