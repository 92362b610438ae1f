/* The memory graph of runs: by thread where the trace knows threads, or of the lanes of a warp. */
#include "graph.h"
#include "analysis/base/runs.h"

/* *warp becomes the number in its launch of that warp, MT_RUN_NO_WARP being the whole CTA. 1; 0 when there
 * are enough others; -1 without memory. */
static int warp_number(struct mt_stride_graph *g, const struct mt_access_run *r, uint64_t *warp)
{
    const uint64_t *number = mt_pairmap_get(&g->actors, r->cta, *warp, g->actors.count);
    if (!number)
        return -1;
    *warp = *number;
    if (!g->most_warps || *warp < g->most_warps)
        return 1;
    g->left_out += r->count;
    return 0;
}

static struct mt_stride_graph_access access_of(struct mt_stride_graph *g, const struct mt_access_run *r,
                                               uint32_t i)
{
    uint64_t address = mt_run_address(r, i);
    const struct mt_alloc_event *in = g->buffers ? mt_buffers_find(g->buffers, address) : NULL;
    return (struct mt_stride_graph_access){.buffer = in           ? in->id
                                                     : g->buffers ? MT_BUFFER_NONE
                                                                  : 0,
                                           .bytes = in ? in->bytes : 0,
                                           .address = address,
                                           .type = mt_run_type(r),
                                           .site = g->kernel};
}

static int knows_threads(const struct mt_access_run *r)
{
    return r->mask != MT_RUN_NO_MASK && r->warp != MT_RUN_NO_WARP;
}

int mt_stride_graph_runs(struct mt_stride_graph *g, const struct mt_access_run *runs, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct mt_access_run *r = &runs[k];
        uint32_t lanes = knows_threads(r) ? r->mask : 0;
        uint64_t warp = lanes ? r->warp : MT_RUN_NO_WARP;
        int shown = warp_number(g, r, &warp);
        if (shown < 0)
            return -1;
        g->threads += lanes ? r->count : 0;
        g->records += shown ? 0 : r->count; /* else counted one by one */
        if (!shown)
            continue;
        for (uint32_t i = 0, left = lanes; i < r->count; i++, left &= left - 1) {
            struct mt_stride_graph_access a = access_of(g, r, i);
            /* 33 numbers a warp: its lanes, and the CTA for accesses without. */
            a.actor = warp * 33 + (lanes ? (uint64_t)__builtin_ctz(left) : 32);
            if (mt_stride_graph_access(g, &a) != 0)
                return -1;
        }
    }
    return 0;
}

int mt_stride_graph_lanes(struct mt_stride_graph *g, const struct mt_access_run *runs, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct mt_access_run *r = &runs[k];
        g->records += r->count;
        if (r->mask == MT_RUN_NO_MASK)
            continue;
        uint64_t warp = r->warp;
        int shown = warp_number(g, r, &warp);
        if (shown < 0)
            return -1;
        g->threads += r->count;
        if (!shown)
            continue;
        for (uint32_t i = 1; i < r->count; i++) {
            struct mt_stride_graph_access a = access_of(g, r, i);
            a.actor = warp;
            if (mt_stride_graph_node(g, &a, (int64_t)(a.address - mt_run_address(r, i - 1))) != 0)
                return -1;
        }
    }
    return 0;
}
