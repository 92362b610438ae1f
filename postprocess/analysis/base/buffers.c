/* Which allocation an address lies in, launch by launch: an address that is used again is another buffer. */
#include "buffers.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

MT_ORDER_POINTED_2(by_base, struct mt_alloc_event, base, id)

int mt_buffers_init(struct mt_buffers *b, const struct mt_alloc_event *allocs, size_t n)
{
    memset(b, 0, sizeof *b);
    b->allocs = allocs;
    b->nallocs = n;
    b->live = malloc((n + 1) * sizeof *b->live);
    b->changes = malloc((2 * n + 1) * sizeof *b->changes);
    if (!b->live || !b->changes)
        return -1;
    for (size_t i = 0; i < n; i++) {
        b->changes[b->nchanges++] = allocs[i].seq;
        if (allocs[i].free_seq != MT_SEQ_NONE)
            b->changes[b->nchanges++] = allocs[i].free_seq;
    }
    qsort(b->changes, b->nchanges, sizeof *b->changes, mt_order_u64);
    return 0;
}

void mt_buffers_free(struct mt_buffers *b)
{
    free(b->live);
    free(b->changes);
    memset(b, 0, sizeof *b);
}

void mt_buffers_launch(struct mt_buffers *b, uint64_t seq)
{
    size_t lo = 0, hi = b->nchanges;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->changes[mid] < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    size_t generation = seq == MT_SEQ_NONE ? SIZE_MAX : lo;
    if (b->built && generation == b->generation)
        return;
    b->built = 1;
    b->generation = generation;
    b->nlive = b->last = 0;
    for (size_t i = 0; seq != MT_SEQ_NONE && i < b->nallocs; i++) {
        const struct mt_alloc_event *a = &b->allocs[i];
        /* What a kernel allocates itself has a later number than its launch. */
        int begun = a->seq < seq || strcmp(a->kind, "device") == 0;
        if (begun && a->free_seq > seq && a->bytes > 0)
            b->live[b->nlive++] = a;
    }
    qsort(b->live, b->nlive, sizeof *b->live, by_base);
}

const struct mt_alloc_event *mt_buffers_find(struct mt_buffers *b, uint64_t address)
{
    if (b->last < b->nlive && address - b->live[b->last]->base < b->live[b->last]->bytes &&
        (b->last + 1 == b->nlive || address < b->live[b->last + 1]->base))
        return b->live[b->last];
    size_t lo = 0, hi = b->nlive; /* the number of allocations that begin at or before the address */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->live[mid]->base <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || address - b->live[lo - 1]->base >= b->live[lo - 1]->bytes)
        return NULL;
    b->last = lo - 1;
    return b->live[lo - 1];
}
