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
#include "format/container/device_decode.h"
#include "format/container/region.h"
#include "format/container/writer.h"
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
    struct mt_device_decoder d = {.features = MT_MTC_HAS_BLOCKS};
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

/* ---- loops of warps ---- */

enum { NEST = 3, PLACES = 10, LOOPED = 6000 };

/* A kernel made by chance: up to three loops, one in the other, each with accesses before and after the inner
 * one. */
struct nest {
    uint32_t loops, times[NEST], before[NEST], after[NEST], odd; /* one of `odd` accesses is otherwise */
    struct place {
        uint64_t base, by[NEST], cta, warp;
        uint32_t meta, stride, row;
    } place[PLACES];
};

struct made {
    struct mt_access_run *runs;
    size_t n;
    uint64_t cta;
    uint32_t warp, smid, at[NEST];
};

static void nest_draw(struct nest *k)
{
    static const uint64_t far[] = {0, 0, 4, 128, 1024, 4096, UINT64_MAX - 127};
    memset(k, 0, sizeof *k);
    k->loops = 1 + some_draw(NEST);
    k->odd = 1 + (1u << some_draw(14));
    for (uint32_t i = 0; i < k->loops; i++) {
        k->times[i] = 1 + some_draw(some_draw(2) ? 3 : 60);
        k->before[i] = some_draw(4);
        k->after[i] = some_draw(3);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        struct place *p = &k->place[i];
        p->base = (uint64_t)some_draw(4) << 40;
        p->cta = far[some_draw(7)];
        p->warp = far[some_draw(7)];
        for (uint32_t j = 0; j < NEST; j++)
            p->by[j] = far[some_draw(7)];
        p->meta = some_draw(2) << 28 | 4;
        p->stride = some_draw(3) * 4;
        p->row = some_draw(3) ? 0 : 16;
    }
}

static void nest_access(const struct nest *k, struct made *m, uint32_t place)
{
    const struct place *p = &k->place[place % PLACES];
    struct mt_access_run *r = &m->runs[m->n];
    if (m->n == LOOPED)
        return;
    memset(r, (int)some_draw(256), sizeof *r); /* what is between fields may be anything */
    *r = (struct mt_access_run){.base = p->base + (m->cta >> 32) * p->cta + m->warp * p->warp,
                                .cta = m->cta,
                                .warp = m->warp,
                                .smid = m->smid,
                                .meta = p->meta,
                                .stride = p->stride,
                                .row = p->row,
                                .apart = p->row ? 256 : 0,
                                .site = 4 + place,
                                .count = 32,
                                .mask = UINT32_MAX};
    for (uint32_t i = 0; i < NEST; i++)
        r->base += m->at[i] * p->by[i];
    switch (some_draw(k->odd)) {
    case 0:
        r->base += 4 * some_draw(3);
        r->stride += 4 * some_draw(2);
        if (some_draw(3))
            break;
        r->count = 1 + some_draw(32);
        r->mask = UINT32_MAX >> (32 - r->count);
        break;
    case 1:
        return;
    }
    m->n++;
}

static void nest_loop(const struct nest *k, struct made *m, uint32_t loop)
{
    if (loop == NEST)
        return;
    for (m->at[loop] = 0; m->at[loop] < k->times[loop]; m->at[loop]++) {
        for (uint32_t i = 0; i < k->before[loop]; i++)
            nest_access(k, m, 4 * loop + i);
        if (loop + 1 < k->loops && loop + 1 < NEST)
            nest_loop(k, m, loop + 1);
        for (uint32_t i = 0; i < k->after[loop]; i++)
            nest_access(k, m, 4 * loop + i + !some_draw(k->odd));
    }
}

/* A warp that has been, or a new one, of a CTA before; then the same warp once more. */
static void nest_back(const struct nest *k, struct made *m)
{
    struct made now = *m;
    m->cta -= (uint64_t)some_draw(3) << 32;
    m->warp += some_draw(2) * 100;
    nest_loop(k, m, 0);
    m->cta = now.cta;
    m->warp = now.warp;
    nest_loop(k, m, 0);
}

/* A CTA after the other, or some of them before their neighbours, or once more with a warp that it had not.
 */
