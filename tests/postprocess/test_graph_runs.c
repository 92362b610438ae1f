/* The memory graph of runs, by hand: threads of warps, lanes of an access, runs without lanes. */
#include "../../postprocess/analysis/graph/graph.h"
#include "memtrace/record.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static const char kernel[] = "k";

static struct mt_access_run warp_run(uint64_t base, int64_t stride, uint32_t mask, uint32_t warp)
{
    return (struct mt_access_run){.base = base,
                                  .stride = stride,
                                  .cta = mt_rec_cta(1, 0, 0),
                                  .meta = MT_LOAD << 28 | 4,
                                  .count = (uint32_t)__builtin_popcount(mask),
                                  .mask = mask,
                                  .warp = warp};
}

static void graph_runs_start(struct mt_stride_graph *g)
{
    mt_stride_graph_init(g, MT_NODE_STRIDE, NULL);
    mt_stride_graph_launch(g, kernel, MT_SEQ_NONE);
}

static void expect_node(const struct mt_stride_graph *g, size_t i, int64_t stride, uint64_t count)
{
    assert_true(i < g->nnodes);
    assert_int_equal(g->nodes[i].stride, stride);
    assert_int_equal(g->nodes[i].count, count);
}

static void expect_edge(const struct mt_stride_graph *g, size_t i, uint32_t from, uint32_t to, uint64_t count)
{
    assert_true(i < g->nedges);
    assert_int_equal(g->edges[i].from, from);
    assert_int_equal(g->edges[i].to, to);
    assert_int_equal(g->edges[i].count, count);
}

/* Lanes 0, 1 and 5 read neighbours 4 bytes apart, then go on by 64: each has one stride, +64. Lane 5 of
 * another warp is another thread, of which this is the first access. */
static void graph_runs_threads(void **state)
{
    (void)state;
    struct mt_stride_graph g;
    struct mt_access_run runs[] = {warp_run(0x100, 4, 0x23, 0), warp_run(0x140, 4, 0x23, 0),
                                   warp_run(0x400, 4, 0x20, 1)};
    graph_runs_start(&g);
    assert_int_equal(mt_stride_graph_analysis.runs(&g, runs, 3), 0);
    assert_int_equal(mt_stride_graph_finish(&g, 0), 0);
    assert_int_equal(g.records, 7);
    assert_int_equal(g.threads, 7);
    assert_int_equal(g.nnodes, 1);
    expect_node(&g, 0, 64, 3);
    assert_int_equal(g.nedges, 0); /* no thread has two strides */
    mt_stride_graph_free(&g);
}

/* A lane that was masked off takes up where it left: 0x104 to 0x200 is 252. */
static void masked_lanes(void **state)
{
    (void)state;
    struct mt_stride_graph g;
    struct mt_access_run runs[] = {warp_run(0x100, 4, 0x3, 0), warp_run(0x110, 0, 0x1, 0),
                                   warp_run(0x1fc, 4, 0x3, 0)};
    graph_runs_start(&g);
    assert_int_equal(mt_stride_graph_analysis.runs(&g, runs, 3), 0);
    assert_int_equal(mt_stride_graph_finish(&g, 0), 0);
    expect_node(&g, 0, 0x10, 1);          /* lane 0: 0x100 0x110 */
    expect_node(&g, 1, 0x1fc - 0x110, 1); /* lane 0: 0x110 0x1fc */
    expect_node(&g, 2, 0x200 - 0x104, 1); /* lane 1 */
    assert_int_equal(g.nnodes, 3);
    assert_int_equal(g.nedges, 1);
    expect_edge(&g, 0, 0, 1, 1);
    mt_stride_graph_free(&g);
}

