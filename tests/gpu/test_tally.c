/* Totals in place of records: the patches' own source, run by host threads as the lanes of warps, beside what
 * the analyses make of the same requests (postprocess/analysis/locality). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host_warp.h"
#include "gpu/patch/patch.cu"
#include "analysis/locality/coalescing.h"
#include "analysis/locality/lines.h"

#define CODE 0x7f0000100000ull
enum { SITES = 12, ENTRIES = 64, REQUESTS = 800, FULL = 4 };

_Thread_local struct host_thread host_thread;

static struct {
    struct mt_gpu_tallies head;
    struct mt_gpu_tally entry[ENTRIES];
} table;
static _Alignas(256) struct mt_gpu_context context;

/* ---- lanes ---- */

static struct request {
    unsigned site;
    uint32_t mask, size, flags;
    uint64_t address[32], bytes;
} request;
static pthread_barrier_t begin, done;
static struct host_warp warp;
static int over;

static void *lane_main(void *number)
{
    unsigned lane = (unsigned)(size_t)number;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (over)
            return NULL;
        host_thread = (struct host_thread){.warp = &warp, .lane = lane, .grid = {1, 1}, .threads = 32};
        uint64_t pc = CODE + 16 * request.site;
        if (!(request.mask >> lane & 1))
            ;
        else if (request.bytes)
            mt_patch_bulk_load_total(&context, pc, request.address[lane], 0, 0, (uint32_t)request.bytes / 16,
                                     0);
        else if (request.flags)
            mt_patch_global_total(&context, pc, (void *)(uintptr_t)request.address[lane], request.size,
                                  request.flags, NULL);
        else
            mt_patch_copy_total(&context, pc, (void *)(uintptr_t)request.address[lane], 0, request.size);
        pthread_barrier_wait(&done);
    }
}

/* ---- requests ---- */

static unsigned totals_below(unsigned n)
{
    return (unsigned)((unsigned long)random() % n);
}

/* Aligned, as hardware demands. */
static uint64_t address_like(unsigned shape, unsigned lane, uint32_t size, uint64_t base, int64_t stride)
{
    switch (shape) {
    case 0:
    case 1:
        return base + (uint64_t)stride * size * lane;
    case 2:
        return base + (uint64_t)totals_below(64) * size;
    case 3:
        return base;
    default:
        return base + (uint64_t)totals_below(1u << 20) * size;
    }
}

static void make_request(void)
{
    static const int64_t strides[] = {1, 1, -1, 2, 33, -7};
    static const uint32_t flags[] = {1, 2, 3, 0, 2 | 1 | 256, 1};
    unsigned site = totals_below(SITES), shape = totals_below(5);
    uint64_t base = 0x7f5500000000 + 256ull * totals_below(1000) + 32ull * totals_below(8);
    request = (struct request){.site = site, .size = 1u << site % 6, .flags = flags[site % 6]};
    request.mask = totals_below(3) ? UINT32_MAX : (uint32_t)random();
    request.mask = totals_below(20) ? request.mask : 1u << totals_below(32);
    request.mask = request.mask ? request.mask : 1;
    int64_t stride = strides[totals_below(6)];
    unsigned rank = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (request.mask >> lane & 1)
            request.address[lane] = address_like(shape, rank++, request.size, base, stride);
    if (site == SITES - 1) { /* one lane copies a block */
        request.mask = 1u << totals_below(32);
        request.bytes = 16 + 16 * totals_below(1000);
    }
}

static void run_request(void)
{
    memset(warp.meets, 0, sizeof warp.meets);
    warp.mask = request.mask;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&done);
}

/* ---- beside the analyses: a kernel for each site ---- */

static char names[SITES][8];
static struct mt_coalescing coalescing;
static struct mt_lines lines;

static uint32_t type_of(void)
{
    uint32_t f = request.flags & 3;
    return request.bytes || !request.flags || f == 1 ? MT_LOAD : f == 2 ? MT_STORE : MT_ATOMIC;
}

static void totals_analyse(void)
{
    uint64_t list[32];
    uint32_t n = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (request.mask >> lane & 1)
            list[n++] = request.address[lane];
    const struct mt_access_run run = {
        .meta = mt_rec_meta(type_of(), request.bytes ? (uint32_t)request.bytes : request.size),
        .count = n,
        .mask = request.mask,
        .base = list[0],
        .addresses = list};
    const struct mt_run_launch launch = {
        .kernel = names[request.site], .seq = MT_SEQ_NONE, .begins = 1, .selected = 1};
    assert_int_equal(mt_coalescing_analysis.launch(&coalescing, &launch), 0);
    assert_int_equal(mt_coalescing_analysis.runs(&coalescing, &run, 1), 0);
    assert_int_equal(mt_lines_analysis.launch(&lines, &launch), 0);
    assert_int_equal(mt_lines_analysis.runs(&lines, &run, 1), 0);
}

static uint64_t totals_strided(const struct mt_coalescing_cell *cell, int64_t stride)
{
    for (size_t i = 0; i < coalescing.nstrides; i++)
        if (&coalescing.cells[coalescing.strides[i].cell] == cell && coalescing.strides[i].stride == stride)
            return coalescing.strides[i].requests;
    return 0;
}

static void compare_strides(const struct mt_gpu_tally *e, const struct mt_coalescing_cell *cell)
{
    uint64_t rest = e->requests - e->single - e->irregular;
    for (unsigned i = 0; i < MT_TALLY_STRIDES; i++) {
        if (e->stride[i])
            assert_int_equal(e->times[i], totals_strided(cell, (int64_t)e->stride[i] >> 1));
        rest -= e->times[i];
    }
    assert_int_equal(rest, e->other);
}

