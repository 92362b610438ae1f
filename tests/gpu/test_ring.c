/* Packets as format/packet.h describes them, built by hand,
 * against the ring's reader and the expansion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "gpu/rings.h"

#define SLOTS 64

struct rig {
    struct mt_slot slots[SLOTS];
    uint64_t tail;
    struct mt_ring ring;
};

static void ring_setup(struct rig *rig, uint64_t at)
{
    memset(rig, 0, sizeof *rig);
    rig->ring = (struct mt_ring){rig->slots, &rig->tail, SLOTS - 1, at, 0};
    rig->tail = at;
}

/* Writes words of 63 bits from position `at` on, with their tags: set in even laps of the ring, clear in odd
 * ones. In any order: the last one first. */
static void ring_put(struct mt_slot *slots, uint64_t at, const uint64_t *words, unsigned n)
{
    for (unsigned i = n; i-- > 0;) {
        uint64_t position = at + i / 4, tag = position / SLOTS % 2 ? 0 : 1ull << 63;
        uint64_t word = words[i] | tag;
        __atomic_store_n(&slots[position % SLOTS].w[i % 4], word, __ATOMIC_RELAXED);
    }
}

static void check_record(const struct mt_raw_record *r, unsigned smid, unsigned type, uint64_t size,
                         uint64_t address, uint64_t cta)
{
    assert_int_equal(r->w[0] >> 32, smid);
    assert_int_equal(r->w[0] >> 28 & 15, type);
    assert_int_equal(r->w[0] & 0xfffffff, size);
    assert_true(r->w[1] == address);
    assert_true(r->w[2] == cta);
}

/* The first two words: kind, type, warp, SM, context, x; mask, site. */
static uint64_t ring_first(uint64_t kind, uint64_t type, uint64_t warp, uint64_t sm, uint64_t context,
                           uint64_t x)
{
    return kind << 60 | type << 56 | warp << 51 | sm << 40 | context << 28 | x;
}
#define SECOND(mask, site) ((uint64_t)(mask) << 31 | (site))

/* The records that a raw trace has of a packet, from number `from` on. */
static size_t ring_expand(const struct mt_packet *p, uint64_t from, struct mt_raw_record *out, size_t cap)
{
    static struct mt_gather g;
    struct mt_raw_record all[32];
    size_t n = 0, made = 0;
    mt_gather_clear(&g);
    if (mt_packet_count(p))
        mt_gather_put(&g, p, 0, 0);
    for (size_t i = 0; i < g.runs; i++) {
        size_t count = mt_run_expand(&g.run[i], all);
        for (size_t k = 0; k < count; k++, n++)
            if (n >= from && made < cap)
                out[made++] = all[k];
    }
    return made;
}

static void ring_regular(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    ring_setup(&rig, 3);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
    /* lanes 0, 3, 31 of warp 3 store 8 bytes each at 0x1000, 0xff8, 0xff0: going down by 8. -8 in 30 bits is
     * 0x3ffffff8: its upper 16 bits are 0xffff, its lower 14 0x3ff8. */
    uint64_t words[] = {ring_first(1, 1, 3, 77, 5, 8 << 16 | 0xffff), SECOND(0x80000009, 42),
                        0x123456789abc0def, 0x3ff8ull << 49 | 0x1000};
    ring_put(rig.slots, 3, words, 4);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(p.kind, MT_PACKET_REGULAR);
    assert_int_equal(p.context, 5);
    assert_int_equal(p.site, 42);
    assert_int_equal(p.warp, 3);
    assert_true(p.words[0] == 0x1000 && p.words[1] == (uint64_t)-8);
    assert_int_equal(mt_packet_count(&p), 3);
    assert_int_equal(ring_expand(&p, 0, r, 40), 3);
    for (unsigned i = 0; i < 3; i++)
        check_record(&r[i], 77, MT_STORE, 8, 0x1000 - 8 * i, 0x123456789abc0def);
    assert_int_equal(ring_expand(&p, 2, r, 40), 1);
    check_record(&r[0], 77, MT_STORE, 8, 0xff0, 0x123456789abc0def);
    assert_int_equal(rig.tail, 3);
    mt_ring_publish(&rig.ring);
    assert_int_equal(rig.tail, 4);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
}

