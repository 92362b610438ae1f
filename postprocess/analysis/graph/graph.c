/* The memory (stride) graph of accesses, from runs, records and host accesses. */
#define _GNU_SOURCE

#include "graph.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- runs: a graph by thread where threads are known, and a graph of the lanes of a warp ----
 * A warp's lanes advance in one step while they do the same. */

enum {
    LANES = MT_GRAPH_LANES,
    LISTED = 8,        /* maximum number of a warp's tracks in its list */
    ACTORS = LANES + 1 /* actors of a warp: its lanes, and the CTA for accesses without lanes */
};

/* Begins a launch. */
static void stride_graph_runs_launch(struct mt_stride_graph *g)
{
    mt_pairmap_clear(&g->actors);
    mt_pairmap_clear(&g->tracks_of);
    g->nwarps = g->ntracks = g->nplaces = g->nlane_nodes = 0;
    memset(g->memo, 0, sizeof g->memo);
    memset(g->met, 0, sizeof g->met);
}

/* ---- warps and their tracks ---- */

/* Sets *warp to the warp's number in its launch; MT_RUN_NO_WARP is the whole CTA. Returns 1, 0 at the limit,
 * or -1 without memory. */
static int warp_number(struct mt_stride_graph *g, const struct mt_access_run *r, uint64_t *warp)
{
    const size_t m = *warp % MT_GRAPH_MEMOS;
    if (!g->met[m].number || g->met[m].cta != r->cta || g->met[m].warp != *warp) {
        const uint64_t *number = mt_pairmap_get(&g->actors, r->cta, *warp, g->actors.count);
        if (!number)
            return -1;
        if (*number >= g->nwarps && (!g->most_warps || *number < g->most_warps)) {
            if (mt_grow(&g->warps, &g->warp_room, g->nwarps + 1, sizeof *g->warps) != 0)
                return -1;
            g->warps[g->nwarps++] = (struct mt_graph_warp){0};
        }
        g->met[m].cta = r->cta;
        g->met[m].warp = *warp;
        g->met[m].number = *number + 1;
    }
    *warp = g->met[m].number - 1;
    if (!g->most_warps || *warp < g->most_warps)
        return 1;
    g->left_out += r->count;
    return 0;
}

static struct mt_graph_track *track_new(struct mt_stride_graph *g, uint64_t buffer)
{
    if (g->ntracks == UINT32_MAX ||
        mt_grow(&g->tracks, &g->track_room, g->ntracks + 1, sizeof *g->tracks) != 0)
        return NULL;
    g->tracks[g->ntracks] = (struct mt_graph_track){.buffer = buffer};
    return &g->tracks[g->ntracks++];
}

/* Returns the warp's track in a buffer. The first tracks are a list: usually few, close in memory. */
static struct mt_graph_track *track_of(struct mt_stride_graph *g, uint64_t warp, uint64_t buffer)
{
    uint32_t last = 0;
    int n = 0;
    for (uint32_t at = g->warps[warp].track; at; at = g->tracks[at - 1].next, n++) {
        if (g->tracks[at - 1].buffer == buffer)
            return &g->tracks[at - 1];
        last = at;
    }
    if (n < LISTED) {
        struct mt_graph_track *t = track_new(g, buffer);
        if (t)
            *(last ? &g->tracks[last - 1].next : &g->warps[warp].track) = (uint32_t)g->ntracks;
        return t;
    }
    const uint64_t *i = mt_pairmap_get(&g->tracks_of, warp, buffer, g->ntracks);
    return !i ? NULL : *i < g->ntracks ? &g->tracks[*i] : track_new(g, buffer);
}

/* Gives each lane its own address, initially the track's. Returns NULL without memory. */
static uint64_t *track_parted(struct mt_stride_graph *g, struct mt_graph_track *t)
{
    if (!t->block) {
        if (mt_grow(&g->lane_places, &g->place_room, g->nplaces + 1, sizeof *g->lane_places) != 0)
            return NULL;
        t->block = (uint32_t)++g->nplaces;
    }
    uint64_t *at = g->lane_places[t->block - 1], address = t->base;
    for (uint32_t left = t->parted ? 0 : t->lanes; left; left &= left - 1, address += (uint64_t)t->stride)
        at[__builtin_ctz(left)] = address;
    t->parted = 1;
    return at;
}

