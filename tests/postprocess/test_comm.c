/* One trace, many ways to feed it: records one by one, in batches, as runs, as runs with masks and lists of
 * addresses, and divided over shards. All results are equal, those one by one being checked against the
 * brute-force extractor elsewhere (property_test.py). A few figures by hand. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../../postprocess/analysis/comm/team.h"
#include "../../postprocess/output/json/comm_json.h"
#include "../../postprocess/reader/base/pool.h"

enum { LAUNCHES = 6, MOST = 700 };

struct launch {
    struct mt_copy_event copy[3]; /* before it */
    int ncopies, selected;
    size_t n;
    struct mt_raw_record r[MOST];
};
static struct launch trace[LAUNCHES];

static unsigned comm_below(unsigned *seed, unsigned n)
{
    return (unsigned)rand_r(seed) % n;
}

/* Around a border between shards; some around the end of the address space. */
static uint64_t comm_somewhere(unsigned *seed, unsigned align)
{
    uint64_t base = comm_below(seed, 40) == 0 ? 0xffffffffffffff00
                                              : 0x7f000000fe00 + ((uint64_t)comm_below(seed, 3) << 16);
    return base + comm_below(seed, 0x400 / align) * align;
}

/* Rows of accesses forwards, backwards, on the spot and at other distances, as warps make them. */
static void make_launch(struct launch *l, unsigned *seed, unsigned unit)
{
    static const int64_t steps[] = {1, 1, 1, -1, 0, 2, -3, 7};
    l->n = 0;
    l->selected = comm_below(seed, 5) != 0;
    while (l->n < MOST - 32) {
        uint32_t size = unit * (1u << comm_below(seed, 4)), type = comm_below(seed, 20),
                 n = 1 + comm_below(seed, 32);
        type = type < 9 ? MT_LOAD : type < 17 ? MT_STORE : type < 19 ? MT_ATOMIC : MT_UNKNOWN;
        if (comm_below(seed, 60) == 0)
            size = unit * (1 + comm_below(seed, 5000));
        uint64_t at = comm_somewhere(seed, unit);
        uint64_t step = (uint64_t)(steps[comm_below(seed, 8)] * (int64_t)size);
        if (comm_below(seed, 6) == 0)
            step = unit * comm_below(seed, 40);
        for (uint32_t k = 0; k < n; k++)
            l->r[l->n++] = mt_rec_pack(comm_below(seed, 90) == 0 ? 5 : 1, type, size, at + k * step,
                                       mt_rec_cta(comm_below(seed, 30) == 0 ? 9 : n & 3, 0, 0));
    }
}

static void make_trace(unsigned seed)
{
    unsigned unit = seed % 3 ? 4 : 1;
    for (int i = 0; i < LAUNCHES; i++) {
        struct launch *l = &trace[i];
        l->ncopies = (int)comm_below(&seed, 4);
        for (int k = 0; k < l->ncopies; k++) {
            static const enum mt_copy_kind kinds[] = {MT_COPY_H2D, MT_COPY_D2D, MT_COPY_D2H, MT_COPY_SET,
                                                      MT_COPY_NEW};
            uint64_t src = comm_somewhere(&seed, unit), dst = comm_below(&seed, 2)
                                                                  ? src + comm_below(&seed, 50) * unit
                                                                  : comm_somewhere(&seed, unit);
            uint64_t width = unit * (1 + comm_below(&seed, 300));
            l->copy[k] = (struct mt_copy_event){.kind = kinds[comm_below(&seed, 5)],
                                                .dst = dst,
                                                .src = src,
                                                .width = width,
                                                .height = 1 + comm_below(&seed, 3),
                                                .dpitch = width + unit,
                                                .spitch = width};
        }
        make_launch(l, &seed, unit);
    }
}

enum way { ONE_BY_ONE, BATCHES, AS_RUNS, WARPS };

static uint32_t comm_listed(const struct mt_access_run *r, uint64_t *list)
{
    for (uint32_t k = 0; k < r->count; k++)
        list[k] = r->base + k * (uint64_t)r->stride;
    return r->count;
}

/* Runs as a warp's: masks, and lists of addresses in place of even ones; a list may hold several runs, as the
 * rows of a block of threads. How many there are then. */