/* The packet of the lap before is not a packet: nobody cleans slots. */
static void ring_laps(void **state)
{
    struct rig rig;
    struct mt_packet p;
    ring_setup(&rig, 0);
    for (uint64_t at = 0; at < 5 * SLOTS; at++) {
        uint64_t words[] = {ring_first(1, 0, 0, 1, 5, 4 << 16), SECOND(1, 0), at, 0x1000 + at};
        assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
        for (unsigned missing = 0; missing < 4; missing++) { /* all words but one are not a packet either */
            struct mt_slot before = rig.slots[at % SLOTS];
            ring_put(rig.slots, at, words, 4);
            rig.slots[at % SLOTS].w[missing] = before.w[missing];
            assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
            rig.slots[at % SLOTS] = before;
        }
        ring_put(rig.slots, at, words, 4);
        assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
        assert_true(p.cta == at && p.words[0] == 0x1000 + at && p.words[1] == 0);
    }
}

static void ring_lanes(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    ring_setup(&rig, 63); /* wraps: the second slot is of the next lap */
    /* three lanes load 4096 bytes at unrelated places; the last word is void */
    uint64_t words[] = {
        ring_first(3, 0, 0, 1, 9, 4096), SECOND(0x70, 8), 7, 0, 0xaaa0, 0x7fffffffffffffff, 0xccc0, 0xdead};
    ring_put(rig.slots, 63, words, 7);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1); /* a tag of 0 is what memory begins with */
    ring_setup(&rig, 2 * SLOTS - 1);
    ring_put(rig.slots, 2 * SLOTS - 1, words, 7);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
    ring_put(rig.slots, 2 * SLOTS - 1, words, 8);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(ring_expand(&p, 0, r, 2), 2);
    check_record(&r[0], 1, MT_LOAD, 4096, 0xaaa0, 7);
    check_record(&r[1], 1, MT_LOAD, 4096, 0x7fffffffffffffff, 7);
    assert_int_equal(ring_expand(&p, 2, r, 2), 1);
    check_record(&r[0], 1, MT_LOAD, 4096, 0xccc0, 7);
}

static void ring_deltas(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    ring_setup(&rig, 0);
    /* ten lanes: the first at 0x100000, then 1 to 8 words of 4 bytes after it, the last 2^30 in front of it.
     * Nine differences in five words need two slots; three words are void. */
    uint64_t words[12] = {ring_first(2, 2, 0, 1, 9, 4), SECOND(0x3ff, 8), 7, 0x100000};
    for (unsigned i = 0; i < 4; i++)
        words[4 + i] = (uint64_t)(8 * i + 8) << 31 | (8 * i + 4);
    words[8] = 0x40000000;
    ring_put(rig.slots, 0, words, 11);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0); /* not even the last void word may be missing */
    ring_put(rig.slots, 0, words, 12);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(rig.ring.at, 3);
    assert_int_equal(ring_expand(&p, 0, r, 40), 10);
    for (unsigned i = 0; i < 9; i++)
        check_record(&r[i], 1, MT_ATOMIC, 4, 0x100000 + 4 * i, 7);
    check_record(&r[9], 1, MT_ATOMIC, 4, 0x100000 - 0x40000000ull, 7);
}

/* A launch that ended, and a place that was not needed: no records. */
static void ring_without_records(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[32];
    ring_setup(&rig, 0);
    for (uint64_t kind = 5, at = 0; kind < 7; kind++, at += 2) {
        uint64_t words[] = {ring_first(kind, 0, 1, 2, 9, 0), SECOND(0xff00ff, 7), 4, 3, 11, 12, 0, 0};
        ring_put(rig.slots, at, words, kind == 5 ? 8 : 4);
        assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
        assert_int_equal(p.kind, kind);
        assert_int_equal(p.mask, 0xff00ff);
        assert_int_equal(p.site, 7);
        assert_int_equal(p.context, 9);
        assert_true(kind != 5 || (p.words[0] == 3 && p.words[1] == 11 && p.words[2] == 12));
        assert_int_equal(mt_packet_count(&p), 0);
        assert_int_equal(ring_expand(&p, 0, r, 32), 0);
    }
    (void)state;
}

