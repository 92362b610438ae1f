/* Device chunks: what goes into the encoder comes out of the reader's decoder; damage is noticed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "../../bench/streams.h"
#include "../../postprocess/reader/container/device_decode.h"
#include "container/writer.h"
#include "some_runs.h"

enum { BATCH = 100, MANY = 30000 };

static uint64_t address_of(const struct mt_access_run *r, uint32_t i)
{
    if (r->row)
        return r->base + i / r->row * (uint64_t)r->apart + i % r->row * (uint64_t)r->stride;
    return r->addresses ? r->addresses[i] : r->base + i * (uint64_t)r->stride;
}

/* The accesses are compared one by one: a run may come back in pieces or as a stride. */
static void device_same(const struct mt_access_run *in, size_t count, const void *payload, size_t bytes)
{
    static struct mt_access_run out[BATCH];
    static uint64_t lanes[BATCH * MT_MTC_MAX_LANES];
    struct mt_device_decoder d = {0};
    size_t at = 0, n;
    uint32_t lane = 0;
    assert_int_equal(mt_device_decode_start(&d, payload, bytes), 0);
    for (;;) {
        assert_int_equal(mt_device_decode_next(&d, out, lanes, BATCH, &n), 0);
        if (!n)
            break;
        for (size_t i = 0; i < n; i++) {
            const struct mt_access_run *r = &out[i];
            assert_true(at < count && lane + r->count <= in[at].count);
            assert_true(r->mask == in[at].mask && r->warp == in[at].warp && r->smid == in[at].smid);
            assert_true(r->cta == in[at].cta && r->site == in[at].site && r->meta == in[at].meta);
            assert_true(r->base == address_of(r, 0));
            for (uint32_t k = 0; k < r->count; k++)
                assert_true(address_of(r, k) == address_of(&in[at], lane + k));
            lane += r->count;
            if (lane == in[at].count) {
                lane = 0;
                at++;
            }
        }
    }
    assert_int_equal(at, count);
    mt_device_decode_free(&d);
}

/* One encoder for all: its tables must forget the chunk before. */
static void round_trip(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count)
{
    const void *payload;
    const char *why;
    uint64_t accesses, sum = 0;
    size_t bytes = mt_mtc_encode_device(e, runs, count, &accesses, &payload, &why);
    assert_null(why);
    assert_true(bytes >= sizeof(struct mt_mtc_columns));
    for (size_t i = 0; i < count; i++)
        sum += runs[i].count;
    assert_int_equal(accesses, sum);
    device_same(runs, count, payload, bytes);
}

static void device_kernels(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    (void)state;
    for (unsigned which = 0; stream_names[which]; which++)
        for (enum stream_order o = STREAM_CTAS; o <= STREAM_MIXED; o++) {
            struct stream s;
            assert_int_equal(stream_make(&s, which, o, MANY), 0);
            for (size_t i = 0; i < s.count; i += MANY / 3)
                round_trip(e, s.runs + i, MANY / 3);
            stream_free(&s);
        }
    mt_mtc_device_encoder_free(e);
}

static void random_runs(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    struct mt_access_run *runs = malloc(MANY * sizeof *runs);
    uint64_t *lanes = malloc(MANY * SOME_LANES * sizeof *lanes);
    (void)state;
    for (unsigned number = 1; number <= 40; number++) {
        some_seed = number;
        size_t count = some_draw(4) ? some_draw(300) : some_draw(MANY);
        uint32_t tame = 2 + some_draw(30);
        for (size_t i = 0; i < count; i++)
            some_run(&runs[i], lanes + i * SOME_LANES, tame);
        round_trip(e, runs, count);
    }
    free(runs);
    free(lanes);
    mt_mtc_device_encoder_free(e);
}

/* What a kernel made by chance does: its sites, which of them are in a loop, and how its warps take turns. */
struct kernel {
    uint32_t warps, sites, times[8], stride[8], apart[8];
    int back, passes; /* one run in `back` is of an earlier CTA; each warp comes `passes` times */
};

static struct mt_access_run kernel_run(const struct kernel *k, uint32_t cta, uint32_t warp, uint32_t site,
                                       uint32_t time)
{
    uint64_t x = cta % 16, y = cta / 16, far = (uint64_t)(site + 1) << 32;
    struct mt_access_run r = {.base = far + (cta * k->warps + warp) * UINT64_C(128) + time * UINT64_C(4096),
                              .stride = k->stride[site],
                              .cta = x << 32 | y << 16,
                              .smid = cta % 3,
                              .warp = warp,
                              .meta = (site % 3) << 28 | 4,
                              .site = site == 7 ? 0 : site + 1,
                              .count = 32,
                              .mask = UINT32_MAX};
    if (!some_draw(200))
        r.base += 4 * some_draw(1000);
    if (k->apart[site]) {
        r.row = 16;
        r.apart = some_draw(50) ? k->apart[site] : 64 * some_draw(3);
    } else if (!some_draw(100)) {
        r.mask = 0xffff;
        r.count = 16;
    }
    return r;
}