static void nest_run(const struct nest *k, struct made *m)
{
    static const uint32_t first[] = {0, 0, UINT32_MAX - 2};
    uint32_t warps = 1 + some_draw(9), from = first[some_draw(3)], turn = some_draw(3) ? 0 : some_draw(16),
             again = some_draw(3) ? UINT32_MAX : 1 + some_draw(30);
    for (uint32_t c = 0; c < 3000 && m->n < LOOPED; c++) {
        m->cta = (uint64_t)((c % again ^ turn) + from) << 32 | (c / 5 & 1 & turn) << 16;
        m->smid += !some_draw(k->odd);
        for (m->warp = c < again && again != UINT32_MAX; m->warp < warps; m->warp++) {
            nest_loop(k, m, 0);
            if (!some_draw(k->odd))
                nest_back(k, m);
        }
    }
}

/* Adds the runs in batches of at most so many; returns the chunk's bytes. */
static size_t device_batches(struct mt_mtc_device_encoder *e, const struct made *m, size_t most,
                             const void **payload)
{
    const char *why = mt_mtc_device_begin(e, LOOPED);
    uint64_t items, sum = 0;
    for (size_t i = 0, n; i < m->n; i += n) {
        n = m->n - i < most ? m->n - i : most;
        struct mt_mtc_place at = {0};
        assert_int_equal(mt_mtc_device_add(e, m->runs + i, n, &at, &why), 1);
        assert_int_equal(at.run, n);
    }
    assert_null(why);
    size_t bytes = mt_mtc_device_end(e, &items, payload);
    for (size_t i = 0; i < m->n; i++)
        sum += m->runs[i].count;
    assert_int_equal(items, sum);
    return bytes;
}

/* What is left out of many runs at once is encoded one by one when they come one by one: the same bytes. */
static void device_loops(void **state)
{
    struct mt_mtc_device_encoder *one = mt_mtc_device_encoder_new(), *all = mt_mtc_device_encoder_new();
    struct made m = {.runs = malloc(LOOPED * sizeof *m.runs)};
    (void)state;
    for (some_seed = 1; some_seed < 400; some_seed++) {
        uint64_t seed = some_seed;
        const void *single, *whole;
        struct nest k;
        nest_draw(&k);
        m.n = m.smid = 0;
        nest_run(&k, &m);
        size_t bytes = device_batches(one, &m, 1, &single);
        assert_int_equal(device_batches(all, &m, seed % 3 ? 512 : LOOPED, &whole), bytes);
        assert_memory_equal(whole, single, bytes);
        device_same(m.runs, m.n, whole, bytes);
        some_seed = seed;
    }
    free(m.runs);
    mt_mtc_device_encoder_free(one);
    mt_mtc_device_encoder_free(all);
}

/* ---- regions ---- */

enum { REGIONS = 6, UNITS = 600 };

/* Descriptions of regions made by chance. */
struct described {
    struct mt_region g;
    struct mt_region_access room[MT_REGION_ACCESSES];
};

static void regions_describe(struct described *d)
{
    struct mt_region *g = &d->g;
    memset(d, 0, sizeof *d);
    g->n = 1 + some_draw(some_draw(3) ? 5 : MT_REGION_ACCESSES);
    g->loop = some_draw(3) == 0;
    for (uint32_t i = 0; i < g->n; i++) {
        g->access[i] = (struct mt_region_access){.meta = some_draw(3) << 28 | 1u << some_draw(5),
                                                 .site = 1 + some_draw(1000),
                                                 .rows = (uint16_t)(1 + some_draw(2)),
                                                 .first = (uint16_t)g->bases,
                                                 .stride = (int32_t)(some_draw(5) * 4) - 4};
        g->bases += g->access[i].rows;
    }
    g->units = mt_region_word(g->bases - 1 + (g->loop ? 1 + g->n : 0)) / MT_REGION_WORDS + 1;
}

/* Makes an entry of a warp: most are as far from the one before as that was from its own. */
static void regions_entry(uint64_t *word, const struct mt_region *g, uint64_t cta, uint32_t warp,
                          uint32_t smid, uint64_t laps)
{
    for (uint32_t i = 0; i < g->units * MT_REGION_WORDS; i++)
        word[i] = some_draw(1u << 30); /* what is between the words may be anything */
    word[MT_REGION_OF] = (uint64_t)(uintptr_t)g;
    word[MT_REGION_CTA] = cta;
    word[MT_REGION_WARP] = smid | (uint64_t)warp << 32;
    word[MT_REGION_BASE] = (uint64_t)(g->n % 3) << 32;
    word[MT_REGION_ZERO] = 0;
    for (uint32_t b = 0; b < g->bases; b++)
        word[mt_region_word(b)] = ((uint64_t)(b % 5) << 40) + (cta >> 32) * 1024 +
                                  (some_draw(50) ? warp * 128 : some_draw(512) * 4);
    if (!g->loop)
        return;
    word[mt_region_word(g->bases)] = laps;
    for (uint32_t i = 0; i < g->n; i++)
        word[mt_region_word(g->bases + 1 + i)] = some_draw(60) ? (uint64_t)i * 4 - 4 : some_draw(99);
}