/* Where an instruction lies and the number that stands for it, on both sides of the base and at the ends. */
static void ring_sites(void **state)
{
    uint64_t code = 0x7f1234567000, gib = 1ull << 30;
    assert_int_equal(mt_packet_site_of(code + 0x120, code), 0x12);
    assert_int_equal(mt_packet_site_of(code - 16, code), 0x3fffffff);
    assert_true(mt_packet_pc_of(0x12, code) == code + 0x120);
    assert_true(mt_packet_pc_of(0x3fffffff, code) == code - 16);
    assert_true(mt_packet_pc_of(mt_packet_site_of(code - 8 * gib, code), code) == code - 8 * gib);
    assert_true(mt_packet_pc_of(mt_packet_site_of(code + 8 * gib - 16, code), code) == code + 8 * gib - 16);
    assert_int_equal(mt_packet_site_of(code + 8 * gib, code), MT_SITE_UNKNOWN);
    assert_int_equal(mt_packet_site_of(code - 8 * gib - 16, code), MT_SITE_UNKNOWN);
    assert_int_equal(mt_packet_site_of(code + 8, code), MT_SITE_UNKNOWN);
    assert_true(mt_packet_pc_of(MT_SITE_UNKNOWN, code) == 0);
    (void)state;
}

/* A block that is longer than any memory is damage. */
static void ring_endless_block(void **state)
{
    struct rig rig;
    struct mt_packet p;
    ring_setup(&rig, 0);
    const uint64_t words[8] = {4ull << 60, SECOND(1u, 7), 0, 0, 0x1000, 1ull << 41, 0, 0}, tag = 1ull << 63;
    for (unsigned i = 0; i < 8; i++)
        rig.slots[i / 4].w[i % 4] = words[i] | tag;
    assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
    assert_int_equal(rig.ring.damaged, 1);
    (void)state;
}

/* Packets of all kinds into a ring full of anything from the lap before, word by word in any order: none is
 * taken before its last word is there, and all are taken then. */