static size_t kernel_runs(const struct kernel *k, struct mt_access_run *runs, size_t most)
{
    size_t n = 0;
    for (uint32_t cta = 0; n < most; cta++)
        for (uint32_t turn = 0; turn < k->warps * (uint32_t)k->passes; turn++)
            for (uint32_t site = 0; site < k->sites; site++)
                for (uint32_t time = 0; time < k->times[site] && n < most; time++) {
                    int back = k->back && !some_draw((uint32_t)k->back);
                    runs[n++] = kernel_run(k, back ? some_draw(cta + 1) : cta, turn % k->warps, site, time);
                }
    return n;
}

/* Warps one after the other, in loops or not, back again or not: rows come back, and the bytes are those of
 * the same runs with each address given. */
static void device_rows(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    struct mt_access_run *runs = malloc(MANY * sizeof *runs), *apart = malloc(MANY * sizeof *apart);
    uint64_t *lanes = malloc(MANY * 32 * sizeof *lanes), sum;
    const void *payload;
    const char *why;
    (void)state;
    for (unsigned number = 1; number <= 40; number++) {
        some_seed = number;
        struct kernel k = {.warps = 1 + some_draw(8), .sites = 1 + some_draw(8)};
        k.passes = 1 + (int)some_draw(2);
        k.back = some_draw(2) ? 0 : 30;
        for (unsigned i = 0; i < 8; i++) {
            k.times[i] = some_draw(3) ? 1 : 1 + some_draw(20);
            k.stride[i] = 4 * some_draw(3);
            k.apart[i] = some_draw(3) ? 0 : 1024;
        }
        size_t count = kernel_runs(&k, runs, MANY);
        memcpy(apart, runs, count * sizeof *runs);
        for (size_t i = 0; i < count; i++) {
            for (uint32_t lane = 0; runs[i].row && lane < 32; lane++)
                lanes[i * 32 + lane] = address_of(&runs[i], lane);
            apart[i].addresses = runs[i].row ? lanes + i * 32 : NULL;
            apart[i].row = 0;
        }
        size_t bytes = mt_mtc_encode_device(e, apart, count, &sum, &payload, &why);
        void *copy = malloc(bytes);
        memcpy(copy, payload, bytes);
        assert_int_equal(mt_mtc_encode_device(e, runs, count, &sum, &payload, &why), bytes);
        assert_memory_equal(copy, payload, bytes);
        device_same(runs, count, payload, bytes);
        free(copy);
    }
    free(runs);
    free(apart);
    free(lanes);
    mt_mtc_device_encoder_free(e);
}

static void device_refused(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    struct mt_access_run good = {.meta = 4, .count = 1}, r;
    const void *payload;
    const char *why;
    uint64_t n;
    (void)state;
    assert_true(mt_mtc_encode_device(e, &good, 1, &n, &payload, &why) > 0);
    assert_true(mt_mtc_encode_device(e, NULL, 0, &n, &payload, &why) > 0);
#define REFUSED(change)                                                                                      \
    r = good;                                                                                                \
    change;                                                                                                  \
    assert_int_equal(mt_mtc_encode_device(e, &r, 1, &n, &payload, &why), 0);                                 \
    assert_non_null(why)
    REFUSED(r.count = 0);
    REFUSED(r.meta = 0);
    REFUSED(r.meta = 7u << 28 | 4);
    REFUSED(r.meta = 11u << 28 | 4);
    REFUSED(r.mask = 3);
    REFUSED(r.count = MT_RUN_ROWS + 1; r.row = 16);
    REFUSED(r.count = (uint32_t)MT_MTC_MAX_ACCESSES + 1);
    mt_mtc_device_encoder_free(e);
}

/* Whatever the bytes, the decoder stays inside them and ends; under ASan this says something. */
static void device_damage(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    static struct mt_access_run runs[400], out[BATCH];
    static uint64_t lanes[400 * SOME_LANES], room[BATCH * MT_MTC_MAX_LANES];
    struct mt_device_decoder d = {0};
    const void *payload;
    const char *why;
    uint64_t accesses;
    unsigned noticed = 0;
    (void)state;
    some_seed = 77;
    for (size_t i = 0; i < 400; i++)
        some_run(&runs[i], lanes + i * SOME_LANES, 10);
    size_t bytes = mt_mtc_encode_device(e, runs, 400, &accesses, &payload, &why), n;
    for (size_t cut = 0; cut <= bytes; cut++) {
        unsigned char *copy = malloc(bytes);
        int flip = cut % 2;
        memcpy(copy, payload, bytes);
        copy[cut % bytes] ^= (unsigned char)(1u << some_draw(8));
        size_t length = flip ? bytes : cut;
        copy = realloc(copy, length ? length : 1);
        int rc = mt_device_decode_start(&d, copy, length);
        do
            n = 0;
        while (rc == 0 && (rc = mt_device_decode_next(&d, out, room, BATCH, &n)) == 0 && n);
        assert_true(rc == 0 || d.why != NULL);
        assert_true(flip || rc != 0); /* a payload that was cut is always noticed */
        noticed += rc != 0;
        free(copy);
    }
    assert_true(noticed > bytes / 2);
    mt_device_decode_free(&d);
    mt_mtc_device_encoder_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(device_kernels), cmocka_unit_test(random_runs),
                                       cmocka_unit_test(device_rows), cmocka_unit_test(device_refused),
                                       cmocka_unit_test(device_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
