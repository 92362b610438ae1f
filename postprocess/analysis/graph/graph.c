/* The memory (stride) graph of accesses. */
#define _GNU_SOURCE
#include "graph.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

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
    mt_stride_graph_runs_launch(g);
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

size_t mt_stride_graph_node(struct mt_stride_graph *g, const struct mt_stride_graph_access *a, int64_t stride)
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

/* First the places of the index, and when they are near, the nodes that they name. */
void mt_stride_graph_soon(const struct mt_stride_graph *g, const struct mt_stride_graph_access *a,
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

int mt_stride_graph_seen(struct mt_stride_graph *g, size_t n, const struct mt_stride_graph_access *a,
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

/* The actor's next access, whose stride is known. */
static int graph_step(struct mt_stride_graph *g, const struct mt_stride_graph_access *a, int64_t stride)
{
    size_t n = mt_stride_graph_node(g, a, stride);
    uint64_t *current = n == SIZE_MAX ? NULL : mt_pairmap_get(&g->current, a->actor, 0, 0);
    if (!current)
        return -1;
    if (n == (size_t)MT_GRAPH_NO_NODE) {
        g->left_out++;
        *current = 0; /* what comes next follows nothing that is shown */
        return 0;
    }
    if (mt_stride_graph_seen(g, n, a, 1) != 0 ||
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
        return 0; /* the first access of this actor in this buffer */
    int64_t stride = (int64_t)(a->address - *previous);
    *previous = a->address;
    return graph_step(g, a, stride);
}

/* ---- order ---- */

static int node_order(const void *a, const void *b)
{
    const struct mt_node *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    if (x->stride != y->stride)
        return x->stride < y->stride ? -1 : 1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->site == y->site ? 0 : strcmp(x->site, y->site);
}

MT_ORDER_2(edge_order, struct mt_edge, from, to)

/* place: new index + 1 of each node, 0: dropped. */
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

static int by_count(const void *a, const void *b, void *arg)
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
    qsort_r(order, g->nnodes, sizeof *order, by_count, g->nodes);
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