static void word_by_word(void **state)
{
    struct rig rig;
    struct mt_packet p;
    ring_setup(&rig, 0);
    srandom(1);
    for (unsigned i = 0; i < SLOTS; i++) /* as if lap -1 had been: its tags are those of lap 1 */
        for (unsigned k = 0; k < 4; k++)
            rig.slots[i].w[k] = ((uint64_t)random() << 32 ^ (uint64_t)random()) & ~(1ull << 63);
    for (uint64_t at = 0, turn = 0; turn < 2000; turn++) {
        uint64_t words[68], slots, n = 1 + (unsigned)random() % 32, kind = 1 + turn % 4;
        slots = kind == 1 ? 1 : 1 + (kind == 2 ? n / 2 + 3 : kind == 3 ? n + 3 : 2 * n + 3) / 4;
        for (unsigned i = 0; i < 4 * slots; i++)
            words[i] = ((uint64_t)random() << 32 ^ (uint64_t)random()) & ~(1ull << 63);
        for (unsigned i = 5; kind == 4 && i < 4 * slots; i += 2)
            words[i] &= (1ull << 40) - 1; /* bytes of a block */
        words[0] = (words[0] & ~0ull >> 4) | kind << 60;
        words[1] = SECOND(n == 32 ? ~0u : (1u << n) - 1, turn);
        unsigned order[68], total = (unsigned)(4 * slots);
        for (unsigned i = 0; i < total; i++) {
            unsigned j = (unsigned)random() % (i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (unsigned i = 0; i < total; i++) {
            assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
            uint64_t position = at + order[i] / 4, tag = position / SLOTS % 2 ? 0 : 1ull << 63;
            rig.slots[position % SLOTS].w[order[i] % 4] = words[order[i]] | tag;
        }
        assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
        assert_true(p.site == turn && p.cta == words[2]);
        at += slots;
        assert_true(rig.ring.at == at);
    }
}

static void ring_blocks(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    uint64_t most = (1u << 28) - 1;
    ring_setup(&rig, 0);
    uint64_t words[] = {ring_first(4, 1, 0, 0, 0, 0), SECOND(3, 8), 7, 0, 0x1000, 2 * most + 5, 0x2000, most};
    ring_put(rig.slots, 0, words, 8);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(mt_packet_count(&p), 4);
    assert_int_equal(ring_expand(&p, 0, r, 40), 4);
    check_record(&r[0], 0, MT_STORE, most, 0x1000, 7);
    check_record(&r[1], 0, MT_STORE, most, 0x1000 + most, 7);
    check_record(&r[2], 0, MT_STORE, 5, 0x1000 + 2 * most, 7);
    check_record(&r[3], 0, MT_STORE, most, 0x2000, 7);
    for (unsigned from = 0; from < 4; from++) { /* one by one gives the same */
        struct mt_raw_record one;
        assert_int_equal(ring_expand(&p, from, &one, 1), 1);
        assert_memory_equal(&one, &r[from], sizeof one);
    }
}

static void check_run(const struct mt_access_run *r, uint32_t mask, uint32_t count, uint64_t base,
                      uint32_t meta)
{
    assert_int_equal(r->mask, mask);
    assert_int_equal(r->count, count);
    assert_true(r->base == base);
    assert_int_equal(r->meta, meta);
    assert_true(r->cta == 0x500060007u);
    assert_int_equal(r->smid, 3);
    assert_int_equal(r->warp, 9);
    assert_int_equal(r->site, 77);
}

/* Packets as runs: warps and sites stay, lanes with block copies of their own lengths come one by one. */
static void ring_gathered(void **state)
{
    static struct mt_gather g, other;
    struct mt_packet p = {.kind = MT_PACKET_REGULAR,
                          .smid = 3,
                          .mask = 0xf0f0,
                          .meta = 1u << 28 | 4,
                          .site = 5,
                          .warp = 9,
                          .cta = 0x500060007u,
                          .words = {4096, (uint64_t)-4}};
    mt_gather_clear(&g);
    assert_int_equal(mt_gather_put(&g, &p, 0, 77), 8);
    check_run(&g.run[0], 0xf0f0, 8, 4096, 1u << 28 | 4);
    assert_int_equal(g.run[0].stride, -4);
    assert_null(g.run[0].addresses);
    p.kind = MT_PACKET_LANES;
    p.mask = 0x80000005;
    p.words[2] = 12345;
    assert_int_equal(mt_gather_put(&g, &p, 0, 77), 3);
    check_run(&g.run[1], 0x80000005, 3, 4096, 1u << 28 | 4);
    assert_memory_equal(g.run[1].addresses, p.words, 3 * sizeof *p.words);
    memcpy(&other, &g, sizeof g);
    other.run[1].addresses = other.address;
    assert_int_equal(mt_gather_join(&g, &other), 1);
    memset(&other, 0x5a, sizeof other); /* nothing of it is asked for any more */
    check_run(&g.run[2], 0xf0f0, 8, 4096, 1u << 28 | 4);
    check_run(&g.run[3], 0x80000005, 3, 4096, 1u << 28 | 4);
    assert_ptr_equal(g.run[3].addresses, g.address + 3);
    assert_memory_equal(g.run[3].addresses, p.words, 3 * sizeof *p.words);
    assert_int_equal(g.accesses, 22);
    other.addresses = 0;
    other.runs = MT_GATHER_RUNS - 3;
    assert_int_equal(mt_gather_join(&g, &other), 0);
    g.runs = 2;
    g.accesses = 11;
    const uint64_t most = MT_RAW_MAX_SIZE, pieces = MT_GATHER_RUNS + 100;
    p.kind = MT_PACKET_BLOCKS;
    p.mask = 6;
    p.meta = 2u << 28;
    p.words[0] = 64;
    p.words[1] = 10;
    p.words[2] = 1 << 20;
    p.words[3] = pieces * most - 1;
    assert_int_equal(mt_gather_put(&g, &p, 0, 77), MT_GATHER_RUNS - 2);
    check_run(&g.run[2], 2, 1, 64, 2u << 28 | 10);
    check_run(&g.run[3], 4, 1, 1 << 20, (uint32_t)(2u << 28 | most));
    assert_int_equal(g.accesses, 8 + 3 + MT_GATHER_RUNS - 2);
    assert_int_equal(mt_gather_put(&g, &p, 1, 77), 0); /* full */
    mt_gather_clear(&g);
    uint64_t before = MT_GATHER_RUNS - 2, left = mt_packet_count(&p) - before;
    assert_int_equal(mt_gather_put(&g, &p, before, 77), left);
    assert_int_equal(g.accesses, left);
    check_run(&g.run[0], 4, 1, (1 << 20) + (before - 1) * most, (uint32_t)(2u << 28 | most));
    check_run(&g.run[left - 1], 4, 1, (1 << 20) + (pieces - 1) * most, (uint32_t)(2u << 28 | (most - 1)));
}

static void ring_damaged(void **state)
{
    for (uint64_t kind = 0; kind < 8; kind += 7) { /* 0, 7: there are no such kinds */
        struct rig rig;
        struct mt_packet p;
        uint64_t words[] = {ring_first(kind, 0, 0, 0, 0, 0), SECOND(1, 0), 0, 0};
        ring_setup(&rig, 0);
        ring_put(rig.slots, 0, words, 4);
        assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
        memset(rig.slots, 0, sizeof rig.slots);
        assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
    }
    struct rig rig;
    struct mt_packet p;
    uint64_t words[] = {ring_first(1, 0, 0, 0, 0, 0), SECOND(0, 0), 0, 0}; /* nobody active */
    ring_setup(&rig, 0);
    ring_put(rig.slots, 0, words, 4);
    assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
}

/* ---- many writers, a small ring ----------------------------------------------------------------- */

#define WRITERS 4
#define PACKETS 20000
static struct rig shared;
static _Atomic uint64_t head;

static void *ring_writer(void *data)
{
    uint64_t id = (uint64_t)(uintptr_t)data;
    for (uint64_t i = 0; i < PACKETS; i++) {
        unsigned n = 1 + (unsigned)((i * 7 + id) % 32); /* active lanes */
        unsigned slots = 1 + (n + 3) / 4;
        uint64_t words[36] = {ring_first(3, 0, 0, 0, id, 4), SECOND(n == 32 ? ~0u : (1u << n) - 1, 0), id, 0};
        for (unsigned k = 0; k < n; k++)
            words[4 + k] = id << 48 | i << 8 | k;
        uint64_t at = head;
        while (!__atomic_compare_exchange_n(&head, &at, at + slots, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        while (at + slots - __atomic_load_n(&shared.tail, __ATOMIC_ACQUIRE) > SLOTS)
            sched_yield();
        ring_put(shared.slots, at, words, 4 * slots);
    }
    return NULL;
}

static void ring_concurrent(void **state)
{
    pthread_t threads[WRITERS];
    uint64_t next[WRITERS] = {0}, taken = 0;
    ring_setup(&shared, 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, ring_writer, (void *)i);
    while (taken < (uint64_t)WRITERS * PACKETS) {
        struct mt_packet p;
        struct mt_raw_record r[32];
        int got = mt_ring_take(&shared.ring, &p);
        assert_true(got >= 0);
        if (!got) {
            mt_ring_publish(&shared.ring);
            sched_yield();
            continue;
        }
        assert_true(p.context < WRITERS && p.cta == p.context);
        uint64_t i = next[p.context]++;
        unsigned n = 1 + (unsigned)((i * 7 + p.context) % 32);
        assert_int_equal(ring_expand(&p, 0, r, 32), n);
        for (unsigned k = 0; k < n; k++)
            assert_true(r[k].w[1] == ((uint64_t)p.context << 48 | i << 8 | k));
        if (++taken % 3 == 0)
            mt_ring_publish(&shared.ring);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_regular),       cmocka_unit_test(ring_without_records),
        cmocka_unit_test(ring_sites),         cmocka_unit_test(ring_laps),
        cmocka_unit_test(ring_lanes),         cmocka_unit_test(ring_deltas),
        cmocka_unit_test(ring_endless_block), cmocka_unit_test(word_by_word),
        cmocka_unit_test(ring_blocks),        cmocka_unit_test(ring_gathered),
        cmocka_unit_test(ring_damaged),       cmocka_unit_test(ring_concurrent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