/* Gives each lane its own node, initially the warp's. Returns NULL without memory. */
static uint32_t *warp_parted(struct mt_stride_graph *g, struct mt_graph_warp *w)
{
    if (!w->block) {
        if (mt_grow(&g->lane_nodes, &g->lane_node_room, g->nlane_nodes + 1, sizeof *g->lane_nodes) != 0)
            return NULL;
        w->block = (uint32_t)++g->nlane_nodes;
    }
    uint32_t *node = g->lane_nodes[w->block - 1];
    for (uint32_t left = w->parted ? 0 : w->lanes; left; left &= left - 1)
        node[__builtin_ctz(left)] = w->node;
    w->parted = 1;
    return node;
}

/* ---- steps ---- */

/* Consecutive accesses of a run in one buffer, with their actors. */
struct step {
    const struct mt_access_run *r;
    uint32_t first, count; /* range of the run's accesses in the step */
    uint32_t lanes;        /* one lane for each access; for a CTA without lanes its only one */
    uint64_t actor;        /* actor of the step's lane 0 */
    struct mt_stride_graph_access a;
};

/* Sets the step that begins with access `first` of the run. */
static void step_cut(struct mt_stride_graph *g, struct step *s, uint32_t first)
{
    const struct mt_access_run *r = s->r;
    const uint64_t address = mt_run_address(r, first);
    s->first = first;
    s->count = r->count - first;
    s->a.address = address;
    s->a.buffer = s->a.bytes = 0;
    if (!g->buffers)
        return;
    const struct mt_buffer_stretch *in = mt_buffers_stretch(g->buffers, address);
    const struct mt_alloc_event *of = in->in && in->in->first ? &g->buffers->allocs[in->in->first - 1]
                                                              : in->in; /* host: buffer of that call */
    s->a.buffer = of ? of->id : MT_BUFFER_NONE;
    s->a.bytes = !of ? 0 : of->like > 1 ? of->total : of->bytes;
    if (r->addresses) {
        uint32_t n = 1;
        while (n < s->count && r->addresses[first + n] >= in->first && r->addresses[first + n] <= in->last)
            n++;
        s->count = n;
    } else if (r->stride && s->count > 1) {
        uint64_t more = r->stride > 0 ? (in->last - address) / (uint64_t)r->stride
                                      : (address - in->first) / (0 - (uint64_t)r->stride);
        s->count = more < s->count - 1 ? (uint32_t)more + 1 : s->count;
    }
}

static size_t stride_graph_node(struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
                                int64_t stride);
static int stride_graph_seen(struct mt_stride_graph *g, size_t n, const struct mt_stride_graph_access *a,
                             uint64_t times);

/* Returns the node of an access of the step, usually from the cache. */
static size_t step_node(struct mt_stride_graph *g, const struct step *s, int64_t stride, uint64_t times)
{
    const uint64_t h = (s->a.buffer * 5 ^ (uint64_t)stride ^ (uint64_t)stride >> 6) + s->a.type * 2;
    const size_t m = h % MT_GRAPH_MEMOS;
    size_t n = g->memo[m].node - (size_t)1;
    if (!g->memo[m].node || g->memo[m].stride != stride || g->memo[m].buffer != s->a.buffer ||
        g->memo[m].type != s->a.type) {
        n = stride_graph_node(g, &s->a, stride);
        if (n == SIZE_MAX || n == (size_t)MT_GRAPH_NO_NODE) {
            g->left_out += n == SIZE_MAX ? 0 : times;
            return n;
        }
        g->memo[m].buffer = s->a.buffer;
        g->memo[m].stride = stride;
        g->memo[m].type = s->a.type;
        g->memo[m].node = (uint32_t)n + 1;
        return stride_graph_seen(g, n, &s->a, times) == 0 ? n : SIZE_MAX;
    }
    g->nodes[n].count += times;
    return n;
}

static int graph_link(struct mt_stride_graph *g, uint32_t from, uint32_t to, uint64_t times)
{
    if (!from || !to || !times)
        return 0;
    return mt_hash_add(&g->links, (uint64_t)(from - 1) << 32 | (to - 1), times);
}