static size_t dress_up(struct mt_access_run *runs, size_t n, uint64_t *list, unsigned *seed)
{
    size_t out = 0;
    for (size_t i = 0; i < n; out++) {
        struct mt_access_run r = runs[i++];
        if (comm_below(seed, 3) == 0) {
            uint32_t count = comm_listed(&r, list);
            while (i < n && comm_below(seed, 4) && runs[i].cta == r.cta && runs[i].smid == r.smid &&
                   runs[i].meta == r.meta)
                count += comm_listed(&runs[i++], list + count);
            r.addresses = list;
            r.stride = 77;
            r.count = count;
            list += count;
        }
        if (comm_below(seed, 2) && r.count <= 32) {
            r.mask = (uint32_t)((1ull << r.count) - 1);
            r.warp = comm_below(seed, 8);
        }
        runs[out] = r;
    }
    return out;
}

static void feed_launch(struct mt_team *t, const struct launch *l, enum way way)
{
    static struct mt_access_run runs[MOST];
    static uint64_t list[MOST];
    unsigned seed = 5;
    for (size_t i = 0, n; i < l->n; i += n) {
        n = way == ONE_BY_ONE ? 1 : 1 + comm_below(&seed, 300);
        if (n > l->n - i)
            n = l->n - i;
        if (way < AS_RUNS) {
            assert_int_equal(t->kind->fed.records(t, l->r + i, n), 0);
            continue;
        }
        size_t taken, count = mt_runs_from_records(l->r + i, n, runs, MOST, &taken);
        if (way == WARPS)
            count = dress_up(runs, count, list, &seed);
        assert_int_equal(t->kind->fed.runs(t, runs, count), 0);
    }
}

/* The results as text. */
static char *comm_results(const struct mt_comm_options *options, enum way way, unsigned shards, size_t *size)
{
    static struct mt_json j;
    struct mt_pool *pool = mt_pool_new(shards % 3); /* fewer threads than shards, and none */
    struct mt_team *t = mt_team_of_threads(options, pool, shards);
    assert_non_null(t);
    for (int i = 0; i < LAUNCHES; i++) {
        for (int k = 0; k < trace[i].ncopies; k++)
            assert_int_equal(t->kind->fed.copy(t, &trace[i].copy[k]), 0);
        assert_int_equal(t->kind->fed.launch(t, &(struct mt_run_launch){.kernel = i % 2 ? "b" : "a",
                                                                        .selected = trace[i].selected}),
                         0);
        feed_launch(t, &trace[i], way);
    }
    assert_int_equal(t->kind->fed.finish(t), 0);
    struct mt_comm *c = t->comm;
    int fd = memfd_create("results", 0);
    assert_true(fd >= 0);
    mt_json_open(&j, fd);
    mt_json_object(&j, NULL, 0);
    mt_json_u64(&j, "records", c->records);
    mt_json_u64(&j, "unknown", c->unknown);
    assert_int_equal(mt_comm_write(&j, c, (1u << MT_SECTIONS) - 1), 0);
    assert_int_equal(mt_keyset_index(&c->keys), 0);
    mt_json_array(&j, "keys", 0);
    for (size_t p = 0; p < c->keys.pages.count; p++)
        for (unsigned i = 0; i < 4096; i++)
            if (c->keys.page[p]->bits[i / 64] >> i % 64 & 1)
                mt_json_hex(&j, NULL, c->keys.page[p]->number << MT_KEY_BITS | i);
    mt_json_end(&j);
    uint64_t bytes = 0; /* of each pair of CTAs, each once */
    for (size_t i = 1; i < c->readers.n; i++)
        bytes += c->readers.sets[i].bytes;
    mt_json_u64(&j, "read", bytes);
    mt_json_end(&j);
    assert_int_equal(mt_json_close(&j), 0);
    *size = (size_t)lseek(fd, 0, SEEK_END);
    char *text = malloc(*size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, *size, 0), *size);
    text[*size] = 0;
    close(fd);
    t->kind->fed.free(t);
    mt_pool_free(pool);
    return text;
}

static void all_ways(void **state)
{
    (void)state;
    size_t longest = 0;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct mt_comm_options o = {.local = seed % 5 == 1,
                                    .strict = seed % 5 == 2,
                                    .transfers = 1,
                                    .readers = seed % 3 == 1,
                                    .addresses = seed % 2,
                                    .host = seed % 7 == 3,
                                    .host_end = UINT64_MAX};
        size_t size, other;
        make_trace(seed);
        char *expected = comm_results(&o, ONE_BY_ONE, 1, &size);
        longest = size > longest ? size : longest;
        for (enum way way = ONE_BY_ONE; way <= WARPS; way++)
            for (unsigned shards = 1; shards <= (way == ONE_BY_ONE ? 1 : 5); shards += 2) {
                char *text = comm_results(&o, way, shards, &other);
                if (other != size || memcmp(text, expected, size) != 0)
                    fail_msg("seed %u, way %d, %u shards:\n%s\nexpected\n%s", seed, way, shards, text,
                             expected);
                free(text);
            }
        free(expected);
    }
    assert_true(longest > 10000); /* there was something to compare */
}

