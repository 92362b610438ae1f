/* Records put together as runs: hand-made examples, and random ones taken apart again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/base/runs.h"
#include "memtrace/trace.h"

static struct mt_raw_record runs_record(uint32_t type, uint32_t size, uint64_t address, uint32_t cta,
                                        uint32_t smid)
{
    return mt_rec_pack(smid, type, size, address, mt_rec_cta(cta, 0, 0));
}

/* The records of a run, as its definition has it (device.h). */
static size_t take_apart(const struct mt_access_run *run, struct mt_raw_record *out)
{
    assert_true(run->count >= 1);
    assert_null(run->addresses);
    assert_int_equal(run->mask, MT_RUN_NO_MASK);
    assert_int_equal(run->warp, MT_RUN_NO_WARP);
    assert_int_equal(run->site, 0);
    for (uint32_t i = 0; i < run->count; i++)
        out[i] = (struct mt_raw_record){
            {(uint64_t)run->smid << 32 | run->meta, run->base + i * (uint64_t)run->stride, run->cta}};
    return run->count;
}

static void by_hand(void **state)
{
    (void)state;
    const struct mt_raw_record r[] = {
        runs_record(MT_LOAD, 4, 0x100, 0, 0), /* a warp reads upwards: 4 */
        runs_record(MT_LOAD, 4, 0x104, 0, 0),
        runs_record(MT_LOAD, 4, 0x108, 0, 0),
        runs_record(MT_LOAD, 4, 0x10c, 0, 0),
        runs_record(MT_STORE, 4, 0x110, 0, 0), /* another type: downwards, 2 */
        runs_record(MT_STORE, 4, 0x10c, 0, 0),
        runs_record(MT_STORE, 4, 0x10c, 1, 0), /* another CTA: one address three times */
        runs_record(MT_STORE, 4, 0x10c, 1, 0),
        runs_record(MT_STORE, 4, 0x10c, 1, 0),
        runs_record(MT_STORE, 8, 0x10c, 1, 0), /* another size: 1 */
        runs_record(MT_STORE, 8, 0x10c, 1, 1), /* another SM: around the end of the address space, 3 */
        runs_record(MT_STORE, 8, 0x8000000000000000, 1, 1),
        runs_record(MT_STORE, 8, 0xfffffffffffffef4, 1, 1),
        runs_record(MT_UNKNOWN, 1, 0, 1, 1),
    };
    static const struct {
        uint64_t base;
        int64_t stride;
        uint32_t count, meta;
    } expected[] = {{0x100, 4, 4, 0x00000004},
                    {0x110, -4, 2, 0x10000004},
                    {0x10c, 0, 3, 0x10000004},
                    {0x10c, 0, 1, 0x10000008},
                    {0x10c, 0x7ffffffffffffef4, 3, 0x10000008},
                    {0, 0, 1, 0x30000001}};
    enum { N = sizeof r / sizeof *r, RUNS = sizeof expected / sizeof *expected };
    struct mt_access_run runs[N];
    size_t taken;
    assert_int_equal(mt_runs_from_records(r, N, runs, N, &taken), RUNS);
    assert_int_equal(taken, N);
    for (size_t i = 0; i < RUNS; i++) {
        assert_int_equal(runs[i].base, expected[i].base);
        assert_int_equal(runs[i].count, expected[i].count);
        assert_int_equal(runs[i].meta, expected[i].meta);
        if (runs[i].count > 1)
            assert_int_equal(runs[i].stride, expected[i].stride);
    }
    /* Too little room, nothing to do. */
    assert_int_equal(mt_runs_from_records(r, N, runs, 2, &taken), 2);
    assert_int_equal(taken, 6);
    assert_int_equal(mt_runs_from_records(r, 2, runs, N, &taken), 1);
    assert_int_equal(runs[0].count, 2);
    assert_int_equal(mt_runs_from_records(r, 0, runs, N, &taken), 0);
    assert_int_equal(taken, 0);
    assert_int_equal(mt_runs_from_records(r, N, runs, 0, &taken), 0);
    assert_int_equal(taken, 0);
}

/* Neighbours of one run in a random trace. */
static struct mt_raw_record next_to(const struct mt_raw_record *last, unsigned *seed)
{
    struct mt_raw_record r = *last;
    switch (rand_r(seed) % 12) {
    case 0:
        return runs_record((uint32_t)rand_r(seed) % 4, 1 + (uint32_t)rand_r(seed) % 9,
                           (uint64_t)rand_r(seed) << 30, (uint32_t)rand_r(seed) % 2,
                           (uint32_t)rand_r(seed) % 2);
    case 1:
        r.w[1] -= 8;
        return r;
    case 2:
        r.w[1] += (uint64_t)rand_r(seed) << 34;
        return r;
    case 3:
        return r;
    default:
        r.w[1] += 4;
        return r;
    }
}

static void random_records(struct mt_raw_record *r, size_t n, unsigned seed)
{
    struct mt_raw_record last = runs_record(MT_LOAD, 4, UINT64_MAX - 64, 0, 0);
    for (size_t i = 0; i < n; i++)
        r[i] = last = next_to(&last, &seed);
}