/* Moves lanes of the warp to node `to` - 1, or (0) to a node that is not shown. */
static int warp_visit(struct mt_stride_graph *g, struct mt_graph_warp *w, uint32_t lanes, uint32_t to)
{
    if (!w->parted && (!(w->lanes & ~lanes) || w->node == to)) {
        uint64_t come = (uint64_t)__builtin_popcount(w->lanes & lanes);
        int rc = graph_link(g, w->node, to, come);
        w->lanes = to ? w->lanes | lanes : 0;
        w->node = to;
        return rc;
    }
    uint32_t *node = warp_parted(g, w);
    if (!node)
        return -1;
    for (uint32_t left = w->lanes & lanes; left;) {
        const uint32_t from = node[__builtin_ctz(left)];
        uint64_t times = 0;
        for (; left && node[__builtin_ctz(left)] == from; left &= left - 1)
            times++;
        if (graph_link(g, from, to, times) != 0)
            return -1;
    }
    if (!(w->lanes & ~lanes)) { /* all lanes are together again */
        w->parted = 0;
        w->node = to;
        w->lanes = to ? lanes : 0;
        return 0;
    }
    for (uint32_t left = lanes; left; left &= left - 1)
        node[__builtin_ctz(left)] = to;
    w->lanes = to ? w->lanes | lanes : w->lanes & ~lanes;
    return 0;
}

/* Calls `watch` for accesses of the step by these lanes. */
static int step_watch(struct mt_stride_graph *g, const struct step *s, uint32_t lanes, int64_t stride,
                      size_t node)
{
    uint32_t i = s->first;
    if (!g->watch || node == (size_t)MT_GRAPH_NO_NODE)
        return 0;
    for (uint32_t left = s->lanes; left; left &= left - 1, i++) {
        struct mt_stride_graph_access a = s->a;
        if (!(lanes & left & (0 - left)))
            continue;
        a.actor = s->actor + (uint64_t)__builtin_ctz(left);
        a.address = mt_run_address(s->r, i);
        if (g->watch(g->watch_arg, &a, stride, node) != 0)
            return -1;
    }
    return 0;
}

/* Advances lanes of the step that all have the same stride. */
static int step_alike(struct mt_stride_graph *g, struct mt_graph_warp *w, const struct step *s,
                      uint32_t lanes, int64_t stride)
{
    size_t n = step_node(g, s, stride, (uint64_t)__builtin_popcount(lanes));
    if (n == SIZE_MAX)
        return -1;
    if (warp_visit(g, w, lanes, n == (size_t)MT_GRAPH_NO_NODE ? 0 : (uint32_t)n + 1) != 0)
        return -1;
    return step_watch(g, s, lanes, stride, n);
}

static void stride_graph_soon(const struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
                              const int64_t *stride, size_t n);

/* Advances lanes with individual strides; `with` are the lanes that have one. */
static int step_apart(struct mt_stride_graph *g, struct mt_graph_warp *w, const struct step *s, uint32_t with,
                      const int64_t *stride /* by index among `with` */)
{
    uint32_t n = 0, all = (uint32_t)__builtin_popcount(with), same = 0;
    while (same < all && stride[same] == stride[0])
        same++;
    if (same < all)
        stride_graph_soon(g, &s->a, stride, all);
    for (uint32_t left = with; left;) {
        const int64_t of = stride[n];
        uint32_t lanes = 0;
        for (; left && stride[n] == of; left &= left - 1, n++)
            lanes |= left & (0 - left);
        if (step_alike(g, w, s, lanes, of) != 0)
            return -1;
    }
    return 0;
}

/* ---- by thread ---- */

