/* Allocation of an address, launch by launch; a reused address belongs to another buffer. */
#include "buffers.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

MT_ORDER_POINTED_2(by_base, struct mt_alloc_event, base, id)

static void buffers_forget(struct mt_buffers *b)
{
    for (int i = 0; i < MT_BUFFERS_RECENT; i++)
        b->recent[i] = (struct mt_buffer_stretch){1, 0, NULL};
}

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
    buffers_forget(b);
    return 0;
}

void mt_buffers_free(struct mt_buffers *b)
{
    free(b->live);
    free(b->changes);
    mt_live_allocs_free(b->program);
    memset(b, 0, sizeof *b);
}

void mt_buffers_launch(struct mt_buffers *b, uint64_t seq)
{
    size_t generation = seq == MT_SEQ_NONE      ? SIZE_MAX
                        : seq >= MT_SEQ_PROGRAM ? SIZE_MAX - 1
                                                : MT_FIRST(i, b->nchanges, b->changes[i] >= seq);
    if (b->built && generation == b->generation && !b->within)
        return;
    b->built = 1;
    b->within = 0;
    b->ever = seq != MT_SEQ_NONE && seq >= MT_SEQ_PROGRAM;
    b->generation = generation;
    b->nlive = 0;
    buffers_forget(b);
    for (size_t i = 0; seq != MT_SEQ_NONE && i < b->nallocs; i++) {
        const struct mt_alloc_event *a = &b->allocs[i];
        /* Memory allocated by a kernel has a later number than its launch. */
        int begun = a->seq < seq || strcmp(a->kind, "device") == 0;
        if (begun && (a->free_seq > seq || b->ever) && a->bytes > 0)
            b->live[b->nlive++] = a;
    }
    qsort(b->live, b->nlive, sizeof *b->live, by_base);
}

void mt_buffers_move(struct mt_buffers *b, uint64_t seq)
{
    if (!b->program && !(b->program = mt_live_allocs_new(b->allocs, b->nallocs)))
        return;
    b->within = 1;
    buffers_forget(b);
    (void)mt_live_allocs_advance(b->program, seq);
}

enum { LOOK_BACK = 64 };
/* Returns the last one of overlapping allocations that contain the address and begin shortly before it. */
static const struct mt_alloc_event *buffers_last(const struct mt_buffers *b, size_t before, uint64_t address)
{
    const struct mt_alloc_event *best = NULL;
    for (size_t i = 0; i < LOOK_BACK && i < before; i++) {
        const struct mt_alloc_event *a = b->live[before - 1 - i];
        if (address - a->base < a->bytes && (!best || a->id > best->id))
            best = a;
    }
    return best;
}

const struct mt_buffer_stretch *mt_buffers_stretch_slow(struct mt_buffers *b, uint64_t address)
{
    struct mt_buffer_stretch *s = &b->recent[b->next++ % MT_BUFFERS_RECENT];
    if (b->within) {
        s->in = mt_live_allocs_stretch(b->program, address, &s->first, &s->last);
        return s;
    }
    /* Number of allocations that begin at or before the address. */
    const size_t n = MT_FIRST(i, b->nlive, b->live[i]->base > address);
    if (b->ever) {
        *s = (struct mt_buffer_stretch){address, address, buffers_last(b, n, address)};
        return s;
    }
    *s = (struct mt_buffer_stretch){0, n < b->nlive ? b->live[n]->base - 1 : UINT64_MAX, NULL};
    if (n == 0)
        return s;
    const struct mt_alloc_event *a = b->live[n - 1];
    uint64_t end = a->base + (a->bytes - 1); /* last byte; live allocations are not empty */
    if (end < a->base)
        end = UINT64_MAX;
    if (address > end) {
        s->first = end + 1;
    } else {
        s->first = a->base;
        s->last = end < s->last ? end : s->last;
        s->in = a;
    }
    return s;
}