/* Runs without lanes are of the CTA, as records are. Another CTA is another actor. */
static void without_lanes(void **state)
{
    (void)state;
    struct mt_stride_graph g, by_records;
    struct mt_access_run runs[2] = {warp_run(0x100, 8, 0, MT_RUN_NO_WARP),
                                    warp_run(0x300, 0, 0, MT_RUN_NO_WARP)};
    struct mt_stride_graph_access records[6];
    runs[0].count = 5;
    runs[1].count = 1;
    graph_runs_start(&g);
    graph_runs_start(&by_records);
    for (uint64_t i = 0; i < 6; i++)
        records[i] = (struct mt_stride_graph_access){.actor = mt_rec_cta(1, 0, 0),
                                                     .address = i < 5 ? 0x100 + 8 * i : 0x300,
                                                     .type = MT_LOAD,
                                                     .site = by_records.kernel};
    assert_int_equal(mt_stride_graph_analysis.runs(&g, runs, 2), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(mt_stride_graph_access(&by_records, &records[i]), 0);
    struct mt_stride_graph *both[] = {&g, &by_records};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mt_stride_graph_finish(both[i], 0), 0);
        expect_node(both[i], 0, 8, 4);
        expect_node(both[i], 1, 0x300 - 0x120, 1);
        expect_edge(both[i], 0, 0, 0, 3);
        expect_edge(both[i], 1, 0, 1, 1);
        assert_int_equal(both[i]->threads, 0);
        mt_stride_graph_free(both[i]);
    }
}

/* Between lanes: 4 4 4 of one access, then 8 and 100 of one with given addresses; a lane alone has none. */
static void graph_runs_lanes(void **state)
{
    (void)state;
    struct mt_stride_graph g;
    static const uint64_t addresses[] = {0x500, 0x508, 0x56c};
    struct mt_access_run runs[] = {warp_run(0x100, 4, 0xf, 0), warp_run(0x500, 0, 0x7, 0),
                                   warp_run(0x900, 0, 0x10, 0), warp_run(0x700, 0, 0, MT_RUN_NO_WARP)};
    runs[1].addresses = addresses;
    runs[3].count = 9;
    graph_runs_start(&g);
    assert_int_equal(mt_stride_lanes_analysis.runs(&g, runs, 4), 0);
    assert_int_equal(mt_stride_graph_finish(&g, 0), 0);
    assert_int_equal(g.records, 17);
    assert_int_equal(g.threads, 8);
    assert_int_equal(g.nnodes, 3);
    expect_node(&g, 0, 4, 3);
    expect_node(&g, 1, 8, 1);
    expect_node(&g, 2, 100, 1);
    assert_int_equal(g.nedges, 3);
    expect_edge(&g, 0, 0, 0, 2);
    expect_edge(&g, 1, 0, 1, 1); /* from one access of the warp to its next */
    expect_edge(&g, 2, 1, 2, 1);
    mt_stride_graph_free(&g);
}

/* Beyond the limits accesses are left out and counted; what follows them follows nothing. */
static void graph_runs_limits(void **state)
{
    (void)state;
    struct mt_stride_graph g;
    struct mt_access_run runs[] = {warp_run(0x100, 0, 0x1, 0), warp_run(0x104, 0, 0x1, 0),
                                   warp_run(0x110, 0, 0x1, 0), warp_run(0x114, 0, 0x1, 0),
                                   warp_run(0x118, 0, 0x1, 0), warp_run(0x100, 4, 0x3, 1)};
    graph_runs_start(&g);
    g.most_nodes = 1;
    g.most_warps = 1;
    assert_int_equal(mt_stride_graph_analysis.runs(&g, runs, 6), 0);
    assert_int_equal(mt_stride_graph_finish(&g, 0), 0);
    assert_int_equal(g.nnodes, 1);
    expect_node(&g, 0, 4, 3);
    assert_int_equal(g.nedges, 1);
    expect_edge(&g, 0, 0, 0, 1); /* 4, then 12 that is left out, then 4 4 */
    assert_int_equal(g.left_out, 3);
    assert_int_equal(g.records, 7);
    mt_stride_graph_free(&g);
}

/* 4 occurs 3 times, 8 twice, 16 once. */
static void graph_runs_top(void **state)
{
    (void)state;
    static const uint64_t at[] = {0, 16, 20, 24, 28, 36, 44};
    for (size_t most = 1; most <= 3; most++) {
        struct mt_stride_graph g;
        graph_runs_start(&g);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            struct mt_access_run r = warp_run(0x100 + at[i], 0, 0x1, 0);
            assert_int_equal(mt_stride_graph_analysis.runs(&g, &r, 1), 0);
        }
        assert_int_equal(mt_stride_graph_finish(&g, 0), 0);
        assert_int_equal(mt_stride_graph_top(&g, most), 0);
        assert_int_equal(g.nnodes, most);
        assert_int_equal(g.dropped, 3 - most);
        expect_node(&g, 0, 4, 3);
        expect_edge(&g, 0, 0, 0, 2);
        if (most == 1)
            assert_int_equal(g.nedges, 1);
        if (most >= 2) {
            expect_node(&g, 1, 8, 2);
            expect_edge(&g, 1, 0, 1, 1);
            expect_edge(&g, 2, 1, 1, 1);
        }
        if (most == 3)
            expect_edge(&g, 3, 2, 0, 1); /* 16, then 4 */
        mt_stride_graph_free(&g);
    }
}