static void apart_again(void **state)
{
    (void)state;
    enum { N = 2000 };
    static struct mt_raw_record r[N], back[N];
    static struct mt_access_run runs[N];
    for (unsigned seed = 1; seed <= 200; seed++) {
        random_records(r, N, seed);
        size_t done = 0, room = seed % 3 ? N : 1 + seed % 50, merged = 0;
        while (done < N) {
            size_t taken, n = mt_runs_from_records(r + done, N - done, runs, room, &taken), got = 0;
            assert_true(n >= 1 && n <= room);
            for (size_t i = 0; i < n; i++) {
                merged += runs[i].count > 2;
                got += take_apart(&runs[i], back + done + got);
            }
            assert_int_equal(got, taken);
            done += taken;
        }
        assert_memory_equal(r, back, sizeof r);
        assert_true(merged > 100); /* of some 1000 stretches with one distance */
    }
}

/* A run's first and last byte, beside those of its accesses one by one. */
static void runs_extents(void **state)
{
    (void)state;
    enum { LANES = 32 };
    unsigned seed = 5, told = 0;
    for (unsigned i = 0; i < 20000; i++) {
        static const uint64_t bases[] = {0, 0x7f0000000000, UINT64_MAX - 100};
        uint64_t lane[LANES], at = bases[rand_r(&seed) % 3] + (unsigned)rand_r(&seed) % 64, low = 0;
        const uint32_t size = 1 + (unsigned)rand_r(&seed) % 16,
                       reach = 1u << (1 + (unsigned)rand_r(&seed) % 20);
        struct mt_access_run r = {
            .base = at, .meta = size, .count = 1 + (unsigned)rand_r(&seed) % LANES, .mask = UINT32_MAX};
        r.stride = (int64_t)((unsigned)rand_r(&seed) % reach) - (int64_t)(reach / 2);
        for (unsigned k = 0; k < LANES; k++)
            lane[k] = i % 2 ? at + (unsigned)rand_r(&seed) % reach : at + k * (uint64_t)r.stride;
        r.addresses = i % 2 ? lane : NULL;
        __int128 first = lane[0], end = first + size;
        int around = 0;
        for (unsigned k = 0; k < r.count; k++) {
            around |= !r.addresses && ((__int128)at + k * (__int128)r.stride != lane[k]);
            first = lane[k] < first ? lane[k] : first;
            end = (__int128)lane[k] + size > end ? (__int128)lane[k] + size : end;
        }
        uint64_t extent = mt_run_extent(&r, &low);
        if (!extent) { /* too wide, or around the end of the address space */
            assert_true(end - first > MT_RUN_WIDE || end > UINT64_MAX || around);
            continue;
        }
        told++;
        assert_true(low == (uint64_t)first && extent == (uint64_t)(end - first));
    }
    assert_true(told > 10000);
}

/* A source hands out the same launches and records either way. */
static void runs_source(void **state)
{
    (void)state;
    enum { N = 40000, LAUNCHES = 3 };
    static struct mt_raw_record r[N], plain[LAUNCHES * N], back[LAUNCHES * N];
    static const struct mt_raw_record end;
    char path[] = "/tmp/mt-runs-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "wb");
    fputc(24, f);
    for (unsigned i = 0; i < LAUNCHES; i++) {
        size_t n = i == 1 ? 0 : N; /* a launch without records is handed out, too */
        random_records(r, N, i + 1);
        fputs("k\n", f);
        fwrite(r, sizeof *r, n, f);
        fwrite(&end, sizeof end, 1, f);
    }
    assert_int_equal(fclose(f), 0);
    size_t got[2] = {0, 0}, begins[2] = {0, 0}, ends[2] = {0, 0}, runs = 0;
    for (int way = 0; way < 2; way++) {
        struct mt_source_options o = {.flags = way ? MT_SOURCE_RUNS : 0};
        struct mt_error err;
        struct mt_item item;
        struct mt_source *s = mt_source_open((const char *const[]){path}, 1, &o, &err);
        assert_non_null(s);
        while (mt_source_next(s, &item, &err) > 0) {
            assert_int_equal(item.kind, way ? MT_ITEM_RUNS : MT_ITEM_BATCH);
            begins[way] += (item.flags & MT_BATCH_BEGIN) != 0;
            ends[way] += (item.flags & MT_BATCH_END) != 0;
            if (!way) {
                memcpy(plain + got[0], item.records, item.count * sizeof *plain);
                got[0] += item.count;
            }
            for (size_t i = 0; way && i < item.count; i++)
                got[1] += take_apart(&item.runs[i], back + got[1]);
            runs += way ? item.count : 0;
        }
        mt_source_close(s);
    }
    assert_int_equal(begins[1], LAUNCHES);
    assert_int_equal(ends[1], LAUNCHES);
    assert_int_equal(got[0], 2 * N);
    assert_int_equal(got[1], 2 * N);
    assert_memory_equal(plain, back, 2 * N * sizeof *plain);
    assert_true(runs < N);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(apart_again),
                                       cmocka_unit_test(runs_extents), cmocka_unit_test(runs_source)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