/* Advances each lane from its last address in this buffer. */
static int threads_step(struct mt_stride_graph *g, uint64_t warp, const struct step *s)
{
    struct mt_graph_track *t = track_of(g, warp, s->a.buffer);
    const int even = !s->r->addresses || s->count == 1;
    int64_t stride[LANES];
    uint32_t n = 0, with;
    if (!t)
        return -1;
    if (even && !t->parted && t->lanes == s->lanes && (t->stride == s->r->stride || s->count == 1)) {
        stride[0] = (int64_t)(s->a.address - t->base);
        t->base = s->a.address;
        return step_alike(g, &g->warps[warp], s, s->lanes, stride[0]);
    }
    with = t->lanes & s->lanes;
    if (with || !even || t->lanes) {
        uint64_t *at = track_parted(g, t);
        uint32_t i = s->first;
        if (!at)
            return -1;
        for (uint32_t left = s->lanes; left; left &= left - 1, i++) {
            const uint32_t lane = (uint32_t)__builtin_ctz(left);
            const uint64_t address = mt_run_address(s->r, i);
            if (with >> lane & 1)
                stride[n++] = (int64_t)(address - at[lane]);
            at[lane] = address;
        }
        t->lanes |= s->lanes;
    }
    if (even && !(t->lanes & ~s->lanes)) { /* the lanes are evenly spaced again */
        t->parted = 0;
        t->lanes = s->lanes;
        t->base = s->a.address;
        t->stride = s->r->stride;
    }
    return with ? step_apart(g, &g->warps[warp], s, with, stride) : 0;
}

/* Advances a CTA with unknown lanes: a single actor with consecutive accesses. */
static int cta_step(struct mt_stride_graph *g, uint64_t warp, const struct step *s)
{
    struct mt_graph_track *t = track_of(g, warp, s->a.buffer);
    struct mt_graph_warp *w = &g->warps[warp];
    struct step one = *s;
    if (!t)
        return -1;
    const int known = t->lanes != 0;
    uint64_t before = t->base;
    t->lanes = 1;
    t->base = mt_run_address(s->r, s->first + s->count - 1);
    one.count = 1;
    for (uint32_t i = 0; i < s->count; i++, one.first++) {
        const uint64_t address = mt_run_address(s->r, one.first);
        const int64_t stride = (int64_t)(address - before);
        before = address;
        if (i == 0 && !known)
            continue;
        if (i > 0 && !s->r->addresses && !g->watch) { /* all other accesses go from a node to itself */
            const uint64_t rest = s->count - i;
            size_t n = step_node(g, s, stride, rest);
            if (n == SIZE_MAX)
                return -1;
            const uint32_t to = n == (size_t)MT_GRAPH_NO_NODE ? 0 : (uint32_t)n + 1;
            return warp_visit(g, w, 1, to) != 0 ? -1 : graph_link(g, to, to, rest - 1);
        }
        if (step_alike(g, w, &one, 1, stride) != 0)
            return -1;
    }
    return 0;
}

/* Returns those of `lanes` with index `first` and the `count` - 1 after it, from the lowest. */
static uint32_t lanes_among(uint32_t lanes, uint32_t first, uint32_t count)
{
    uint32_t some = 0;
    while (first--)
        lanes &= lanes - 1;
    for (; count--; lanes &= lanes - 1)
        some |= lanes & (0 - lanes);
    return some;
}