/* A warp of CTA 0 stores 32 words, CTA 1 reads them as 16 accesses of 8 bytes,
 * then all its lanes read the first. */
static void by_hand(void **state)
{
    (void)state;
    struct mt_comm_options o = {.transfers = 1, .host_end = UINT64_MAX};
    const struct mt_access_run runs[] = {
        {.base = 0x1000, .stride = 4, .meta = mt_rec_meta(MT_STORE, 4), .count = 32, .mask = ~0u},
        {.base = 0x1078,
         .stride = -8,
         .meta = mt_rec_meta(MT_LOAD, 8),
         .count = 16,
         .cta = 1ull << 32,
         .mask = 0xffff},
        {.base = 0x1000,
         .stride = 0,
         .meta = mt_rec_meta(MT_LOAD, 4),
         .count = 32,
         .cta = 1ull << 32,
         .mask = ~0u},
        {.base = 0x1002,
         .stride = 0,
         .meta = mt_rec_meta(MT_ATOMIC, 4),
         .count = 32,
         .cta = 2ull << 32,
         .mask = ~0u},
    };
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_team *t = mt_team_of_threads(&o, pool, 1);
    assert_int_equal(t->kind->fed.launch(t, &(struct mt_run_launch){.kernel = "k", .selected = 1}), 0);
    assert_int_equal(t->kind->fed.runs(t, runs, 4), 0);
    assert_int_equal(mt_team_count(t), 32 + 16 + 32 + 32);
    assert_int_equal(t->kind->fed.finish(t), 0);
    const struct mt_comm *c = t->comm;
    assert_int_equal(c->records, 112);
    assert_int_equal(c->nactors, 4);
    assert_int_equal(c->actors[1].store, 128);
    assert_int_equal(c->actors[1].comm_store, 128);
    assert_int_equal(c->actors[2].load, 256);
    assert_int_equal(mt_actor_comm_load(&c->actors[2]), 128 + 128);
    assert_int_equal(c->actors[3].load, 128);
    assert_int_equal(c->actors[3].store, 128);
    assert_int_equal(mt_actor_comm_load(&c->actors[3]),
                     4); /* the first lane's; the others find what it wrote */
    assert_int_equal(c->ntransfers, 2);
    assert_int_equal(c->transfers[0].size, 256);
    assert_int_equal(c->transfers[0].count, 16 + 32);
    assert_int_equal(c->transfers[1].size, 4);
    assert_int_equal(c->transfers[1].count, 1);
    t->kind->fed.free(t);
    mt_pool_free(pool);
}

/* CTAs 2 to 9 read words of CTA 1 in two orders: the first word's set goes through eight, the second one's
 * through seven that are others. More than there may be are lost, also when shards come together. */
static void readers(void **state)
{
    (void)state;
    struct mt_readers r, other;
    for (size_t most = 14; most <= 15; most++) {
        mt_readers_init(&r);
        mt_readers_init(&other);
        r.most = most;
        mt_readers_launch(&r);
        for (uint32_t i = 0; i < 64; i++)
            mt_readers_read(&r, 1, 2 + i % 8, 0x1000, 4);
        assert_int_equal(r.n, 1 + 8);
        mt_readers_read(&r, 1, 2, 0x1006, 2); /* a set that is there */
        assert_int_equal(r.n, 1 + 8);
        for (uint32_t i = 0; i < 64; i++)
            mt_readers_read(&r, 1, 9 - i % 7, 0x1006, 2);
        assert_int_equal(r.lost, most == 14);
        if (!r.lost) {
            assert_int_equal(r.sets[1].bytes, 4 + 2);
            assert_int_equal(r.sets[r.n - 1].bytes, 2);
        }
        mt_readers_add(&other, r.lost ? NULL : r.sets + 1, r.n - 1);
        assert_int_equal(other.lost, r.lost);
        mt_readers_free(&r);
        mt_readers_free(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(readers),
                                       cmocka_unit_test(all_ways)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