/* Makes entries of warps of CTAs, with runs between some. Returns the units; the runs they stand for are
 * added to `all`. */
static size_t regions_make(struct mt_access_run *to, const struct described *d, struct made *all)
{
    size_t n = 0;
    uint32_t warps = 1 + some_draw(9), smid = some_draw(3), odd = 2 + some_draw(200);
    const struct mt_region *g = &d[some_draw(REGIONS)].g;
    for (uint64_t cta = some_draw(100); n < UNITS - 40; cta++, smid = (smid + 1) % 4)
        for (uint32_t warp = some_draw(20) ? 0 : some_draw(5); warp < warps && n < UNITS - 40; warp++) {
            g = some_draw(odd) ? g : &d[some_draw(REGIONS)].g;
            uint64_t laps = g->loop ? 1 + some_draw(some_draw(4) ? 3 : 70) : 1,
                     *word = (uint64_t *)(void *)&to[n];
            if (all->n + laps * g->n + 1 > LOOPED)
                return n;
            regions_entry(word, g, cta << 32 | some_draw(odd) / (odd - 1), warp, smid, laps);
            for (uint64_t lap = 0; lap < laps; lap++)
                for (uint32_t i = 0; i < g->n; i++)
                    mt_region_run(g, word, i, lap, &all->runs[all->n++]);
            n += g->units;
            if (some_draw(odd))
                continue;
            to[n] = all->runs[all->n - 1];
            to[n].base += 4 * some_draw(9);
            all->runs[all->n++] = to[n++];
        }
    return n;
}

/* Regions come back as the runs that they stand for, whatever is in one chunk and one call; and damaged
 * chunks end. */
static void device_regions(void **state)
{
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    struct mt_access_run *entries = aligned_alloc(64, UNITS * sizeof *entries),
                         *out = malloc(BATCH * sizeof *out);
    struct made all = {.runs = malloc(LOOPED * sizeof *all.runs)};
    uint64_t *room = malloc(BATCH * MT_MTC_MAX_LANES * sizeof *room);
    struct described d[REGIONS];
    uint64_t chunks = 0, bytes_of_all = 0, runs_of_all = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 400; seed++) {
        some_seed = seed;
        for (int i = 0; i < REGIONS; i++)
            regions_describe(&d[i]);
        all.n = 0;
        size_t n = regions_make(entries, d, &all), begun = 0, done = 0;
        struct mt_mtc_place at = {0};
        const char *why = NULL;
        while (at.run < n) {
            size_t chunk = some_draw(3) ? 100 + some_draw(400) : 100000;
            why = mt_mtc_device_begin(e, chunk);
            assert_null(why);
            uint64_t items;
            const void *payload;
            assert_true(mt_mtc_device_add(e, entries, n, &at, &why));
            assert_null(why);
            size_t bytes = mt_mtc_device_end(e, &items, &payload);
            assert_int_equal(items % MT_MTC_MAX_LANES, 0);
            done = begun + items / MT_MTC_MAX_LANES;
            assert_true(done <= all.n);
            device_same(all.runs + begun, done - begun, payload, bytes);
            for (int k = 0; k < 20; k++) {
                struct mt_device_decoder decoder = {.features = MT_MTC_HAS_BLOCKS};
                unsigned char *copy = malloc(bytes);
                memcpy(copy, payload, bytes);
                copy[some_draw((uint32_t)bytes)] ^= (unsigned char)(1u << some_draw(8));
                size_t got, most = 0;
                int rc = mt_device_decode_start(&decoder, copy, bytes);
                while (rc == 0 && (rc = mt_device_decode_next(&decoder, out, room, BATCH, &got)) == 0 &&
                       got && most < 40)
                    most++;
                assert_true(rc == 0 || decoder.why != NULL);
                mt_device_decode_free(&decoder);
                free(copy);
            }
            begun = done;
            chunks++;
            bytes_of_all += bytes;
        }
        assert_int_equal(done, all.n);
        runs_of_all += all.n;
    }
    assert_true(chunks > 1000 && bytes_of_all < 4 * runs_of_all); /* one run alone has 1 byte to 30 */
    free(entries);
    free(out);
    free(room);
    free(all.runs);
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
                                       cmocka_unit_test(device_rows),    cmocka_unit_test(device_refused),
                                       cmocka_unit_test(device_loops),   cmocka_unit_test(device_regions),
                                       cmocka_unit_test(device_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