/* ---- by chance: a warp at once makes what its threads make one by one ---- */

static uint32_t graph_runs_chance(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*seed >> 4) * below >> 28);
}

/* Few warps, places and strides, so that lanes part and meet; some addresses are beyond the end of a buffer.
 */
static struct mt_access_run some_run(uint32_t *seed, uint64_t *addresses)
{
    static const int64_t strides[] = {4, 4, 4, 0, -8, 64, 1000};
    uint32_t mask = graph_runs_chance(seed, 3) ? 0xffffffffu >> graph_runs_chance(seed, 2) * 16
                                               : graph_runs_chance(seed, 1u << 28) | 1;
    struct mt_access_run r =
        warp_run(0x1000 + 128 * graph_runs_chance(seed, 40), strides[graph_runs_chance(seed, 7)],
                 graph_runs_chance(seed, 8) ? mask : MT_RUN_NO_MASK, graph_runs_chance(seed, 2));
    r.cta = mt_rec_cta(graph_runs_chance(seed, 2), 0, 0);
    r.meta = graph_runs_chance(seed, 3) << 28 | 4;
    if (!r.mask) {
        r.count = 1 + graph_runs_chance(seed, 40);
        r.warp = MT_RUN_NO_WARP;
    }
    if (graph_runs_chance(seed, 4) == 0) {
        for (uint32_t i = 0; i < r.count; i++)
            addresses[i] = 0x1000 + 4 * graph_runs_chance(seed, 1 + graph_runs_chance(seed, 2) * 1200);
        r.base = addresses[0];
        r.addresses = addresses;
    }
    return r;
}

static uint64_t address_of(const struct mt_access_run *r, uint32_t i)
{
    return r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
}

static int one_by_one(struct mt_stride_graph *g, struct mt_buffers *b, const struct mt_access_run *r)
{
    uint32_t left = r->mask;
    for (uint32_t i = 0; i < r->count; i++, left &= left - 1) {
        const struct mt_alloc_event *in = mt_buffers_find(b, address_of(r, i));
        struct mt_stride_graph_access a = {
            .actor = r->cta << 8 | (r->mask ? r->warp * 33 + (unsigned)__builtin_ctz(left) : 200),
            .buffer = in ? in->id : MT_BUFFER_NONE,
            .bytes = in ? in->bytes : 0,
            .address = address_of(r, i),
            .type = r->meta >> 28,
            .site = kernel};
        if (mt_stride_graph_access(g, &a) != 0)
            return -1;
    }
    return 0;
}

struct seen {
    uint64_t hash, count;
};

static int graph_runs_see(void *arg, const struct mt_stride_graph_access *a, int64_t stride, size_t node)
{
    struct seen *s = arg;
    s->hash = (s->hash ^ a->address ^ (uint64_t)stride << 32 ^ node << 16) * 0x9e3779b97f4a7c15ull;
    s->count++;
    return 0;
}

static void expect_same(const struct mt_stride_graph *a, const struct mt_stride_graph *b)
{
    assert_int_equal(a->records, b->records);
    assert_int_equal(a->left_out, b->left_out);
    assert_int_equal(a->nnodes, b->nnodes);
    assert_int_equal(a->nedges, b->nedges);
    for (size_t i = 0; i < a->nnodes; i++) {
        assert_int_equal(a->nodes[i].buffer, b->nodes[i].buffer);
        assert_int_equal(a->nodes[i].stride, b->nodes[i].stride);
        assert_int_equal(a->nodes[i].type, b->nodes[i].type);
        assert_int_equal(a->nodes[i].count, b->nodes[i].count);
        assert_int_equal(a->nodes[i].bytes, b->nodes[i].bytes);
    }
    for (size_t i = 0; i < a->nedges; i++)
        expect_edge(a, i, b->edges[i].from, b->edges[i].to, b->edges[i].count);
}