static int graph_runs_strides(void *self, const struct mt_access_run *runs, size_t count)
{
    struct mt_stride_graph *g = self;
    for (size_t k = 0; k < count; k++) {
        const struct mt_access_run *r = &runs[k];
        const int threads = r->mask != MT_RUN_NO_MASK && r->warp != MT_RUN_NO_WARP;
        uint64_t warp = threads ? r->warp : MT_RUN_NO_WARP;
        int shown = warp_number(g, r, &warp);
        if (shown < 0)
            return -1;
        g->threads += threads ? r->count : 0;
        g->records += r->count;
        struct step s = {.r = r, .actor = warp * ACTORS, .a = {.type = mt_run_type(r), .site = g->kernel}};
        s.actor += threads ? 0 : LANES;
        for (uint32_t i = 0; shown && i < r->count; i += s.count) {
            step_cut(g, &s, i);
            s.lanes = !threads ? 1 : s.count == r->count ? r->mask : lanes_among(r->mask, i, s.count);
            if ((threads ? threads_step : cta_step)(g, warp, &s) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- by lane ---- */

/* Advances a warp through a stretch of its access, from lane to lane. */
static int lanes_step(struct mt_stride_graph *g, struct mt_graph_warp *w, struct step *s)
{
    int64_t stride[LANES];
    uint32_t node[LANES + 1], times[LANES], n = 0; /* strides, and how often each follows itself */
    if (!s->r->addresses && !g->watch) {
        size_t at = step_node(g, s, s->r->stride, s->count);
        if (at == SIZE_MAX)
            return -1;
        const uint32_t to = at == (size_t)MT_GRAPH_NO_NODE ? 0 : (uint32_t)at + 1;
        return warp_visit(g, w, 1, to) != 0 ? -1 : graph_link(g, to, to, s->count - 1);
    }
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const int64_t of = (int64_t)(mt_run_address(s->r, i) - mt_run_address(s->r, i - 1));
        const int again = n && stride[n - 1] == of && !g->watch;
        n += !again;
        stride[n - 1] = of;
        times[n - 1] = again ? times[n - 1] + 1 : 1;
    }
    if (n > 2)
        stride_graph_soon(g, &s->a, stride, n);
    node[0] = w->lanes ? w->node : 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = step_node(g, s, stride[i], times[i]);
        if (at == SIZE_MAX)
            return -1;
        node[i + 1] = at == (size_t)MT_GRAPH_NO_NODE ? 0 : (uint32_t)at + 1;
        if (node[i] && node[i + 1])
            mt_hash_soon(&g->links, (uint64_t)(node[i] - 1) << 32 | (node[i + 1] - 1));
    }
    for (uint32_t i = 0; i < n; i++) {
        struct step one = {
            .r = s->r, .first = s->first + i, .count = 1, .lanes = 1, .actor = s->actor, .a = s->a};
        if (graph_link(g, node[i], node[i + 1], 1) != 0 ||
            graph_link(g, node[i + 1], node[i + 1], times[i] - 1) != 0 ||
            step_watch(g, &one, 1, stride[i], node[i + 1] ? node[i + 1] - 1 : (size_t)MT_GRAPH_NO_NODE) != 0)
            return -1;
    }
    w->node = node[n];
    w->lanes = node[n] != 0;
    return 0;
}

static int graph_runs_lanes(void *self, const struct mt_access_run *runs, size_t count)
{
    struct mt_stride_graph *g = self;
    for (size_t k = 0; k < count; k++) {
        const struct mt_access_run *r = &runs[k];
        g->records += r->count;
        if (r->mask == MT_RUN_NO_MASK || g->ungrouped)
            continue;
        uint64_t warp = r->warp;
        int shown = warp_number(g, r, &warp);
        if (shown < 0)
            return -1;
        g->threads += r->count;
        struct step s = {.r = r, .lanes = 1, .actor = warp, .a = {.type = mt_run_type(r), .site = g->kernel}};
        for (uint32_t i = 1; shown && i < r->count; i += s.count) {
            step_cut(g, &s, i);
            if (lanes_step(g, &g->warps[warp], &s) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- analyses ---- */

static int graph_runs_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_stride_graph *g = self;
    mt_stride_graph_launch(g, l->kernel, l->seq);
    g->ungrouped = l->single;
    return 0;
}

static void graph_runs_moves(void *self, const struct mt_run_launch *l)
{
    struct mt_stride_graph *g = self;
    if (g->buffers)
        mt_buffers_move(g->buffers, l->seq);
}

const struct mt_analysis mt_stride_graph_analysis = {
    .launch = graph_runs_launch, .moves = graph_runs_moves, .runs = graph_runs_strides};
const struct mt_analysis mt_stride_lanes_analysis = {
    .launch = graph_runs_launch, .moves = graph_runs_moves, .runs = graph_runs_lanes};

void mt_stride_graph_init(struct mt_stride_graph *g, unsigned key, struct mt_buffers *buffers)
{
    memset(g, 0, sizeof *g);
    g->key = key;
    g->buffers = buffers;
}

void mt_stride_graph_free(struct mt_stride_graph *g)
{
    free(g->nodes);
    free(g->edges);
    mt_hash_free(&g->index);
    mt_pairmap_free(&g->previous);
    mt_pairmap_free(&g->current);
    mt_hash_free(&g->links);
    mt_pairmap_free(&g->seen);
    mt_pairmap_free(&g->actors);
    mt_pairmap_free(&g->tracks_of);
    free(g->warps);
    free(g->tracks);
    free(g->lane_places);
    free(g->lane_nodes);
    memset(g, 0, sizeof *g);
}

void mt_stride_graph_launch(struct mt_stride_graph *g, const char *kernel, uint64_t seq)
{
    g->kernel = kernel;
    g->launches++;
    mt_pairmap_clear(&g->previous);
    mt_pairmap_clear(&g->current);
    stride_graph_runs_launch(g);
    if (g->buffers)
        mt_buffers_launch(g->buffers, seq);
}

/* ---- nodes ---- */

static int same_key(const struct mt_node *a, const struct mt_node *b)
{
    return a->buffer == b->buffer && a->stride == b->stride && a->type == b->type && a->size == b->size &&
           a->site == b->site;
}

static uint64_t key_hash(const struct mt_node *key)
{
    uint64_t h = mt_hash_number(key->buffer);
    h = mt_hash_number(h ^ h >> 31 ^ (uint64_t)key->stride);
    return mt_hash_number(h ^ h >> 31 ^ key->type ^ key->size << 2 ^ (uint64_t)(uintptr_t)key->site);
}

static struct mt_node key_of(const struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
                             int64_t stride)
{
    return (struct mt_node){.buffer = g->key & MT_NODE_BUFFER ? a->buffer : 0,
                            .stride = g->key & MT_NODE_STRIDE ? stride : 0,
                            .type = g->key & MT_NODE_TYPE ? a->type : 0,
                            .size = g->key & MT_NODE_SIZE ? a->bytes : 0,
                            .site = g->key & MT_NODE_SITE ? a->site : NULL};
}

/* Returns the node of this access, created if necessary; (size_t)MT_GRAPH_NO_NODE at the limit; SIZE_MAX
 * without memory. */
static size_t stride_graph_node(struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
                                int64_t stride)
{
    const struct mt_node key = key_of(g, a, stride);
    uint64_t known, hash = key_hash(&key);
    for (; (known = mt_hash_find(&g->index, hash)); hash++)
        if (same_key(&g->nodes[known - 1], &key))
            return known - 1;
    if (g->most_nodes && g->nnodes >= g->most_nodes)
        return (size_t)MT_GRAPH_NO_NODE;
    if (g->nnodes == UINT32_MAX - 1 ||
        mt_grow(&g->nodes, &g->node_room, g->nnodes + 1, sizeof *g->nodes) != 0 ||
        mt_hash_put(&g->index, hash, g->nnodes + 1) != 0)
        return SIZE_MAX;
    g->nodes[g->nnodes] = key;
    return g->nnodes++;
}

/* Prefetches the slots of the index, and then the nodes in them. */
static void stride_graph_soon(const struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
                              const int64_t *stride, size_t n)
{
    const struct mt_hash_slot *slot[MT_GRAPH_LANES];
    if (n > MT_GRAPH_LANES)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct mt_node key = key_of(g, a, stride[i]);
        slot[i] = mt_hash_soon(&g->index, key_hash(&key));
    }
    for (size_t i = 0; i < n; i++)
        if (slot[i] && slot[i]->value)
            __builtin_prefetch(&g->nodes[slot[i]->value - 1], 1);
}

/* Counts `n` more accesses of a node. */
static int stride_graph_seen(struct mt_stride_graph *g, size_t n, const struct mt_stride_graph_access *a,
                             uint64_t times)
{
    struct mt_node *node = &g->nodes[n];
    if (node->count == 0) {
        node->kernel = a->site;
        node->bytes = a->bytes;
    }
    node->count += times;
    if (node->last != a->site) {
        uint64_t *seen = mt_pairmap_get(&g->seen, n, (uint64_t)(uintptr_t)a->site, 0);
        if (!seen)
            return -1;
        node->kernels += *seen == 0;
        *seen = 1;
        node->last = a->site;
    }
    return 0;
}

/* ---- accesses ---- */

/* Adds the actor's next access, whose stride is known. */
static int graph_step(struct mt_stride_graph *g, const struct mt_stride_graph_access *a, int64_t stride)
{
    size_t n = stride_graph_node(g, a, stride);
    uint64_t *current = n == SIZE_MAX ? NULL : mt_pairmap_get(&g->current, a->actor, 0, 0);
    if (!current)
        return -1;
    if (n == (size_t)MT_GRAPH_NO_NODE) {
        g->left_out++;
        *current = 0; /* the next node follows nothing that is shown */
        return 0;
    }
    if (stride_graph_seen(g, n, a, 1) != 0 ||
        (*current && mt_hash_add(&g->links, (*current - 1) << 32 | n, 1) != 0))
        return -1;
    *current = n + 1;
    return g->watch ? g->watch(g->watch_arg, a, stride, n) : 0;
}

int mt_stride_graph_access(struct mt_stride_graph *g, const struct mt_stride_graph_access *a)
{
    size_t before = g->previous.count;
    uint64_t *previous = mt_pairmap_get(&g->previous, a->actor, a->buffer, a->address);
    g->records++;
    if (!previous)
        return -1;
    if (g->previous.count != before)
        return 0; /* first access of this actor in this buffer */
    int64_t stride = (int64_t)(a->address - *previous);
    *previous = a->address;
    return graph_step(g, a, stride);
}

/* ---- sorting ---- */

MT_ORDER_FUNCTION(node_order, struct mt_node,
                  MT_ORDER_DIFFER(x, y, buffer) MT_ORDER_DIFFER(x, y, stride) MT_ORDER_DIFFER(x, y, type)
                      MT_ORDER_DIFFER(x, y, size) MT_ORDER_TEXT(x->site, y->site))

MT_ORDER_2(edge_order, struct mt_edge, from, to)

/* Collects the edges. place: new index + 1 of each node, 0: dropped. */
static void graph_collect_edges(struct mt_stride_graph *g, const uint32_t *place, uint64_t min_count)
{
    const struct mt_hash_slot *link;
    for (size_t i = 0; (link = mt_hash_next(&g->links, &i));) {
        uint32_t from = place[link->key >> 32], to = place[(uint32_t)link->key];
        if (link->value >= min_count && from && to)
            g->edges[g->nedges++] = (struct mt_edge){from - 1, to - 1, link->value};
    }
}

int mt_stride_graph_finish(struct mt_stride_graph *g, uint64_t min_count)
{
    uint32_t *place = calloc(g->nnodes + 1, sizeof *place);
    g->edges = malloc((g->links.count + 1) * sizeof *g->edges);
    if (!place || !g->edges) {
        free(place);
        return -1;
    }
    for (size_t i = 0; i < g->nnodes; i++)
        g->nodes[i].rank = (uint32_t)i;
    if (g->nnodes)
        qsort(g->nodes, g->nnodes, sizeof *g->nodes, node_order);
    size_t kept = 0;
    for (size_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i].count >= min_count) {
            place[g->nodes[i].rank] = (uint32_t)kept + 1;
            g->nodes[kept++] = g->nodes[i];
        }
    g->dropped = g->nnodes - kept;
    g->nnodes = kept;
    graph_collect_edges(g, place, min_count);
    qsort(g->edges, g->nedges, sizeof *g->edges, edge_order);
    free(place);
    return 0;
}

static int graph_by_count(const void *a, const void *b, void *arg)
{
    const struct mt_node *nodes = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (nodes[x].count != nodes[y].count)
        return nodes[x].count > nodes[y].count ? -1 : 1;
    return x < y ? -1 : x > y;
}

int mt_stride_graph_top(struct mt_stride_graph *g, size_t most)
{
    if (g->nnodes <= most)
        return 0;
    uint32_t *order = malloc(g->nnodes * sizeof *order), *place = calloc(g->nnodes, sizeof *place);
    size_t kept = 0, edges = 0;
    if (!order || !place) {
        free(order);
        free(place);
        return -1;
    }
    for (size_t i = 0; i < g->nnodes; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, g->nnodes, sizeof *order, graph_by_count, g->nodes);
    for (size_t i = 0; i < most; i++)
        place[order[i]] = 1;
    for (size_t i = 0; i < g->nnodes; i++)
        if (place[i]) {
            g->nodes[kept] = g->nodes[i];
            place[i] = (uint32_t)++kept;
        }
    for (size_t i = 0; i < g->nedges; i++)
        if (place[g->edges[i].from] && place[g->edges[i].to])
            g->edges[edges++] =
                (struct mt_edge){place[g->edges[i].from] - 1, place[g->edges[i].to] - 1, g->edges[i].count};
    g->dropped += g->nnodes - kept;
    g->nnodes = kept;
    g->nedges = edges;
    free(order);
    free(place);
    return 0;
}