static const struct mt_gpu_tally *entry_of(const struct mt_coalescing_cell *cell)
{
    for (unsigned i = 0; i < ENTRIES; i++)
        if (table.entry[i].key) {
            uint64_t pc = (table.entry[i].key & ((1ull << MT_TALLY_PC_BITS) - 1)) << 4;
            assert_int_equal(table.entry[i].key >> MT_TALLY_PC_BITS, 7);
            if (cell->kernel == names[(pc - CODE) / 16] && table.entry[i].meta >> 28 == cell->type)
                return &table.entry[i];
        }
    fail();
    return NULL;
}

static void totals_compare(void)
{
    assert_int_equal(coalescing.count, SITES);
    for (size_t i = 0; i < coalescing.count; i++) {
        const struct mt_coalescing_cell *c = &coalescing.cells[i];
        const struct mt_gpu_tally *e = entry_of(c);
        assert_int_equal(e->requests, c->requests);
        assert_int_equal(e->accesses, c->accesses);
        assert_int_equal(e->bytes, c->bytes);
        assert_int_equal(e->distinct, c->distinct);
        assert_int_equal(e->sectors, c->sectors);
        assert_int_equal(e->lines, c->lines);
        assert_int_equal(e->single, c->single);
        assert_int_equal(e->irregular, c->irregular);
        compare_strides(e, c);
    }
}

/* The same figures by way of the lines of a companion. */
static void compare_fed(void)
{
    struct mt_coalescing fed;
    assert_int_equal(mt_coalescing_analysis.init(&fed, NULL), 0);
    for (size_t i = 0; i < coalescing.count; i++) {
        const struct mt_coalescing_cell *c = &coalescing.cells[i];
        const struct mt_gpu_tally *e = entry_of(c);
        static const char *const ops[] = {"load", "store", "atomic"};
        char text[400] = "";
        for (unsigned k = 0; k < MT_TALLY_STRIDES; k++)
            if (e->stride[k])
                sprintf(text + strlen(text), "%s%lld %llu", *text ? "\n" : "",
                        (long long)((int64_t)e->stride[k] >> 1), (unsigned long long)e->times[k]);
        const struct mt_tally_event t = {.op = ops[c->type],
                                         .requests = e->requests,
                                         .accesses = e->accesses,
                                         .bytes = e->bytes,
                                         .distinct = e->distinct,
                                         .sectors = e->sectors,
                                         .lines = e->lines,
                                         .single = e->single,
                                         .irregular = e->irregular,
                                         .strides = text,
                                         .other = e->other};
        assert_int_equal(mt_coalescing_tally(&fed, c->kernel, 0, 0, &t), 0);
        const struct mt_coalescing_cell *got = &fed.sites.cells[fed.sites.count - 1];
        assert_int_equal(got->sectors, c->sectors);
        assert_int_equal(got->requests, c->requests);
        assert_int_equal(got->irregular, c->irregular + e->other);
    }
    assert_int_equal(fed.masked, coalescing.masked);
    mt_coalescing_analysis.free(&fed);
}

static void totals_are_those_of_the_trace(void **state)
{
    const struct mt_run_options o = {0};
    assert_int_equal(mt_coalescing_analysis.init(&coalescing, &o), 0);
    assert_int_equal(mt_lines_analysis.init(&lines, &o), 0);
    for (unsigned i = 0; i < SITES; i++)
        snprintf(names[i], sizeof names[i], "k%u", i);
    for (unsigned i = 0; i < REQUESTS; i++) {
        make_request();
        run_request();
        totals_analyse();
    }
    assert_int_equal(mt_coalescing_analysis.finish(&coalescing), 0);
    totals_compare();
    compare_fed();
    assert_int_equal(table.head.lost, 0);
    mt_coalescing_analysis.free(&coalescing);
    mt_lines_analysis.free(&lines);
}

/* What finds no room is counted. */
static void a_full_table_counts_the_rest(void **state)
{
    memset(&table, 0, sizeof table);
    table.head.entries = FULL;
    uint64_t accesses = 0, counted = 0;
    for (unsigned i = 0; i < 200; i++) {
        do
            make_request();
        while (request.bytes);
        run_request();
        accesses += (uint64_t)__builtin_popcount(request.mask);
    }
    for (unsigned i = 0; i < FULL; i++)
        counted += table.entry[i].accesses;
    assert_int_equal(counted + table.head.lost, accesses);
    assert_true(table.head.lost > 0);
    assert_int_equal(table.entry[FULL].key, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(totals_are_those_of_the_trace),
                                       cmocka_unit_test(a_full_table_counts_the_rest)};
    pthread_t lanes[32];
    warp = (struct host_warp){.lock = PTHREAD_MUTEX_INITIALIZER, .all_here = PTHREAD_COND_INITIALIZER};
    table.head.entries = ENTRIES;
    context.tallies = (uint64_t)(uintptr_t)&table;
    context.kernel = 7;
    pthread_barrier_init(&begin, NULL, 33);
    pthread_barrier_init(&done, NULL, 33);
    for (size_t i = 0; i < 32; i++)
        pthread_create(&lanes[i], NULL, lane_main, (void *)i);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    over = 1;
    pthread_barrier_wait(&begin);
    for (size_t i = 0; i < 32; i++)
        pthread_join(lanes[i], NULL);
    return failed;
}