static void graph_runs_by_chance(void **state)
{
    (void)state;
    static const struct mt_alloc_event allocs[] = {
        {.id = 0, .base = 0x1000, .bytes = 0x600, .seq = 1, .free_seq = MT_SEQ_NONE, .kind = "device"},
        {.id = 1, .base = 0x1600, .bytes = 0x700, .seq = 1, .free_seq = MT_SEQ_NONE, .kind = "device"},
        {.id = 2, .base = 0x1800, .bytes = 0x100, .seq = 1, .free_seq = MT_SEQ_NONE, .kind = "device"}};
    uint64_t addresses[64];
    for (uint32_t seed = 1, k = 0; k < 400; k++) {
        struct mt_stride_graph g[2];
        struct mt_buffers b[2];
        struct seen seen[2] = {{0}};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(mt_buffers_init(&b[i], allocs, 3), 0);
            mt_stride_graph_init(&g[i], MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE, &b[i]);
            g[i].most_nodes = k % 3 == 0 ? 5 : 0;
            g[i].watch = k % 2 ? graph_runs_see : NULL;
            g[i].watch_arg = &seen[i];
        }
        for (uint32_t n = 0; n < 60; n++) {
            struct mt_access_run r = some_run(&seed, addresses);
            for (int i = 0; i < 2 && n % 30 == 0; i++)
                mt_stride_graph_launch(&g[i], kernel, 7);
            assert_int_equal(mt_stride_graph_analysis.runs(&g[0], &r, 1), 0);
            assert_int_equal(one_by_one(&g[1], &b[1], &r), 0);
        }
        assert_int_equal(seen[0].hash, seen[1].hash);
        assert_int_equal(seen[0].count, seen[1].count);
        for (int i = 0; i < 2; i++)
            assert_int_equal(mt_stride_graph_finish(&g[i], 0), 0);
        expect_same(&g[0], &g[1]);
        for (int i = 0; i < 2; i++) {
            mt_stride_graph_free(&g[i]);
            mt_buffers_free(&b[i]);
        }
    }
}

/* Between lanes: evenly spaced runs, and lists in which a stride follows itself, make what the same addresses
 * make that are looked at one by one, because somebody watches. */
static void graph_runs_lanes_by_chance(void **state)
{
    (void)state;
    uint64_t addresses[64], listed[64];
    for (uint32_t seed = 9, k = 0; k < 300; k++) {
        struct mt_stride_graph g[2];
        struct seen seen = {0};
        for (int i = 0; i < 2; i++) {
            graph_runs_start(&g[i]);
            g[i].most_nodes = k % 3 == 0 ? 5 : 0;
        }
        g[1].watch = graph_runs_see;
        g[1].watch_arg = &seen;
        for (uint32_t n = 0; n < 40; n++) {
            struct mt_access_run r = some_run(&seed, addresses), one = r;
            for (uint32_t i = 0; i < r.count; i++)
                listed[i] = address_of(&r, i);
            one.addresses = listed;
            assert_int_equal(mt_stride_lanes_analysis.runs(&g[0], &r, 1), 0);
            assert_int_equal(mt_stride_lanes_analysis.runs(&g[1], &one, 1), 0);
        }
        uint64_t counted = 0;
        for (size_t i = 0; i < g[0].nnodes; i++)
            counted += g[0].nodes[i].count;
        assert_int_equal(counted, seen.count);
        for (int i = 0; i < 2; i++)
            assert_int_equal(mt_stride_graph_finish(&g[i], 0), 0);
        expect_same(&g[0], &g[1]);
        for (int i = 0; i < 2; i++)
            mt_stride_graph_free(&g[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_runs_threads),   cmocka_unit_test(masked_lanes),
        cmocka_unit_test(without_lanes),        cmocka_unit_test(graph_runs_lanes),
        cmocka_unit_test(graph_runs_limits),    cmocka_unit_test(graph_runs_top),
        cmocka_unit_test(graph_runs_by_chance), cmocka_unit_test(graph_runs_lanes_by_chance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
